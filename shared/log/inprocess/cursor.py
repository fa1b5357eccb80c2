"""Where somebody is in some partitions, and waiting for more there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from shared.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shared.log.inprocess.broker import Broker
    from shared.log.port import Delivery, TopicPartition


class Cursor:
    """Positions by partition. Cancelling a poll loses nothing: positions move when it returns."""

    def __init__(self, broker: Broker, topics: Iterable[str]) -> None:
        self._broker = broker
        self._topics = tuple(topics)
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._behind: dict[TopicPartition, None] = {}
        """Partitions that may hold something to read; whose turn it is stands first."""
        self._wake = asyncio.Event()
        self._held = False
        self._closed = False
        self._interrupted = False
        broker.listen(self._topics, self._notice)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset of each partition."""
        return self._positions

    def move(self, positions: Mapping[TopicPartition, int], *, held: bool = False) -> None:
        """Read these partitions from there, and no others; none is paused. ``held``: not yet."""
        self._positions = dict(positions)
        self._paused.clear()
        self._held = held
        self._behind = dict.fromkeys(positions)
        self._wake.set()

    def release(self) -> None:
        """Begin to read after a held move."""
        self._held = False
        self._wake.set()

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Read ``where`` from ``offset`` next, if it is among ours."""
        if where in self._positions:
            self._positions[where] = offset
            self._notice(where)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Leave these out."""
        self._paused.update(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these again."""
        for where in partitions:
            self._paused.discard(where)
            self._notice(where)

    def _notice(self, where: TopicPartition) -> None:
        """Look into this partition at the next poll."""
        self._behind[where] = None
        self._wake.set()

    def interrupt(self) -> None:
        """End a waiting poll without records."""
        self._interrupted = True
        self._wake.set()

    def close(self) -> None:
        """End a waiting poll; later ones raise Unavailable."""
        self._closed = True
        self._broker.unlisten(self._topics, self._notice)
        self._wake.set()

    async def poll(self, max_records: int, timeout: float) -> list[Delivery]:
        """Return records as soon as there are some; none after ``timeout`` seconds or when closed."""
        if self._closed:
            message = "this consumer is closed"
            raise Unavailable(message)
        if self._behind:
            await self._broker.clock.sleep(0)  # a busy reader must not starve the loop
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            while not (self._closed or self._interrupted):
                self._wake.clear()
                if records := await self._take(max_records):
                    return records
                async with asyncio.timeout_at(deadline):  # reading is not bounded, only waiting is
                    await self._wake.wait()
        except TimeoutError:
            pass
        self._interrupted = False
        return []

    async def _take(self, limit: int) -> list[Delivery]:
        taken: list[Delivery] = []
        moves: list[tuple[TopicPartition, int, int]] = []
        for where in self._in_turn():
            if len(taken) >= limit:
                break
            before = self._positions.get(where)
            if before is None or self._broker.at_end(where, before):
                self._behind.pop(where, None)
                continue
            records, after = await self._broker.read(where, before, limit - len(taken))
            if self._positions.get(where) == before and where not in self._paused:
                taken += records
                moves.append((where, before, after))
        # Reading from disk suspends: when a partition was moved meanwhile, look again from the start.
        if any(self._positions.get(where) != before for where, before, _ in moves):
            self._wake.set()
            return []
        for where, _, after in moves:
            self._positions[where] = after
            self._behind.pop(where, None)
            if not self._broker.at_end(where, after):
                self._behind[where] = None  # behind the others, so that a full one starves none
        return taken

    def _in_turn(self) -> list[TopicPartition]:
        if self._held:
            return []
        return [where for where in self._behind if where not in self._paused]
