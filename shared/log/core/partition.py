"""One partition of the in-process log: its records in memory, what it may forget, where it begins.

Offsets never repeat and may have gaps: a committed transaction takes one offset more in each
partition it touched (Kafka's commit marker), and compaction leaves holes. ``floor`` is the first
offset from which memory is complete; below it, down to ``start``, the shell asks its store.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from shared.log.port import Cleanup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.log.port import Delivery, TopicPartition, TopicSpec

_RECORD_OVERHEAD = 200
"""Bytes of a delivery besides its key, value and headers; measured roughly, for the bounds only."""


class Forget(NamedTuple):
    """What a partition drops: everything below ``start``, and these single offsets."""

    where: TopicPartition
    start: int
    offsets: frozenset[int]


class Slice(NamedTuple):
    """Records read, and the position after them: the next record there is, or the end."""

    records: list[Delivery]
    position: int


def size_of(delivery: Delivery) -> int:
    """Return about how many bytes of memory ``delivery`` takes."""
    size = len(delivery.key or b"") + len(delivery.value or b"") + _RECORD_OVERHEAD
    for name, value in delivery.headers:
        size += len(name) + len(value)
    return size


class Partition:
    """The records of one partition, in memory from ``floor`` on."""

    def __init__(self, where: TopicPartition, spec: TopicSpec, *, start: int = 0, end: int = 0) -> None:
        self.where = where
        self.spec = spec
        self.start = start
        self.end = end
        self.floor = max(start, end)
        self.reserved = end
        self.bytes = 0
        self.garbage: list[int] = []
        self.sweeping = False
        self._entries: list[Delivery] = []
        self._latest: dict[bytes, int] = {}
        self._tombstones: dict[bytes, tuple[int, int]] = {}

    @property
    def compacted(self) -> bool:
        """Whether only the last record of each key must be kept."""
        return self.spec.cleanup is Cleanup.COMPACT

    def append(self, delivery: Delivery) -> None:
        """Take a record, at or after ``end``."""
        self._entries.append(delivery)
        self.bytes += size_of(delivery)
        self.end = delivery.offset + 1
        self.index(delivery.key, delivery.offset, delivery.timestamp_ms, tombstone=delivery.value is None)

    def index(self, key: bytes | None, offset: int, timestamp_ms: int, *, tombstone: bool) -> None:
        """Note the last record of ``key``, and that what it replaces may go."""
        if not self.compacted or key is None:
            return
        old = self._latest.get(key)
        if old is not None:
            self.garbage.append(old)
        self._latest[key] = offset
        self._tombstones.pop(key, None)
        if tombstone:
            self._tombstones[key] = (offset, timestamp_ms)

    def read(self, position: int, limit: int) -> Slice:
        """Return up to ``limit`` records from ``position`` (at or after ``floor``)."""
        first = self._find(position)
        records = self._entries[first : first + limit]
        after = first + len(records)
        following = self._entries[after].offset if after < len(self._entries) else self.end
        return Slice(records, max(position, following))

    def expired(self, before_ms: int) -> int:
        """Return the first offset to keep when records older than ``before_ms`` go."""
        for delivery in self._entries:
            if delivery.timestamp_ms >= before_ms:
                return delivery.offset
        return self.end

    def over(self, limit: int) -> int:
        """Return the first offset to keep so that the partition takes about ``limit`` bytes."""
        excess = self.bytes - limit
        for delivery in self._entries:
            if excess <= 0:
                return delivery.offset
            excess -= size_of(delivery)
        return self.end

    def compactable(self, tombstones_before_ms: int) -> frozenset[int]:
        """Return the offsets compaction drops: what was replaced, and tombstones older than that."""
        ended = [offset for offset, ms in self._tombstones.values() if ms < tombstones_before_ms]
        return frozenset(self.garbage).union(ended)

    def dirty(self, threshold: int) -> bool:
        """Say whether more was replaced than is live (and than ``threshold``): worth a sweep."""
        return len(self.garbage) > max(threshold, len(self._latest))

    def forget(self, start: int, offsets: frozenset[int]) -> None:
        """Drop everything below ``start``, and ``offsets``."""
        first = self._find(start)
        dropped = self._entries[:first]
        kept = self._entries[first:] if first else self._entries
        if offsets:
            dropped += [entry for entry in kept if entry.offset in offsets]
            kept = [entry for entry in kept if entry.offset not in offsets]
            self.garbage = [offset for offset in self.garbage if offset not in offsets]
        self.sweeping = False
        self._entries = kept
        self.bytes -= sum(map(size_of, dropped))
        self.start = max(self.start, start)
        self.floor = max(self.floor, self.start)
        if self.compacted:
            self._forget_keys(start, offsets)

    def evict(self, limit: int) -> None:
        """Keep about ``limit`` bytes in memory; what goes is still in the store."""
        first = self._find(self.over(limit))
        self._drop_head(first)

    def _drop_head(self, count: int) -> None:
        self.bytes -= sum(map(size_of, islice(self._entries, count)))
        del self._entries[:count]
        self.floor = self._entries[0].offset if self._entries else self.end

    def _forget_keys(self, start: int, offsets: Iterable[int]) -> None:
        gone = frozenset(offsets)
        ended = [key for key, offset in self._latest.items() if offset < start or offset in gone]
        for key in ended:
            del self._latest[key]
            self._tombstones.pop(key, None)

    def _find(self, offset: int) -> int:
        entries = self._entries
        if not entries or offset > entries[-1].offset:
            return len(entries)
        return bisect_left(entries, offset, key=attrgetter("offset"))
