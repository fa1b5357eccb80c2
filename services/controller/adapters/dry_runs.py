"""Asks the API server what it would make of pods, once for all jobs of one template."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from services.controller.adapters.api import Api
from services.controller.adapters.hands import together
from services.controller.adapters.shape_cache import Shapes
from services.controller.core.dryrun import Admitted, read_admitted, template_digest, trial_pod, write_shapes
from services.controller.core.limits import Change
from services.controller.core.model import JSON, Priorities, Task, Wanted
from services.controller.core.plans import World
from shared.api import resources as r
from shared.clock import Clock
from shared.errors import Conflict, NotFound, Refused, Unavailable
from shared.keyed import KeyedLocks

_LIMIT: Final = 4096
"""Templates whose answers are kept."""
_FIRST_PAUSE: Final = 1.0
_LAST_PAUSE: Final = 30.0
"""Seconds between two tries of a template that was refused."""
SETTLES: Final = 1.0
"""Seconds until the API server goes by a change that we have seen: it has a view of its own."""
_WEBHOOK: Final = "webhook"
"""In what the API server says of a webhook that it could not ask, or that denied; with any code, also those
of its own failures."""
_NUMBERS: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server says of one template: ``admitted``, or why it is ``refused``."""

    admitted: Admitted | None
    refused: str
    due: float
    """Monotonic time at which it is asked again."""
    said: float
    """Monotonic time at which it was given."""
    tries: int = 0
    """Refusals in a row."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What it says of a whole gang."""

    shapes: str
    """For the PodGroup's annotation; empty when some task is refused."""
    refused: str
    due: float


class DryRuns:
    """Answers by template, for ``age`` seconds; of many who ask about one template at once, one does."""

    def __init__(self, api: Api, clock: Clock, shapes: Shapes, *, age: float) -> None:
        self._api = api
        self._shapes = shapes
        self._clock = clock
        self._age = age
        self._known: OrderedDict[str, Answer] = OrderedDict()
        self._locks = KeyedLocks()
        self._doubts: dict[tuple[str, Change], float] = {}
        """By namespace: from when on answers given before are asked for anew."""

    def doubt(self, namespace: str, change: Change) -> None:
        """Ask anew, soon, about the templates of a namespace, or about those of them that were refused.

        Many changes in a row are one: a template is asked about once in that time.
        """
        now = self._clock.monotonic()
        if self._doubts.get((namespace, change), now) <= now:
            self._doubts[namespace, change] = now + SETTLES

    def version(self, namespace: str) -> float:
        """Return what becomes another when answers about a namespace are to be asked for anew."""
        since = self._doubts.get((namespace, Change.RULES), 0.0)
        return since if since <= self._clock.monotonic() else 0.0

    def holds_until(self, namespace: str, due: float) -> float:
        """Return until when an answer holds that is given now, and without other rules until ``due``."""
        at = self._doubts.get((namespace, Change.RULES), 0.0)
        return min(due, at) if at > self._clock.monotonic() else due

    async def ask(self, world: World) -> Verdict:
        """Return what the API server says of a job's pods. Raises Unavailable when it says nothing."""
        tasks = world.wanted.tasks
        answers = await together(self._ask_one(world, task) for task in tasks)
        due = min((one.due for one in answers), default=self._clock.monotonic() + self._age)
        for number, one in enumerate(answers):
            if one.admitted is None:
                return Verdict("", f"spec.tasks[{number}].template: {one.refused}", one.due)
        found = zip(tasks, answers, strict=True)
        return Verdict(write_shapes({t.name: a.admitted for t, a in found if a.admitted}), "", due)

    def compare(self, wanted: Wanted, task: Task, pod: JSON, priorities: Priorities) -> None:
        """Ask anew about a template of which a pod came out otherwise, unless that was asked just now."""
        key = template_digest(wanted, task, priorities)
        known = self._known.get(key)
        if known is None or known.said + _LAST_PAUSE > self._clock.monotonic():
            return
        said = known.admitted and known.admitted.shape_now(priorities)
        try:
            shape = self._shapes.of(pod, priorities)
        except ValueError:  # it is no fact then, either
            return
        if said is not None and said != shape:
            del self._known[key]

    async def _ask_one(self, world: World, task: Task) -> Answer:
        key = template_digest(world.wanted, task, world.priorities)
        async with self._locks(key):
            known = self._known.get(key)
            if known is not None and self._doubted(world.wanted.namespace, known):
                known = replace(known, due=known.said, tries=0)
            if known is None or known.due <= self._clock.monotonic():
                known = self._known[key] = await self._try(world, task, known)
            self._known.move_to_end(key)
            while len(self._known) > _LIMIT:
                self._known.popitem(last=False)
        return known

    def _doubted(self, namespace: str, known: Answer) -> bool:
        changes = (Change.RULES,) if known.admitted else (Change.RULES, Change.FREED)
        times = (self._doubts.get((namespace, change), 0.0) for change in changes)
        return any(known.said < at <= self._clock.monotonic() for at in times)

    async def _try(self, world: World, task: Task, before: Answer | None) -> Answer:
        body = trial_pod(world, task)
        try:
            pod = await self._api.dry_run(r.PODS, world.wanted.namespace, body)
            admitted = read_admitted(pod, world.priorities)
        except (Conflict, NotFound, Refused, Unavailable, ValueError) as error:
            text = _about_template(error, body["metadata"]["name"])
            if isinstance(error, Refused | ValueError) or _WEBHOOK in text:
                return self._refused(text, before)
            raise
        now = self._clock.monotonic()
        return Answer(admitted, "", now + self._age, now)

    def _refused(self, text: str, before: Answer | None) -> Answer:
        """Note a refusal; one that differs from the last in its numbers alone is told once."""
        tries = 0 if before is None else before.tries
        if before is not None and _NUMBERS.sub("0", before.refused) == _NUMBERS.sub("0", text):
            text = before.refused
        pause = min(_LAST_PAUSE, _FIRST_PAUSE * 2.0 ** min(tries, 16))
        now = self._clock.monotonic()
        return Answer(None, text, now + pause, now, tries + 1)


def _about_template(error: Exception, name: str) -> str:
    """Return what the API server said without the request and the pod's name: it is about all such pods."""
    said = re.sub(r"^POST \S+: ", "", str(error))
    return " ".join(said.replace(f' "{name}"', "").split())
