"""Work by key: one at a time for each key, bursts joined, failures tried again later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import pytest

from shared.clock import SystemClock
from shared.errors import Conflict, Unavailable
from shared.keyed import KeyedLocks, KeyedQueue, retry_level

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def running(queue: KeyedQueue) -> AsyncIterator[None]:
    task = asyncio.create_task(queue.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def queue_of(
    handle: Callable[[str], object], *, workers: int = 4
) -> tuple[KeyedQueue, list[tuple[str, int]]]:
    retried: list[tuple[str, int]] = []
    made = KeyedQueue(
        handle,  # type: ignore[arg-type]
        clock=SystemClock(),
        workers=workers,
        on_retry=lambda key, _error, failures: retried.append((key, failures)),
    )
    return made, retried


async def test_a_key_added_many_times_while_it_waits_is_handled_once():
    seen: list[str] = []

    async def handle(key: str) -> None:
        seen.append(key)

    queue, _ = queue_of(handle)
    for _ in range(5):
        queue.add("a")
    async with running(queue):
        await asyncio.sleep(1)
    assert seen == ["a"]


async def test_a_key_added_while_it_is_handled_is_handled_once_more_and_never_twice_at_the_same_time():
    active = most = count = 0

    async def handle(_key: str) -> None:
        nonlocal active, most, count
        active, count = active + 1, count + 1
        most = max(most, active)
        await asyncio.sleep(1)
        active -= 1

    queue, _ = queue_of(handle)
    queue.add("a")
    async with running(queue):
        await asyncio.sleep(0.5)
        queue.add("a")
        queue.add("a")
        await asyncio.sleep(5)
    assert (count, most) == (2, 1)


async def test_no_more_keys_than_workers_are_handled_at_once():
    active = most = 0

    async def handle(_key: str) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(1)
        active -= 1

    queue, _ = queue_of(handle, workers=2)
    for key in "abcdef":
        queue.add(key)
    async with running(queue):
        await asyncio.sleep(10)
    assert most == 2


async def test_what_the_world_refuses_is_tried_again_with_growing_pauses_and_then_forgotten():
    times: list[float] = []

    async def handle(_key: str) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) < 5:
            raise Unavailable("away")

    queue, retried = queue_of(handle)
    queue.add("a")
    async with running(queue):
        await asyncio.sleep(60)
    pauses = [after - before for before, after in pairwise(times)]
    assert retried == [("a", n) for n in (1, 2, 3, 4)]
    assert all(later > earlier for earlier, later in zip(pauses[::2], pauses[2::2], strict=False))


async def test_our_own_mistake_ends_the_loop():
    async def handle(_key: str) -> None:
        raise KeyError("ours")

    queue, _ = queue_of(handle)
    queue.add("a")
    with pytest.raises(ExceptionGroup) as caught:
        await queue.run()
    assert caught.group_contains(KeyError)


async def test_of_two_times_for_a_key_the_earlier_one_counts_and_a_forgotten_key_has_none():
    seen: list[tuple[str, float]] = []
    clock = SystemClock()
    start = clock.monotonic()

    async def handle(key: str) -> None:
        seen.append((key, round(clock.monotonic() - start, 1)))

    queue, _ = queue_of(handle)
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("b", 5)
    queue.forget("b")
    async with running(queue):
        await asyncio.sleep(30)
    assert seen == [("a", 3.0)]


async def test_a_lock_excludes_others_of_its_key_only_and_leaves_nothing_behind():
    locks = KeyedLocks()
    order: list[str] = []

    async def work(key: str, name: str) -> None:
        async with locks(key):
            order.append(f"+{name}")
            await asyncio.sleep(1)
            order.append(f"-{name}")

    await asyncio.gather(work("a", "1"), work("a", "2"), work("b", "3"))
    assert order.index("-1") < order.index("+2")
    assert order.index("+3") < order.index("-1")
    assert not locks._locks
    assert not locks._users


@pytest.mark.parametrize(
    ("error", "told"), [(Unavailable("away"), [30]), (Conflict("again"), [3, 30])], ids=["outage", "conflict"]
)
def test_an_outage_is_not_told_of_each_piece_of_work_unless_it_goes_on_for_long(error, told):
    assert [n for n in range(1, 100) if retry_level(error, n) == logging.WARNING] == told
