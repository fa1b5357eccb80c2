"""Which policy is in force, and where it comes from: a file, or a ConfigMap that the controller tells of.

A new text is read at once. One without problems is in force from the next cycle on; of one with problems
every line is logged, and the policy before it stays: the built-in one where there was no text. A pool that
begins with a text that has problems does not decide until there is a better one: nobody chose any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn

from services.scheduler.adapters.metrics import Metrics
from services.scheduler.core.configuration import Configured, Source, configure
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Policy
from shared.clock import Clock
from shared.errors import ConfigurationError
from shared.events.contracts import PolicyState
from shared.plugins import Maker
from shared.service import Health
from shared.telemetry.telemetry import Telemetry

_LOOK_SECONDS: Final = 0.5


def read_file(path: Path) -> str:
    """Return a file's text. Raises ConfigurationError, one line."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"policy file {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        where = f"byte {error.start} is wrong"
        raise ConfigurationError(f"policy file {path}: is no text in UTF-8: {where}") from error


def first_of_file(path: Path, base: Policy, own: Mapping[str, Maker] | None = None) -> str:
    """Return the text of a file whose policy can be used. Raises ConfigurationError, one line."""
    text = read_file(path)
    problems = configure(text, base, own).problems
    if problems:
        more = len(problems) - 1
        rest = f" (and {more} more: see pumice policy check {path})" if more else ""
        raise ConfigurationError(f"policy file {path}: {problems[0]}{rest}")
    return text


async def follow_file(
    path: Path, text: str, on_text: Callable[[str], None], *, clock: Clock, telemetry: Telemetry
) -> NoReturn:
    """Look at a file twice a second, and tell what it says when that is not ``text`` any more.

    It is small and read whole each time: its time of change tells less than its content does.
    """
    away = ""
    while True:
        await clock.sleep(_LOOK_SECONDS)
        try:
            found = read_file(path)
        except ConfigurationError as error:
            if str(error) != away:
                away = str(error)
                telemetry.log.warning("%s: the policy stays as it was", error)
            continue
        away = ""
        if found != text:
            text = found
            on_text(text)


class Policies:
    """One pool's policy.

    With a file only :meth:`take` is called; without, the log's word counts, from :meth:`start` on: what was
    said before the pool has read the log to its end may be old.
    """

    def __init__(
        self,
        model: Model,
        *,
        from_log: bool,
        own: Mapping[str, Maker] | None,
        on_source: Callable[[Source | None], None],
        telemetry: Telemetry,
        metrics: Metrics,
        health: Health,
    ) -> None:
        """``on_source`` is told whom to ask what nodes really use; None: it does not matter."""
        self._on_source = on_source
        self._model = model
        self._base = model.policy
        self._from_log = from_log
        self._own = own
        self._log = telemetry.log
        self._metrics = metrics
        self._health = health
        self._part = f"policy of pool {model.pool}"
        self._started = self._taken = False
        self._said: PolicyState | None = None
        self.usable = True
        """Whether there is a policy to decide by."""

    def told(self, state: PolicyState | None) -> None:
        """Note what the log says of the ConfigMap; None: it is gone."""
        if self._from_log and state != self._said:
            self._said = state
            if self._started:
                self._take_said()

    def start(self) -> None:
        """Begin with what the log said last."""
        self._started = True
        if self._said is None:
            self._taken = True
        else:
            self._take_said()

    def take(self, text: str | None, source: str) -> None:
        """Take what ``source`` says; None: it says nothing any more, and the built-in policy holds."""
        read = Configured(self._base) if text is None else configure(text, self._base, self._own)
        pool = self._model.pool
        for note in read.notes:
            self._log.warning("%s: %s", source, note, extra={"pool": pool})
        self._metrics.policy_problems.labels(pool).set(len(read.problems))
        if read.problems:
            self._refuse(read, source)
            return
        self._taken = self.usable = True
        self._health.ok(self._part)
        if read.policy != self._model.policy:
            self._model.set_policy(read.policy)
            self._metrics.policy_changes.labels(pool).inc()
        heeded = read.policy.scores.load or read.policy.load_limit or read.policy.levelling
        self._on_source(read.source if heeded else None)
        told = {"pool": pool, "source": source, "policy": read.policy.digest}
        self._log.info("policy taken", extra=told)

    def _take_said(self) -> None:
        said = self._said
        if said is None:
            self.take(None, "no ConfigMap")
        else:
            self.take(said.text, f"ConfigMap {said.namespace}/{said.name}, {said.key}")

    def _refuse(self, read: Configured, source: str) -> None:
        stays = "the policy before it stays" if self._taken else "nothing is decided until it is right"
        for problem in read.problems:
            self._log.error("%s: %s (%s)", source, problem, stays, extra={"pool": self._model.pool})
        if not self._taken:
            self.usable = False
            self._health.waits(self._part, f"{source}: {read.problems[0]}")

    def close(self) -> None:
        """Leave nothing behind of a pool that is given up."""
        self._health.ok(self._part)
