"""The ``EventLog`` port: what Pumice needs from a log, in Kafka's terms.

Model. A *topic* has a fixed number of *partitions*; a record goes to the partition of its key (the
same key always to the same one; no key: spread) and gets the next *offset* there. Order is kept
inside a partition, and so per key. A *group* shares a topic's partitions between its members; each
partition has one owner at a time, and the group's *committed* offset (the next one to read) is where
a new owner goes on. What is polled but not committed is delivered again after a crash: at least
once. A *transaction* makes records and committed offsets visible together or not at all, to readers
that read committed data (all of ours do). Opening a transactional id again *fences* the older
producer of that id: whatever it tries from then on raises :class:`shared.errors.Fenced`. A
*compacted* topic keeps at least the last record of each key; a record without a value (tombstone)
ends its key. Offsets grow but have gaps (commit markers, compaction): never count with them; whether
all was read is for :meth:`Reader.caught_up` to say.

Errors. ``Unavailable``: the log is away; adapters retry by themselves first and raise only when told
to stop or when an outage lasts longer than their patience. ``TooLarge``: over the limit of one
record. ``Fenced``: see above. ``NotFound``: the topic was never created; no adapter creates one by
itself. Anything else is a bug.

Two adapters pass one contract suite (``tests/contract/log``): Kafka by aiokafka, and the in-process
log, in memory or on disk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

Headers = tuple[tuple[str, bytes], ...]


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class Position(NamedTuple):
    """Where a record was appended."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Record:
    """A record to append. ``value`` None is a tombstone; ``partition`` overrides the key's."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record as read. ``timestamp_ms`` is milliseconds since the epoch, set by the producer."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def where(self) -> TopicPartition:
        """The partition this record is in."""
        return TopicPartition(self.topic, self.partition)


class Cleanup(Enum):
    """What a topic forgets: old records, or all but the last of each key."""

    DELETE = "delete"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic's settings. ``retention_ms`` None keeps records for ever (compacted: per key).

    ``record_bytes`` is the limit of one record (key, value, headers); None leaves the log's own.
    """

    name: str
    partitions: int = 1
    cleanup: Cleanup = Cleanup.DELETE
    retention_ms: int | None = None
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    record_bytes: int | None = None


class Start(Enum):
    """Where a reader without a group begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


RebalanceHook = Callable[[frozenset[TopicPartition]], Awaitable[None]]


async def nothing(partitions: frozenset[TopicPartition]) -> None:
    """Do nothing at a rebalance: the default hook."""


class Producer(Protocol):
    """Appends records, idempotently (a retry inside the producer never duplicates)."""

    async def send(self, record: Record) -> Position:
        """Append; returns when the record is durable. Raises TooLarge, NotFound, Unavailable.

        After Unavailable or a cancellation the record may be there or not.
        """
        ...

    async def send_many(self, records: Sequence[Record]) -> list[Position]:
        """Append in order, pipelined; returns when all are durable."""
        ...


class Transaction(Protocol):
    """An open transaction; leaving its context commits, an exception aborts."""

    async def send(self, record: Record) -> None:
        """Append inside the transaction; visible after commit. Raises TooLarge, NotFound, Fenced."""
        ...

    async def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit a group's offsets (next to read) inside the transaction; one group in each."""
        ...


class TransactionalProducer(Protocol):
    """A producer with a transactional id; one transaction at a time."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Begin; commit when the context is left, abort when it raises. Raises Fenced, Unavailable.

        After Unavailable the transaction may have been committed or not, and the producer is spent:
        if the id is still yours, open it again (that settles the old transaction) and read the
        group's committed offsets before doing it again. Fenced may also mean that the transaction
        was open for longer than the log allows (Kafka: a minute).
        """
        ...

    async def close(self) -> None:
        """Abort what is open and leave. Safe to call twice."""
        ...


class Consumer(Protocol):
    """One member of a group.

    Partitions of one number of equally divided topics go to one member, so that what is keyed alike
    is handled in one place. A rebalance takes everything back first and forgets pauses.
    """

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions this member owns now."""
        ...

    async def poll(self, *, max_records: int = 500, timeout: float = 1.0) -> list[Delivery]:
        """Return the next records in order per partition, at least one unless ``timeout`` (s) passes.

        Cancelling it loses no record. Ends with none when the consumer is closed meanwhile; raises
        Unavailable on a closed one, and what a rebalance hook raised.
        """
        ...

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets (next to read). An offset of a partition lost meanwhile is ignored."""
        ...

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching from these (back-pressure); membership goes on."""
        ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch from these again."""
        ...

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Read ``where`` from ``offset`` next (after an aborted transaction)."""
        ...

    async def close(self) -> None:
        """Leave the group at once; no hook is called, commit before. Safe to call twice."""
        ...


class Reader(Protocol):
    """Reads every partition of some topics, outside any group; used for views of compacted topics."""

    async def poll(self, *, max_records: int = 500, timeout: float = 1.0) -> list[Delivery]:
        """Return the next records, at least one unless ``timeout`` (s) passes or it just caught up."""
        ...

    async def caught_up(self) -> bool:
        """Say whether all that was visible when the reader was opened has been polled."""
        ...

    async def close(self) -> None:
        """Stop reading. Safe to call twice."""
        ...


class EventLog(Protocol):
    """A connection to the log. Everything it hands out is closed with it."""

    async def start(self) -> None:
        """Connect. Raises Unavailable when the log cannot be reached within its patience."""
        ...

    async def close(self) -> None:
        """Close consumers, producers and the connection. Safe to call twice."""
        ...

    async def create_topics(self, specs: Iterable[TopicSpec]) -> None:
        """Create what is missing with its settings; what exists is left as it is."""
        ...

    async def partitions(self, topic: str) -> int:
        """Return the number of partitions. Raises NotFound."""
        ...

    async def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        """Return for each partition the offset after its last visible record, markers included."""
        ...

    async def committed(self, group: str, topic: str) -> dict[TopicPartition, int]:
        """Return the group's committed offsets; partitions without one are left out."""
        ...

    @property
    def producer(self) -> Producer:
        """The connection's shared idempotent producer."""
        ...

    async def transactional(self, transactional_id: str) -> TransactionalProducer:
        """Open a transactional id and fence whoever had it before."""
        ...

    async def consume(
        self,
        group: str,
        topics: Sequence[str],
        *,
        on_assigned: RebalanceHook = nothing,
        on_revoked: RebalanceHook = nothing,
    ) -> Consumer:
        """Join a group; without a committed offset it starts at the earliest record.

        Returns with the first share, which may be empty. ``on_revoked`` is awaited before partitions
        go to another member (finish and commit there), ``on_assigned`` before the first record of
        new ones is polled; neither is called with no partitions. Raises NotFound.
        """
        ...

    async def read(
        self,
        topics: Sequence[str],
        *,
        start: Start | Mapping[TopicPartition, int] = Start.EARLIEST,
    ) -> Reader:
        """Open a reader; partitions missing in a mapping start at the earliest record."""
        ...

    async def ping(self) -> None:
        """Return when the log answers now. Raises Unavailable (used by readiness)."""
        ...


async def up_to_now(
    log: EventLog,
    topics: Sequence[str],
    *,
    start: Start | Mapping[TopicPartition, int] = Start.EARLIEST,
) -> AsyncIterator[Delivery]:
    """Iterate over what is on topics, up to their ends. Raises as :meth:`EventLog.read`."""
    reader = await log.read(topics, start=start)
    try:
        while not await reader.caught_up():
            for delivery in await reader.poll():
                yield delivery
    finally:
        await reader.close()
