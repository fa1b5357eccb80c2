"""The whole log as a value: topics, partitions, committed offsets and transactional epochs.

A write is *staged* (offsets are given out, nobody sees them), made durable by the shell, and then
*published*; or rolled back when that failed. A transaction's records are held by its producer and
staged in one change at commit, so an aborted one leaves no trace and no reader ever waits for an
open one: the last stable offset is the end. As in Kafka, a commit takes one offset more in each
partition it wrote to, so that nobody comes to rely on offsets without gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.errors import Fenced, NotFound, TooLarge
from shared.log.core.partition import Forget, Partition
from shared.log.core.partitioner import partition_for
from shared.log.port import Cleanup, Delivery, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.log.port import Record, TopicSpec

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of an in-process log. Sizes in bytes, times in ms; why each default is said beside it."""

    record_bytes: int = 1_000_000
    """One record: below Kafka's default of 1 MiB for a whole batch, so that what fits here fits there."""
    partition_bytes: int = 32 << 20
    """Memory of one partition: holds about 10,000 job objects."""
    tombstone_ms: int = 3_600_000
    """How long a tombstone is kept: a reader from the start that is slower may miss a deletion."""
    sweep_records: int = 1_000
    """A compacted partition is swept at once when so many replaced records outnumber the live ones."""
    maintenance_seconds: float = 60.0
    """Time between rounds of retention and compaction: retention is counted in hours."""


@dataclass(frozen=True, slots=True)
class Change:
    """One atomic change. ``ends``: each touched partition's end after it, commit markers included."""

    topics: tuple[TopicSpec, ...] = ()
    appended: tuple[Delivery, ...] = ()
    ends: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    committed: Mapping[str, Mapping[TopicPartition, int]] = field(
        default_factory=dict[str, "Mapping[TopicPartition, int]"]
    )
    epochs: Mapping[str, int] = field(default_factory=dict[str, int])
    forgotten: tuple[Forget, ...] = ()


class State:
    """The log. Not thread-safe: one event loop owns it."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.topics: dict[str, TopicSpec] = {}
        self.partitions: dict[TopicPartition, Partition] = {}
        self.committed: dict[str, Offsets] = {}
        self.epochs: dict[str, int] = {}
        self._spread: dict[str, int] = {}
        self._creating: set[str] = set()

    def of(self, topic: str) -> list[TopicPartition]:
        """Return a topic's partitions. Raises NotFound."""
        return [TopicPartition(topic, number) for number in range(self.spec(topic).partitions)]

    def spec(self, topic: str) -> TopicSpec:
        """Return a topic's settings. Raises NotFound."""
        spec = self.topics.get(topic)
        if spec is None:
            message = f"there is no topic {topic!r}"
            raise NotFound(message)
        return spec

    def check(self, record: Record) -> None:
        """Refuse a record that cannot be appended: NotFound, TooLarge, ValueError for a bug."""
        spec = self.spec(record.topic)
        size = record_size(record)
        limit = spec.record_bytes or self.limits.record_bytes
        if size > limit:
            raise too_large(record, size, limit)
        if record.key is None and record.value is None:
            message = f"a record for {record.topic} has neither key nor value"
            raise ValueError(message)
        if record.key is None and spec.cleanup is Cleanup.COMPACT:
            message = f"{record.topic} is compacted: its records need a key"
            raise ValueError(message)
        if record.partition is not None and not 0 <= record.partition < spec.partitions:
            message = f"{record.topic} has no partition {record.partition}"
            raise ValueError(message)

    def check_epoch(self, transactional_id: str, epoch: int) -> None:
        """Raise Fenced when a newer producer has the transactional id."""
        if self.epochs.get(transactional_id, 0) != epoch:
            message = f"a newer producer has the transactional id {transactional_id!r}"
            raise Fenced(message)

    def stage_topics(self, specs: Iterable[TopicSpec]) -> Change:
        """Create the topics that are missing."""
        there = self.topics.keys() | self._creating
        missing = {spec.name: spec for spec in specs if spec.name not in there}
        self._creating.update(missing)
        return Change(topics=tuple(missing.values()))

    def stage_epoch(self, transactional_id: str) -> Change:
        """Fence the older producer of the id; it is fenced from here on, durable or not."""
        epoch = self.epochs.get(transactional_id, 0) + 1
        self.epochs[transactional_id] = epoch
        return Change(epochs={transactional_id: epoch})

    def stage_records(self, records: Sequence[Record], now_ms: int) -> Change:
        """Append records outside a transaction."""
        appended = self._place(records, now_ms)
        return Change(appended=appended, ends=self._ends(appended))

    def stage_transaction(
        self,
        producer: tuple[str, int],
        records: Sequence[Record],
        committed: Mapping[str, Mapping[TopicPartition, int]],
        now_ms: int,
    ) -> Change:
        """Append a transaction's records and commit its offsets. ``producer``: id and epoch."""
        self.check_epoch(*producer)
        appended = self._place(records, now_ms)
        for where in {delivery.where for delivery in appended}:
            self.partitions[where].reserved += 1
        return Change(appended=appended, ends=self._ends(appended), committed=committed)

    def stage_offsets(self, committed: Mapping[str, Mapping[TopicPartition, int]]) -> Change:
        """Commit offsets of groups outside a transaction."""
        return Change(committed=committed)

    def stage_forget(
        self, now_ms: int, starts: Mapping[TopicPartition, int], only: TopicPartition | None = None
    ) -> Change:
        """Compact (``only`` one partition, or all) and forget below ``starts`` (found by the shell)."""
        forgotten: list[Forget] = []
        for where, partition in self.partitions.items() if only is None else [(only, self.partitions[only])]:
            start = starts.get(where, partition.start)
            offsets: frozenset[int] = frozenset()
            if partition.compacted:
                offsets = partition.compactable(now_ms - self.limits.tombstone_ms)
            if offsets or start > partition.start:
                forgotten.append(Forget(where, start, offsets))
        return Change(forgotten=tuple(forgotten))

    def publish(self, change: Change) -> None:
        """Make a staged change visible."""
        for spec in change.topics:
            self._creating.discard(spec.name)
            self.topics[spec.name] = spec
            for where in self.of(spec.name):
                self.partitions[where] = Partition(where, spec)
        for delivery in change.appended:
            self.partitions[delivery.where].append(delivery)
        for where, end in change.ends.items():
            self.partitions[where].end = end
        for group, offsets in change.committed.items():
            self.committed.setdefault(group, {}).update(offsets)
        for forget in change.forgotten:
            self.partitions[forget.where].forget(forget.start, forget.offsets)

    def rollback(self) -> None:
        """Take back every offset given out, and every topic begun, that was not published."""
        self._creating.clear()
        for partition in self.partitions.values():
            partition.reserved = partition.end

    def consumed(self, where: TopicPartition) -> int:
        """Return the offset below which every group that ever committed there is done."""
        offsets = [group[where] for group in self.committed.values() if where in group]
        return min(offsets, default=self.partitions[where].end)

    def _place(self, records: Sequence[Record], now_ms: int) -> tuple[Delivery, ...]:
        appended: list[Delivery] = []
        for record in records:
            number = self._number(record)
            partition = self.partitions[TopicPartition(record.topic, number)]
            offset = partition.reserved
            partition.reserved += 1
            appended.append(
                Delivery(record.topic, number, offset, now_ms, record.key, record.value, record.headers)
            )
        return tuple(appended)

    def _ends(self, appended: Iterable[Delivery]) -> Offsets:
        return {where: self.partitions[where].reserved for where in {entry.where for entry in appended}}

    def _number(self, record: Record) -> int:
        if record.partition is not None:
            return record.partition
        partitions = self.topics[record.topic].partitions
        if record.key is not None:
            return partition_for(record.key, partitions) if partitions > 1 else 0
        turn = self._spread.get(record.topic, 0)
        self._spread[record.topic] = turn + 1
        return turn % partitions


def record_size(record: Record) -> int:
    """Return a record's bytes as far as they count for the limit: key, value and headers."""
    size = len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name.encode()) + len(value)
    return size


def too_large(record: Record, size: int, limit: int) -> TooLarge:
    """Return the error for a record over the limit."""
    return TooLarge(
        f"a record for {record.topic} has {size} bytes, the limit is {limit}", size=size, limit=limit
    )
