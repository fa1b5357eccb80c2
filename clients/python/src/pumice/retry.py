"""When to try again: exponential back-off with jitter, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Retry:
    """How a call that failed for a passing reason is repeated. Times are seconds.

    Every call may be repeated: reads and deletions by nature, submissions and commands because each
    carries an idempotency key that stays the same over its attempts.
    """

    attempts: int = 6
    """Of one call, the first included: with these defaults some three seconds in all."""
    first: float = 0.1
    factor: float = 2.0
    longest: float = 5.0
    patience: float = 60.0
    """For following a job: how long the server may be away before that is an error."""

    def delay(self, attempt: int, chance: float) -> float:
        """Return the pause after the failed attempt number ``attempt`` (from 1).

        ``chance`` in [0, 1) spreads many clients out over the upper half of the pause.
        """
        full = min(self.longest, self.first * self.factor ** min(attempt - 1, 32))
        return full * (0.5 + chance / 2)


DEFAULT: Final = Retry()
