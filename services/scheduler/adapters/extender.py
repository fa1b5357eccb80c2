"""Asks an extender what the model lacks, and writes on the log what it said.

Only what somebody wants to know is asked: about nodes that the model noted it knows nothing of; for gangs
that wait also about nodes that changed or could not be asked about, and anew when answers are old. Scheduling
does not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable, Iterable
from math import inf
from typing import Any, Final, NoReturn

import aiohttp

from services.scheduler.adapters.extender_http import Unanswered, predicate, prioritize, written
from services.scheduler.adapters.extender_line import Asked, Line, Say, silent
from services.scheduler.adapters.extender_votes import VoteAsker
from services.scheduler.adapters.metrics import Metrics
from services.scheduler.core import asking
from services.scheduler.core.answers import Known, Verdict
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Extender
from shared.clock import Clock
from shared.events import topics
from shared.log.port import Record
from shared.service import Ids
from shared.telemetry.telemetry import Telemetry

_TOGETHER: Final = 0.05
"""Changes so soon after each other are asked about together."""
_AT_ONCE: Final = 32
"""Requests at a time."""
_MOST_QUESTIONS: Final = 500
"""Answers that are remembered."""


class Asker:
    """Asks for one pool. ``say`` appends records to the log, however long that takes."""

    def __init__(
        self,
        model: Model,
        *,
        refresh: float,
        clock: Clock,
        say: Say,
        ids: Ids,
        telemetry: Telemetry,
        metrics: Metrics,
    ) -> None:
        self._model = model
        self._answers = model.nodes.answers
        self._refresh = refresh
        self._clock = clock
        self._say = say
        self._line = Line(model.pool, clock=clock, say=say, ids=ids, telemetry=telemetry, metrics=metrics)
        self._votes = VoteAsker(model, self._line, refresh=refresh, clock=clock, say=say)
        self._event = asyncio.Event()
        self._asked: dict[str, Asked] = {}
        self._tokens: dict[str, Hashable] = {}
        self._seen = -1

    def notice(self) -> None:
        """Something changed: there may be something to ask."""
        self._event.set()

    async def run(self) -> NoReturn:
        """Ask until cancelled."""
        connector = aiohttp.TCPConnector(limit=_AT_ONCE)
        async with aiohttp.ClientSession(connector=connector) as session:
            while True:
                await self._rest()
                extender = self._model.policy.extender
                if extender is not None:
                    await self._round(session, extender)

    async def _rest(self) -> None:
        """Wait for a change, or until something has to be asked again."""
        if self._model.policy.extender is None:
            await self._event.wait()
        else:
            try:
                async with asyncio.timeout(min(self._refresh, self._line.rest or inf)):
                    await self._event.wait()
            except TimeoutError:
                pass
            await self._clock.sleep(_TOGETHER)
        self._event.clear()

    async def _round(self, session: aiohttp.ClientSession, extender: Extender) -> None:
        self._look_at_nodes()
        waiting = self._waiting()
        for question in list(self._answers.shapes):
            names = self._due(question, waiting)
            if names:
                await self._ask(session, extender, question, names)
            if self._model.policy.extender != extender:
                return
        await self._votes.round(session, extender)
        await self._forget(waiting)

    # ------------------------------------------------------------------ what to ask

    def _waiting(self) -> set[str]:
        """Return the questions about shapes of gangs that wait."""
        numbers = {shape.number for lane in self._model.waiting.lanes.values() for shape in lane.offered}
        questions = self._answers.questions
        return {questions[number] for number in numbers if number in questions}

    def _look_at_nodes(self) -> None:
        """Note which nodes changed, in what an extender is told of them that lasts."""
        nodes = self._model.nodes
        changed = nodes.rules_log.since(self._seen) if self._seen >= 0 else None
        self._seen = nodes.rules_log.end
        news: set[str] = set()
        for slot in range(len(nodes.names)) if changed is None else set(changed):
            name = nodes.names[slot]
            token = self._token(slot)
            if self._tokens.get(name, token) != token:
                news.add(name)
            self._tokens[name] = token
        if len(self._tokens) > len(nodes.slots):
            gone = self._tokens.keys() - nodes.slots.keys()
            news |= gone  # they may come back as others
            for name in gone:
                del self._tokens[name]
        for question, asked in self._asked.items():
            known = self._answers.known.get(question)
            asked.stale |= set() if known is None else news & known.verdicts.keys()

    def _token(self, slot: int) -> Hashable:
        nodes = self._model.nodes
        return (
            bool(nodes.exists[slot]),
            bool(nodes.unschedulable[slot]),
            nodes.taint_code.item(slot),
            tuple(sorted(nodes.labels[slot].items())),
            tuple(amount for amount in nodes.allocatable[:, slot].tolist() if amount),
        )

    def _due(self, question: str, waiting: Collection[str]) -> list[str]:
        """Return the nodes that a question is to be asked about now."""
        known, asked = self._answers.known.get(question), self._asked.get(question, Asked())
        if not asked.is_open(known, self._clock.monotonic()):
            return []
        names = dict.fromkeys(self._answers.lacking.get(question, ()))
        if known is not None and question in waiting and not self._line.is_down:
            if self._clock.monotonic() - asked.at >= self._refresh:
                names |= dict.fromkeys(known.verdicts)
            names |= dict.fromkeys(sorted(asked.stale & known.verdicts.keys()))
            names |= dict.fromkeys(known.unanswered)
        return self._there(names)

    def _there(self, names: Iterable[str]) -> list[str]:
        nodes = self._model.nodes
        slots = {name: nodes.slots.get(name) for name in names}
        return [name for name, slot in slots.items() if slot is not None and nodes.mine[slot]]

    # ------------------------------------------------------------------ asking

    async def _ask(
        self, session: aiohttp.ClientSession, extender: Extender, question: str, names: list[str]
    ) -> None:
        """Ask about nodes, and write all that is then known of the question."""
        asked, known = self._asked.setdefault(question, Asked()), self._answers.known.get(question)
        task = asking.task(question, self._answers.shapes[question])  # another policy may come meanwhile
        before = {} if known is None else {name: known.verdicts[name] for name in self._there(known.verdicts)}
        scores = {} if known is None else known.scores
        if self._line.is_down:
            new = Known(before | silent(names, self._line.error), scores, self._clock.now())
        else:
            started = self._clock.monotonic()
            asked.stale -= set(names)
            found, error = await self._predicates(session, extender, task, names)
            verdicts = before | found
            liked = sorted(name for name, one in verdicts.items() if one.accepted)
            if extender.prioritize and liked and not error:
                scores, error = await self._scores(session, extender, task, liked)
                verdicts |= silent(liked, error) if error else {}
            self._line.heard(error)
            new = Known(verdicts, scores, self._clock.now())
            if not error and set(names) >= before.keys():
                asked.at = started
        if new.differ(known):
            await self._line.write(question, new, "nodes", asked, again=self._refresh)

    async def _predicates(
        self, session: aiohttp.ClientSession, extender: Extender, task: dict[str, Any], names: list[str]
    ) -> tuple[dict[str, Verdict], str]:
        """Return what is known of nodes now; of those after the first failure, its words."""
        if not extender.predicate:
            return dict.fromkeys(names, Verdict(accepted=True)), ""
        found: dict[str, Verdict] = {}
        errors: list[str] = []
        left = iter(names)

        async def work() -> None:
            for name in left:
                node = self._node(name)
                if errors:
                    return
                if node is None:
                    continue
                try:
                    words = await predicate(session, extender, task, node)
                except Unanswered as error:
                    errors.append(str(error))
                else:
                    found[name] = Verdict(accepted=not words, words=words)
                self._line.count(extender.predicate, failed=name not in found)

        await asyncio.gather(*(work() for _ in range(min(_AT_ONCE, len(names)))))
        error = errors[0] if errors else ""
        return {**(silent(names, error) if error else {}), **found}, error

    async def _scores(
        self, session: aiohttp.ClientSession, extender: Extender, task: dict[str, Any], names: list[str]
    ) -> tuple[dict[str, float], str]:
        """Return how much nodes are liked, or why that is not known."""
        nodes = await written((self._node(name) for name in names), self._clock)
        try:
            found = await prioritize(session, extender, task, nodes)
        except Unanswered as error:
            self._line.count(extender.prioritize, failed=True)
            return {}, str(error)
        self._line.count(extender.prioritize, failed=False)
        return {name: found[name] for name in names if found.get(name)}, ""

    def _node(self, name: str) -> dict[str, Any] | None:
        """Return a node as it is now, None if it went meanwhile."""
        slot = self._model.nodes.slots.get(name)
        return None if slot is None else asking.node(self._model.nodes, slot)

    # ------------------------------------------------------------------ the log

    async def _forget(self, waiting: Collection[str]) -> None:
        """Take back the oldest answers that nobody waits for, where there are too many."""
        known = self._answers.known
        more = len(known) - _MOST_QUESTIONS
        if more > 0:
            needed = {*waiting, *self._answers.votes}
            old = sorted((one.as_of, name) for name, one in known.items() if name not in needed)[:more]
            for _, name in old:
                self._asked.pop(name, None)
            keys = [topics.answer_key(self._model.pool, name) for _, name in old]
            await self._say([Record(topics.EXTENDER_ANSWERS, key, None) for key in keys])
