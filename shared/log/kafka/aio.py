"""What aiokafka 0.14 leaves to its user: errors in our terms, noise, and clean ends.

The only module that touches aiokafka's private attributes; each use says which gap it closes.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiokafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    ProducerClosed,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from aiokafka.producer import message_accumulator, transaction_manager

if TYPE_CHECKING:
    from collections.abc import Awaitable

LOST_OWNERSHIP = (
    CommitFailedError,
    IllegalGenerationError,
    IllegalStateError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
"""What a commit raises after a rebalance took the partition away."""

AWAY = (KafkaConnectionError, OSError, TimeoutError)


def passing(error: BaseException) -> bool:
    """Say whether trying again may help: the broker is away, starting or moving."""
    return isinstance(error, AWAY) or (isinstance(error, KafkaError) and bool(error.retriable))


def consumed(future: asyncio.Future[Any]) -> None:
    """Count a future's exception as seen, so that its end is not reported as forgotten."""
    if future.done() and not future.cancelled():
        future.exception()


def _unasked() -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.add_done_callback(consumed)
    return future


def see_every_failure() -> None:
    """Let a producer's futures fail when nobody waits for them any more.

    A producer that is fenced fails whatever is open: also the offsets, the transaction and the batches
    of a caller who was cancelled meanwhile. Each would be reported as a forgotten exception; the caller
    who is still there gets it from the one it awaits.
    """
    for module in (message_accumulator, transaction_manager):
        vars(module)["create_future"] = _unasked


def fatal(producer: Any) -> BaseException | None:
    """Return the error that ended a producer's background task, if it has ended."""
    task = producer._sender.sender_task  # noqa: SLF001 - it has no public sign of being dead
    return task.exception() if task is not None and task.done() and not task.cancelled() else None


def never_expire(producer: Any) -> None:
    """Let batches wait out any outage.

    A batch older than the request timeout is failed when the partition has no leader for a moment (as
    after a broker's restart), but its sequence number is spent, and the broker then refuses all that
    follows. Waiting keeps order and adds no duplicate; the caller's own patience bounds it.
    """
    producer._message_accumulator._batch_ttl = float("inf")  # noqa: SLF001


class _Batches(set[Any]):
    """A set from which what is gone already may be removed."""

    def remove(self, batch: Any) -> None:
        """Take a batch out."""
        self.discard(batch)


def remove_twice(producer: Any) -> None:
    """Let a batch that was put back into the queue be failed there.

    Both take it out of the batches on their way, and the second time is an error in a callback.
    """
    producer._message_accumulator._pending_batches = _Batches()  # noqa: SLF001


def survive_lookups(producer: Any) -> None:
    """Let a producer live on when a connection breaks just while it asks for its coordinator.

    Its background task takes some errors of that question for passing, but not this one, and ends.
    """
    lookup = producer.client.coordinator_lookup

    async def patient(*arguments: Any) -> Any:
        try:
            return await lookup(*arguments)
        except KafkaError as error:
            if not error.retriable:
                raise
            raise NodeNotReadyError(str(error)) from error

    producer.client.coordinator_lookup = patient


def stopped(producer: Any) -> bool:
    """Say whether a producer's stop was at least begun."""
    return bool(producer._closed)  # noqa: SLF001 - it has no public sign of it


async def stop_producer(producer: Any, timeout: float) -> None:
    """Stop within ``timeout`` seconds; undelivered batches of an absent broker are given up."""
    if not await _within(producer.stop(), timeout):
        # It was waiting for its queue to drain. What is on its way ends first, then the queue is
        # failed: the other way round a batch on its way is put back into a queue that forgot it.
        await _within(producer._sender.close(), timeout / 5)  # noqa: SLF001
        producer._message_accumulator.fail_all(ProducerClosed())  # noqa: SLF001
        await _within(producer.client.close(), timeout / 5)


async def stop_consumer(consumer: Any, timeout: float) -> None:
    """Leave the group and stop within ``timeout`` seconds, or just stop."""
    if await _within(consumer.stop(), timeout):
        return
    coordinator, fetcher = consumer._coordinator, consumer._fetcher  # noqa: SLF001 - see above
    tasks = [getattr(coordinator, name, None) for name in ("_coordination_task", "_heartbeat_task")]
    for task in tasks:
        if task is not None:
            task.cancel()
    if fetcher is not None:
        await _within(fetcher.close(), timeout / 5)
    await _within(consumer._client.close(), timeout / 5)  # noqa: SLF001


async def _within(call: Awaitable[Any], timeout: float) -> bool:
    with suppress(TimeoutError, KafkaError):
        async with asyncio.timeout(timeout):
            await call
            return True
    return False
