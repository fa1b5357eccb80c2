"""What all questions to one extender have in common: whether it answers, and how answers get on the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Final, Literal

from services.scheduler.adapters.metrics import Metrics
from services.scheduler.adapters.publish import answer_record
from services.scheduler.core.answers import Known, Verdict
from shared.clock import Clock
from shared.errors import TooLarge
from shared.events.contracts import ExtenderAnswered
from shared.log.port import Record
from shared.service import Ids
from shared.telemetry.telemetry import Telemetry

_FIRST_RETRY: Final = 0.5
_LAST_RETRY: Final = 30.0

Say = Callable[[list[Record]], Awaitable[None]]
"""Appends records to the log, however long that takes."""


@dataclass(slots=True)
class Asked:
    """What is remembered of a question since this process began."""

    at: float = -inf
    """When all of it was last asked (monotonic)."""
    said: datetime | None = None
    """Which answer was written last: it comes back by the log."""
    stale: set[str] = field(default_factory=set[str])
    """Nodes that changed since they were asked about."""
    rests_until: float = -inf
    """It is not asked before then (monotonic): its answer could not be written."""

    def is_open(self, known: Known | None, now: float) -> bool:
        """Whether it can be asked: what was written last is known to the model, and it does not rest."""
        back = self.said is None or (known is not None and known.as_of >= self.said)
        return back and now >= self.rests_until


class Line:
    """The way to one extender."""

    def __init__(
        self, pool: str, *, clock: Clock, say: Say, ids: Ids, telemetry: Telemetry, metrics: Metrics
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._say = say
        self._ids = ids
        self._log = telemetry.log
        self._metrics = metrics
        self.error = ""
        """Why it could not be asked the last time; empty: it answered."""
        self._failures = 0
        self._retry_at = -inf

    @property
    def rest(self) -> float:
        """For how many seconds it is left alone; 0: it answers."""
        return max(0.01, self._retry_at - self._clock.monotonic()) if self._failures else 0.0

    @property
    def is_down(self) -> bool:
        """Whether it did not answer, and is not to be asked again yet."""
        return bool(self._failures) and self._clock.monotonic() < self._retry_at

    def count(self, verb: str, *, failed: bool) -> None:
        """Count a request."""
        self._metrics.extender.labels(self._pool, verb, "failed" if failed else "answered").inc()

    def heard(self, error: str) -> None:
        """Note that it answers, or does not: then it is left alone for a while."""
        told = {"pool": self._pool}
        if not error:
            if self._failures:
                self._log.info("the extender answers again", extra=told)
            self._failures, self.error, self._retry_at = 0, "", -inf
            return
        if not self._failures:
            self._log.warning("the extender cannot be asked: %s", error, extra=told)
        wait = min(_LAST_RETRY, _FIRST_RETRY * 2.0 ** min(self._failures, 10))
        self._failures, self.error = self._failures + 1, error
        self._retry_at = self._clock.monotonic() + wait

    async def write(
        self, question: str, known: Known, about: Literal["nodes", "pods"], asked: Asked, *, again: float
    ) -> None:
        """Write all that is known of a question; what is too large is asked ``again`` in so many seconds."""
        event = ExtenderAnswered(
            pool=self._pool,
            question=question,
            about=about,
            accepted=tuple(sorted(name for name, one in known.verdicts.items() if one.accepted)),
            refused=_by_words(known, answered=True),
            unanswered=_by_words(known, answered=False),
            scores=dict(sorted(known.scores.items())),
            abstains=known.abstains,
            as_of=known.as_of,
        )
        before, asked.said = asked.said, known.as_of
        try:
            await self._say([answer_record(event, self._ids())])
        except TooLarge as error:
            asked.said, asked.rests_until = before, self._clock.monotonic() + again
            words = "an extender's answer about %d %s is too large for a record: %s"
            self._log.error(words, len(known.verdicts), about, error, extra={"pool": self._pool})


def silent(names: Iterable[str], error: str) -> dict[str, Verdict]:
    """Return what is known of those that could not be asked about."""
    return dict.fromkeys(names, Verdict(accepted=False, words=error, answered=False))


def _by_words(known: Known, *, answered: bool) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for name, one in sorted(known.verdicts.items()):
        if not one.accepted and one.answered == answered:
            found.setdefault(one.words, []).append(name)
    return {words: tuple(names) for words, names in sorted(found.items())}
