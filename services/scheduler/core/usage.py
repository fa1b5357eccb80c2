"""What queues used over time."""

from __future__ import annotations

from shared.events.contracts import QueueUsage


class Usage:
    """The latest usage told of each queue; what is past counts half as much after each half-life."""

    def __init__(self) -> None:
        self._of: dict[str, QueueUsage] = {}
        self.version = 0
        """Rises with each change."""

    def note(self, usage: QueueUsage) -> None:
        """Take in a queue's usage, unless it is older than what is known."""
        old = self._of.get(usage.queue)
        if old is None or (old != usage and old.as_of <= usage.as_of):
            self._of[usage.queue] = usage
            self.version += 1

    def forget(self, queue: str) -> None:
        """Take a queue's usage back."""
        if self._of.pop(queue, None) is not None:
            self.version += 1

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
