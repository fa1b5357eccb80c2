"""The one owner of an in-process log: makes changes durable in order, wakes readers, tidies up.

Without a store a change is visible at once. With one, whatever is staged while the disk is busy
becomes the next single write (group commit): throughput follows the batch, latency the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from shared.errors import Unavailable
from shared.log.core.partition import Slice
from shared.log.inprocess.groups import Group
from shared.log.port import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.clock import Clock
    from shared.log.core.partition import Partition
    from shared.log.core.state import Change, State
    from shared.log.inprocess.store import Store
Notice = Callable[[TopicPartition], None]
"""Told which partition has got records."""
T = TypeVar("T")
_LOG = logging.getLogger(__name__)


class Broker:
    """State, store, listeners and groups; shared by every connection, open while one of them is."""

    def __init__(self, clock: Clock, state: State, store: Store | None = None) -> None:
        self.clock = clock
        self.state = state
        self._store = store
        self._users = 0
        self._thread: ThreadPoolExecutor | None = None
        self._writer: asyncio.Task[None] | None = None
        self._maintenance: asyncio.Task[None] | None = None
        self._closing = False
        self._queue: list[tuple[Callable[[], Change], asyncio.Future[Change] | None]] = []
        self._work = asyncio.Event()
        self._listeners: dict[str, dict[Notice, None]] = {}
        self._groups: dict[str, Group] = {}
        self._trim_at: dict[TopicPartition, int] = {}
        self._failure: str | None = None

    async def open(self) -> None:
        """Count a user in; the first one loads the store and starts the background work."""
        self._users += 1
        if self._users > 1:
            return
        if self._store is not None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="log")
            try:
                await self._blocking(lambda store: store.load(self.state))
            except BaseException:
                self._users = 0
                self._thread.shutdown(wait=False)
                raise
            self._closing = False
            self._writer = asyncio.create_task(self._write_forever(), name="log writer")
        self._maintenance = asyncio.create_task(self._maintain_forever(), name="log maintenance")

    async def release(self) -> None:
        """Count a user out; the last one stops the background work and closes the store."""
        self._users -= 1
        if self._users:
            return
        groups, self._groups = self._groups, {}
        for group in groups.values():
            await group.close()
        if self._maintenance is not None:
            self._maintenance.cancel()
            await asyncio.gather(self._maintenance, return_exceptions=True)
        if self._thread is not None and self._writer is not None:
            self._closing = True
            self._work.set()
            await self._writer
            await self._blocking(lambda store: store.close())
            self._thread.shutdown()

    async def commit(self, stage: Callable[[], Change]) -> Change:
        """Stage a change, make it durable, publish it. Raises what ``stage`` raises, and Unavailable."""
        if self._store is None:
            change = stage()
            self._publish(change)
            await self.clock.sleep(0)
            return change
        if self._closing or self._thread is None:
            message = "the log is not open"
            raise Unavailable(message)
        future: asyncio.Future[Change] = asyncio.get_running_loop().create_future()
        self._queue.append((stage, future))
        self._work.set()
        return await future

    async def read(self, where: TopicPartition, position: int, limit: int) -> Slice:
        """Return up to ``limit`` records from ``position``, and the position after them."""
        partition = self.state.partitions[where]
        position = max(position, partition.start)
        if position >= partition.floor or self._store is None:
            return partition.read(position, limit)
        # One record more tells where the next one is: compaction leaves gaps. The floor is taken
        # before the query, which so has seen all there is below it.
        floor = partition.floor
        records = await self._blocking(lambda store: store.read(where, position, limit + 1))
        if len(records) > limit:
            return Slice(records[:limit], records[limit].offset)
        return Slice(records, max(records[-1].offset + 1, floor) if records else floor)

    def at_end(self, where: TopicPartition, position: int) -> bool:
        """Say without looking at records that there is nothing at ``position`` yet."""
        return position >= self.state.partitions[where].end

    def now_ms(self) -> int:
        """Return the clock's time in ms since the epoch."""
        return int(self.clock.now().timestamp() * 1000)

    def group(self, name: str) -> Group:
        """Return the coordinator of a group."""
        return self._groups.setdefault(name, Group(name, self.state))

    def listen(self, topics: Iterable[str], notice: Notice) -> None:
        """Call ``notice`` with each partition of ``topics`` that gets records."""
        for topic in topics:
            self._listeners.setdefault(topic, {})[notice] = None

    def unlisten(self, topics: Iterable[str], notice: Notice) -> None:
        """Undo :meth:`listen`."""
        for topic in topics:
            self._listeners.get(topic, {}).pop(notice, None)

    def ping(self) -> None:
        """Raise Unavailable when the last write failed."""
        if self._failure is not None:
            raise Unavailable(self._failure)

    async def maintain(self) -> None:
        """Retain and compact once, everywhere."""
        now_ms = self.now_ms()
        starts: dict[TopicPartition, int] = {}
        for where, partition in list(self.state.partitions.items()):
            start = max(await self._expired(partition, now_ms), self._over(partition))
            if start > partition.start:
                starts[where] = start
        await self.commit(lambda: self.state.stage_forget(now_ms, starts))

    def _publish(self, change: Change) -> None:
        self.state.publish(change)
        for where in change.ends:
            for notice in self._listeners.get(where.topic, ()):
                notice(where)
            self._bound(self.state.partitions[where])

    def _bound(self, partition: Partition) -> None:
        """Keep a partition within its limits now, without waiting for the next maintenance."""
        limits = self.state.limits
        if self._store is not None and partition.bytes > limits.partition_bytes:
            partition.evict(limits.partition_bytes // 2)
        where = partition.where
        starts: dict[TopicPartition, int] = {}
        if self._store is None and partition.bytes > self._trim_at.get(where, 2 * limits.partition_bytes):
            starts[where] = self._over(partition)
        elif not partition.dirty(limits.sweep_records):
            return
        if self._store is None:
            self.state.publish(self.state.stage_forget(self.now_ms(), starts, only=where))
            self._trim_at[where] = partition.bytes + limits.partition_bytes
        elif not partition.sweeping:
            partition.sweeping = True
            self._queue.append((lambda: self.state.stage_forget(self.now_ms(), starts, only=where), None))
            self._work.set()

    def _over(self, partition: Partition) -> int:
        """Return where a partition kept in memory alone should begin; never past unread records."""
        limit = self.state.limits.partition_bytes
        if self._store is not None or partition.compacted or partition.bytes <= limit:
            return partition.start
        return min(partition.over(limit), self.state.consumed(partition.where))

    async def _expired(self, partition: Partition, now_ms: int) -> int:
        if partition.spec.retention_ms is None:
            return partition.start
        before = now_ms - partition.spec.retention_ms
        if self._store is None or partition.floor <= partition.start:
            return partition.expired(before)
        where, end = partition.where, partition.end
        first = await self._blocking(lambda store: store.first_since(where, before))
        return end if first is None else first

    async def _maintain_forever(self) -> None:
        while True:
            await self.clock.sleep(self.state.limits.maintenance_seconds)
            with suppress(Unavailable):  # said by the writer already; the next round does it
                await self.maintain()

    async def _write_forever(self) -> None:
        while self._queue or not self._closing:
            await self._work.wait()
            self._work.clear()
            await self._write_queued()

    async def _write_queued(self) -> None:
        queue, self._queue = self._queue, []
        staged: list[tuple[Change, asyncio.Future[Change] | None]] = []
        for stage, future in queue:
            if future is not None and future.done():  # cancelled before it began
                continue
            try:
                staged.append((stage(), future))
            except Exception as error:  # noqa: BLE001 - its caller's, whatever it is
                if future is not None:
                    future.set_exception(error)
        try:
            await self._blocking(lambda store: store.write([change for change, _ in staged]))
        except OSError as error:
            self._refuse(error, [future for _, future in staged])
            return
        self._failure = None
        for change, future in staged:
            self._publish(change)
            if future is not None and not future.done():
                future.set_result(change)

    def _refuse(self, error: OSError, futures: Iterable[asyncio.Future[Change] | None]) -> None:
        self.state.rollback()
        message = f"the log cannot write: {error}"
        if self._failure is None:
            _LOG.error(message)
        self._failure = message
        for future in futures:
            if future is not None and not future.done():
                future.set_exception(Unavailable(message))

    async def _blocking(self, call: Callable[[Store], T]) -> T:
        store, thread = self._store, self._thread
        if store is None or thread is None:
            message = "the log is not open"
            raise Unavailable(message)
        return await asyncio.get_running_loop().run_in_executor(thread, call, store)
