"""What queues used over time."""

from __future__ import annotations

from shared.events.contracts import QueueUsage


class Usage:
    """The latest usage told of each queue; what is past counts half as much after each half-life."""

    def __init__(self) -> None:
        self._of: dict[str, QueueUsage] = {}

    def note(self, usage: QueueUsage) -> bool:
        """Take in a queue's usage; False when it is older than what is known, or says the same."""
        old = self._of.get(usage.queue)
        if old is not None and (old == usage or old.as_of > usage.as_of):
            return False
        self._of[usage.queue] = usage
        return True

    def levels(self) -> dict[str, float]:
        """Return the GPU seconds of each queue, all as of the latest moment that any was told for.

        Only their proportions matter, and with one half-life for all they do not change as time passes.
        """
        latest = max((one.as_of for one in self._of.values()), default=None)
        return {
            name: max(0.0, one.gpu_seconds)
            * 0.5 ** ((latest - one.as_of).total_seconds() / one.half_life_seconds)
            for name, one in self._of.items()
            if latest is not None
        }
