"""What is put off for a while: state that lasts, statuses that may wait, reports that say the same again."""

from __future__ import annotations

from dataclasses import dataclass

from shared.events.contracts import GangReport


@dataclass(slots=True)
class Since:
    """Since when something is so; it is acted on only after a while. Times are monotonic seconds."""

    at: float | None = None

    def left(self, now: float, seconds: float) -> float:
        """Return how long it may still go on; the first call begins the while."""
        if self.at is None:
            self.at = now
        return self.at + seconds - now

    def end(self) -> None:
        """Note that it is so no more, or was acted on."""
        self.at = None


@dataclass(slots=True)
class Reports:
    """Why a gang waits: another reason is shown at once, new numbers of the same now and then."""

    shown: GangReport | None = None
    """As the PodGroup says it."""
    newer: GangReport | None = None
    """To be shown next."""
    due: float = 0.0
    """Monotonic time from which a report of the same reason is shown again."""

    @property
    def is_news(self) -> bool:
        """Whether the newer report gives another reason than the shown one."""
        return self.newer is not None and (
            self.shown is None or self.shown.reason.code != self.newer.reason.code
        )

    def left(self, now: float) -> float:
        """Return for how long the newer report must not be shown yet."""
        return 0.0 if self.is_news else self.due - now

    def turn(self, now: float, pause: float) -> None:
        """Show the newer report."""
        self.shown, self.newer, self.due = self.newer, None, now + pause

    def forget(self) -> None:
        """Drop both: the gang does not wait for what they said."""
        self.shown = self.newer = None
