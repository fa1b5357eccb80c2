"""For how long gangs may run that declared nothing: by how long earlier jobs of their template ran.

What is learned comes by the log, like every fact, so that decisions made with it can be made again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from shared.events.contracts import Gang, TemplateRunTimes

LEAST: Final = 5
"""Run times that have to be known: of fewer, the ninetieth of a hundred is a guess."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Seconds: half of the earlier jobs, and nine of ten, ran no longer."""

    half: float
    most: float

    def ends(self, since: float, now: float) -> tuple[float, float]:
        """Return when who began then may end, as likely as not and nine times of ten (POSIX seconds).

        Whoever has run for longer than half of the others is expected to take as long as nine of ten; of one
        that has run for longer than these, nobody knows.
        """
        half, most = since + self.half, since + self.most
        if now < half:
            return half, most
        return (most, most) if now < most else (inf, inf)


class Learned:
    """Quantiles by queue and template."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], tuple[TemplateRunTimes, Quantiles | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def note(self, event: TemplateRunTimes) -> None:
        """Take in what is known of a template, unless it is older than what was told before."""
        key = (event.queue, event.template)
        old = self._of.get(key)
        if old is None or old[0].as_of <= event.as_of:
            self._of[key] = event, _quantiles(event.seconds)

    def forget(self, queue: str, template: str) -> None:
        """Forget a template."""
        self._of.pop((queue, template), None)

    def of(self, contract: Gang) -> Quantiles | None:
        """Return what is known of a gang that declared nothing; None: nothing, or it did."""
        if contract.run_seconds is not None or not contract.template:
            return None
        found = self._of.get((contract.queue, contract.template))
        return None if found is None else found[1]


def _quantiles(seconds: tuple[float, ...]) -> Quantiles | None:
    """Return the quantiles by nearest rank."""
    if len(seconds) < LEAST:
        return None
    ordered, count = sorted(seconds), len(seconds)
    return Quantiles(ordered[(count + 1) // 2 - 1], ordered[-(-count * 9 // 10) - 1])
