"""Rebalance of one group: everybody gives back what it holds, then everybody gets a new share.

Eager, as Kafka's classic protocol is, so that a service sees the same calls on both.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from shared.errors import Unavailable
from shared.log.core.groups import assign

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.log.core.state import State
    from shared.log.port import TopicPartition


class Member(Protocol):
    """What a group asks of a member."""

    @property
    def topics(self) -> Sequence[str]:
        """The topics it wants."""
        ...

    async def revoke(self) -> None:
        """Stop reading and finish with what it holds."""
        ...

    async def take(self, partitions: frozenset[TopicPartition]) -> None:
        """Own these from now on."""
        ...


class Group:
    """The members of a group and the task that rebalances them, one round at a time."""

    def __init__(self, name: str, state: State) -> None:
        self.name = name
        self.task: asyncio.Task[None] | None = None
        self._state = state
        self._members: dict[str, Member] = {}
        self._joined = 0
        self._dirty = False
        self._waiting: list[asyncio.Future[None]] = []

    async def join(self, member: Member) -> str:
        """Take a member in; returns its id once it has its share."""
        self._joined += 1
        identity = f"{self._joined:06d}"
        self._members[identity] = member
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(settled)
        self._rebalance()
        try:
            await settled
        except asyncio.CancelledError:
            self.leave(identity)
            raise
        return identity

    def leave(self, identity: str) -> None:
        """Let a member go; the others get their new shares in the background."""
        if self._members.pop(identity, None) is not None:
            self._rebalance()

    async def close(self) -> None:
        """Stop rebalancing; who waits to join is told so."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        for settled in self._waiting:
            if not settled.done():
                settled.set_exception(Unavailable("the log was closed"))

    def _rebalance(self) -> None:
        self._dirty = True
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._run(), name=f"rebalance {self.name}")

    async def _run(self) -> None:
        while self._dirty:
            await asyncio.gather(*(member.revoke() for member in self._members.values()))
            self._dirty = False
            waiting = list(self._waiting)
            members = dict(self._members)
            wanted = {identity: member.topics for identity, member in members.items()}
            topics = {topic for names in wanted.values() for topic in names}
            shares = assign(wanted, {topic: self._state.spec(topic).partitions for topic in topics})
            await asyncio.gather(*(member.take(shares[identity]) for identity, member in members.items()))
            for settled in waiting:
                if not settled.done():
                    settled.set_result(None)
            self._waiting = [settled for settled in self._waiting if not settled.done()]
