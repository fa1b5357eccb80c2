"""The loop around handlers: at least once, in order per key, nothing lost, nothing stuck."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from shared.clock import LoopClock
from shared.errors import Conflict, ContractError, NotFound, Refused, Unavailable
from shared.events import topics
from shared.events.codec import encode
from shared.events.consuming import Consuming, Message
from shared.events.contracts import CommandJob, CycleDecided, GangDecided, JobAction
from shared.events.envelope import Envelope
from shared.log.memory import MemoryLog
from shared.log.port import Record, Start
from shared.telemetry.telemetry import Telemetry

pytestmark = pytest.mark.looptime
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
Handle = Callable[[Message], Awaitable[None]]


@asynccontextmanager
async def a_log():
    log = MemoryLog(LoopClock(EPOCH))
    await log.start()
    await log.create_topics(topics.SPECS)
    yield log
    await log.close()


def command(name: str, number: int = 0) -> Record:
    event = CommandJob(namespace="ns", name=name, action=JobAction.SUSPEND, reason=str(number))
    envelope = Envelope(id=f"{name}-{number}", source="/test", time=EPOCH, data=event)
    return encode(topics.JOB_COMMANDS, f"ns/{name}".encode(), envelope)


def consuming(log: MemoryLog, handle: Handle, **options) -> Consuming:
    return Consuming(
        log,
        group="g",
        topics=[topics.JOB_COMMANDS],
        handlers={CommandJob: handle},
        clock=LoopClock(EPOCH),
        telemetry=Telemetry("test"),
        **options,
    )


@asynccontextmanager
async def running(worker: Consuming):
    task = asyncio.create_task(worker.run())
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def seen(message: Message) -> tuple[str, int]:
    event = message.envelope.data
    assert isinstance(event, CommandJob)
    return event.name, int(event.reason)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never came true")


async def committed(log: MemoryLog) -> int:
    return sum((await log.committed("g", topics.JOB_COMMANDS)).values())


async def test_messages_of_one_key_are_handled_in_order_and_others_meanwhile():
    async with a_log() as log:
        done: list[tuple[str, int]] = []
        slow = asyncio.Event()

        async def handle(message: Message) -> None:
            if seen(message) == ("slow", 0):
                await slow.wait()
            done.append(seen(message))

        await log.producer.send_many([command("slow", 0), command("slow", 1), command("quick", 0)])
        async with running(consuming(log, handle)):
            await until(lambda: done == [("quick", 0)])
            slow.set()
            await until(lambda: done == [("quick", 0), ("slow", 0), ("slow", 1)])


async def test_an_unreadable_message_is_dead_lettered_with_the_reason_and_the_offset_moves_on():
    async with a_log() as log:
        done: list[tuple[str, int]] = []

        async def handle(message: Message) -> None:
            done.append(seen(message))

        bad = Record(topics.JOB_COMMANDS, b"ns/a", b"\x00 not an event", (("x", b"kept"),))
        await log.producer.send_many([bad, command("a", 1)])
        async with running(consuming(log, handle)):
            await until(lambda: done == [("a", 1)])
        assert await committed(log) == 2
        letters = await (await log.read([topics.dead_letter(topics.JOB_COMMANDS)])).poll()
        headers = dict(letters[0].headers)
        assert (letters[0].key, letters[0].value) == (bad.key, bad.value)
        assert headers["x"] == b"kept"
        assert headers["dead_letter_reason"] == b"not-json-or-yaml"
        assert headers["dead_letter_topic"] == b"job-commands"


def of_decisions(log: MemoryLog, handle: Handle, **options) -> Consuming:
    return Consuming(
        log,
        group="g",
        topics=[topics.BIND_DECISIONS],
        handlers={GangDecided: handle},
        clock=LoopClock(EPOCH),
        telemetry=Telemetry("test"),
        **options,
    )


async def test_what_is_for_others_is_passed_over_and_the_offset_moves_on():
    async def handle(message: Message) -> None:
        pytest.fail(f"{message} is for others")

    async with a_log() as log:
        cycle = CycleDecided(pool="default", cycle=1, at=EPOCH)
        envelope = Envelope(id="cycle", source="/test", time=EPOCH, data=cycle)
        await log.producer.send_many([encode(topics.BIND_DECISIONS, b"default", envelope)])
        async with running(of_decisions(log, handle, passed_over=(CycleDecided,))):
            await asyncio.sleep(10)
        assert sum((await log.committed("g", topics.BIND_DECISIONS)).values()) == 1
        letters = await (await log.read([topics.dead_letter(topics.BIND_DECISIONS)])).poll()
        assert letters == []


async def test_a_service_that_forgot_an_event_of_its_topics_cannot_be_made():
    async with a_log() as log:
        with pytest.raises(ValueError, match=r"passes over dev\.pumice\.cycle\.decided"):
            of_decisions(log, asyncio.sleep)


async def test_what_a_handler_refuses_for_good_is_dead_lettered():
    async with a_log() as log:

        async def handle(message: Message) -> None:
            raise ContractError("nonsense", "no such thing")

        reader = await log.read([topics.dead_letter(topics.JOB_COMMANDS)], start=Start.LATEST)
        await log.producer.send(command("a"))
        async with running(consuming(log, handle)):
            letters = await reader.poll(timeout=60)
        assert dict(letters[0].headers)["dead_letter_reason"] == b"nonsense"


@pytest.mark.parametrize(
    "bad",
    [
        Record(topics.JOB_COMMANDS, b"ns/a", b"\x00" + 999_900 * b"x"),
        Record(topics.JOB_COMMANDS, b"ns/a", b"", (("x", 999_900 * b"x"),)),
        Record(topics.JOB_COMMANDS, 999_900 * b"k", b"\x00"),
    ],
    ids=["value", "headers", "key"],
)
async def test_a_record_that_leaves_no_room_for_the_reason_is_cut_and_the_next_one_is_handled(bad):
    async with a_log() as log:
        done: list[tuple[str, int]] = []

        async def handle(message: Message) -> None:
            done.append(seen(message))

        await log.producer.send_many([bad, command("a", 1)])
        async with running(consuming(log, handle)):
            await until(lambda: done == [("a", 1)])
            [letter] = await (await log.read([topics.dead_letter(topics.JOB_COMMANDS)])).poll()
        headers = dict(letter.headers)
        assert headers["dead_letter_reason"] in (b"not-json-or-yaml", b"not-a-cloudevent")
        assert headers["dead_letter_cut_from"] == str(len(bad.value or b"")).encode()
        assert (bad.value or b"").startswith(letter.value or b"")


async def test_what_leads_to_a_record_that_is_too_large_is_dead_lettered():
    async with a_log() as log:
        done: list[tuple[str, int]] = []

        async def handle(message: Message) -> None:
            if seen(message) == ("a", 0):
                await log.producer.send(Record(topics.JOB_LIFECYCLE, b"ns/a", 2_000_000 * b"x"))
            done.append(seen(message))

        await log.producer.send_many([command("a", 0), command("a", 1)])
        async with running(consuming(log, handle)):
            await until(lambda: done == [("a", 1)])
            [letter] = await (await log.read([topics.dead_letter(topics.JOB_COMMANDS)])).poll()
        assert dict(letter.headers)["dead_letter_reason"] == b"too-large"


@pytest.mark.parametrize("answer", [Conflict, NotFound, Refused, Unavailable])
async def test_what_the_world_answers_has_a_message_tried_again_until_it_passes(answer):
    async with a_log() as log:
        tries = 0

        async def handle(message: Message) -> None:
            nonlocal tries
            tries += 1
            if tries < 12:
                raise answer("not now")

        await log.producer.send(command("a"))
        async with running(consuming(log, handle)):
            await until(lambda: tries == 12)
        assert await committed(log) == 1


async def test_our_own_mistake_ends_the_service_and_the_message_is_delivered_again():
    async with a_log() as log:
        done: list[tuple[str, int]] = []

        async def broken(message: Message) -> None:
            raise ZeroDivisionError

        async def handle(message: Message) -> None:
            done.append(seen(message))

        await log.producer.send(command("a"))
        with pytest.raises(ZeroDivisionError):
            await consuming(log, broken).run()
        async with running(consuming(log, handle)):
            await until(lambda: done == [("a", 0)])


async def test_a_stop_finishes_what_is_in_flight_and_commits_it():
    async with a_log() as log:
        begun, done = asyncio.Event(), []

        async def handle(message: Message) -> None:
            begun.set()
            await asyncio.sleep(2)
            done.append(seen(message))

        await log.producer.send(command("a"))
        async with running(consuming(log, handle)):
            await begun.wait()
        assert done == [("a", 0)]
        assert await committed(log) == 1


async def test_a_full_worker_takes_no_more_until_there_is_room():
    async with a_log() as log:
        gate, at_once, most, done = asyncio.Event(), 0, 0, 0

        async def handle(message: Message) -> None:
            nonlocal at_once, most, done
            at_once += 1
            most = max(most, at_once)
            await gate.wait()
            at_once -= 1
            done += 1

        await log.producer.send_many([command(f"job-{number}") for number in range(100)])
        async with running(consuming(log, handle, max_in_flight=10)):
            await asyncio.sleep(30)
            assert most <= 20  # one more batch may be under way when the limit is reached
            gate.set()
            await until(lambda: done == 100)


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
async def test_a_full_worker_goes_on_however_slowly_it_gets_room(limit):
    async with a_log() as log:
        done = 0

        async def handle(message: Message) -> None:
            nonlocal done
            await asyncio.sleep(
                0.1 + int(seen(message)[0].removeprefix("job-")) * 0.02
            )  # one after the other
            done += 1

        await log.producer.send_many([command(f"job-{number}") for number in range(50)])
        async with running(consuming(log, handle, max_in_flight=limit)):
            await until(lambda: done == 50)


async def test_two_members_share_the_work_and_lose_nothing_when_one_leaves():
    async with a_log() as log:
        done: set[tuple[str, int]] = set()

        async def handle(message: Message) -> None:
            await asyncio.sleep(0.05)
            done.add(seen(message))

        wanted = {(f"job-{number}", 0) for number in range(60)}
        async with running(consuming(log, handle)) as first, running(consuming(log, handle)):
            await log.producer.send_many([command(name) for name, _ in wanted])
            await asyncio.sleep(0.03)
            first.cancel()
            await until(lambda: done == wanted)
