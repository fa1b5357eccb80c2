"""Which offsets may be committed when messages of a partition finish out of order. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from shared.log.port import TopicPartition


class OffsetTracker:
    """Tracks messages in flight; an offset may be committed when all before it are finished.

    Committing further would lose an unfinished message after a crash; committing less only repeats some.
    """

    def __init__(self) -> None:
        self._begun: dict[TopicPartition, deque[int]] = {}
        self._finished: dict[TopicPartition, set[int]] = {}
        self._next: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}

    def begin(self, where: TopicPartition, offset: int) -> None:
        """A message was taken from the log; offsets of a partition come in rising order."""
        self._begun.setdefault(where, deque()).append(offset)
        self._finished.setdefault(where, set())

    def finish(self, where: TopicPartition, offset: int) -> None:
        """A message was handled (or dead-lettered). Of a forgotten partition: nothing."""
        begun = self._begun.get(where)
        if begun is None:
            return
        finished = self._finished[where]
        finished.add(offset)
        while begun and begun[0] in finished:
            done = begun.popleft()
            finished.remove(done)
            self._next[where] = done + 1

    def in_flight(self, partitions: Iterable[TopicPartition] | None = None) -> int:
        """Return how many messages are not finished, of some partitions or of all."""
        wanted = self._begun.keys() if partitions is None else partitions
        return sum(len(self._begun.get(where, ())) - len(self._finished.get(where, ())) for where in wanted)

    def committable(self) -> dict[TopicPartition, int]:
        """Return offsets (next to read) that are ahead of the last commit."""
        return {where: offset for where, offset in self._next.items() if self._committed.get(where) != offset}

    def committed(self, offsets: dict[TopicPartition, int]) -> None:
        """Note that the log has these offsets now."""
        self._committed.update(offsets)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop partitions that belong to somebody else now."""
        for where in partitions:
            self._begun.pop(where, None)
            self._finished.pop(where, None)
            self._next.pop(where, None)
            self._committed.pop(where, None)
