"""Admission over the log in memory, with virtual time: what it answers, and what it does when things go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from services.admission.app import build
from services.admission.settings import AdmissionSettings
from shared.clock import LoopClock
from shared.errors import TooLarge, Unavailable
from shared.events import topics
from shared.events.codec import decode, encode
from shared.events.contracts import (
    Contract,
    JobAdmitted,
    JobRejected,
    JobState,
    JobSubmitted,
    QueueState,
    Violation,
)
from shared.events.envelope import Envelope
from shared.log.memory import MemoryLog
from shared.log.port import Record
from shared.telemetry.telemetry import Telemetry
from tests.unit.admission.worlds import VALID, spoiled

pytestmark = pytest.mark.looptime
EPOCH = datetime(2026, 3, 1, 12, tzinfo=UTC)
TRACE = f"00-{'a' * 32}-{'b' * 16}-01"


class FaultyLog:
    """The log, with one fault: records on a topic can be refused before they are appended."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.refuse: Callable[[Record], Exception | None] = lambda _: None
        self.away = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    @property
    def producer(self) -> FaultyLog:
        return self

    async def read(self, *args: Any, **options: Any) -> Any:
        if self.away:
            raise Unavailable("no broker answers")
        return FaultyReader(self, await self._log.read(*args, **options))

    async def send(self, record: Record) -> Any:
        if (error := self.refuse(record)) is not None:
            raise error
        return await self._log.producer.send(record)


def at_most(limit: int) -> Callable[[Record], Exception | None]:
    """Return what a log with a smaller limit says to a record."""

    def refuse(record: Record) -> Exception | None:
        size = len(record.value or b"")
        return TooLarge("too large", size=size, limit=limit) if size > limit else None

    return refuse


class FaultyReader:
    """A reader of a log that can be away."""

    def __init__(self, log: FaultyLog, reader: Any) -> None:
        self._log = log
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    async def poll(self, **options: Any) -> Any:
        if self._log.away:
            raise Unavailable("no broker answers")
        return await self._reader.poll(**options)


class World:
    """A log, admission on it, and whoever else writes to the topics."""

    def __init__(self, **settings: Any) -> None:
        self.clock = LoopClock(EPOCH)
        self.log = MemoryLog(self.clock)
        self.faulty = FaultyLog(self.log)
        self.settings = AdmissionSettings(**settings)
        self.spans = InMemorySpanExporter()
        self.telemetry = Telemetry("admission")
        self.task: asyncio.Task[None] | None = None
        self.service: Any = None

    async def start(self) -> None:
        self.telemetry = Telemetry("admission", exporter=self.spans)
        self.service = build(
            self.settings, clock=self.clock, log=self.faulty, ids=lambda: "id", telemetry=self.telemetry
        )
        self.task = asyncio.create_task(self.service.run())

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task
            self.task = None

    async def publish(
        self, topic: str, key: bytes, event: Contract, event_id: str = "e", traceparent: str | None = None
    ) -> None:
        envelope = Envelope(event_id, "/test", self.clock.now(), event, traceparent=traceparent)
        await self.log.producer.send(encode(topic, key, envelope))

    async def queues(self, *queues: QueueState) -> None:
        for queue in queues or (
            QueueState(name="root"),
            QueueState(name="default"),
            QueueState(name="research"),
        ):
            await self.publish(topics.CLUSTER_STATE, topics.state_key("queue", "", queue.name), queue)

    async def submit(self, job: dict[str, Any], event_id: str = "s1", **more: Any) -> None:
        await self.publish(
            topics.JOB_SUBMITTED, b"team/train", JobSubmitted(job=job, submitted_by="eve"), event_id, **more
        )

    async def job_state(self, submission: str, **more: Any) -> None:
        now = self.clock.now()
        event = JobState(
            namespace="team",
            name="train",
            uid="u1",
            submission=submission,
            created_at=now,
            changed_at=now,
            **more,
        )
        await self.publish(topics.CLUSTER_STATE, topics.state_key("job", "team", "train"), event)

    async def job_gone(self) -> None:
        await self.log.producer.send(
            Record(topics.CLUSTER_STATE, topics.state_key("job", "team", "train"), None)
        )

    async def read(self, topic: str) -> list[Any]:
        reader = await self.log.read([topic])
        found: list[Any] = []
        while not await reader.caught_up():
            found += await reader.poll(timeout=0.01)
        await reader.close()
        return found

    async def answers(self, count: int | None = None, seconds: float = 30) -> list[Envelope[Contract]]:
        """Return what was answered, in order; wait for ``count`` answers if given."""
        deadline = self.clock.monotonic() + seconds
        while True:
            deliveries = [*await self.read(topics.JOB_ADMITTED), *await self.read(topics.JOB_REJECTED)]
            found = sorted((decode(d) for d in deliveries), key=lambda envelope: envelope.time)
            if count is None or len(found) >= count:
                return found
            assert self.task is None or not self.task.done(), self.task.result() if self.task else None
            assert self.clock.monotonic() < deadline, f"only {len(found)} answers"
            await asyncio.sleep(0.05)

    async def committed(self) -> int:
        return sum((await self.log.committed("admission", topics.JOB_SUBMITTED)).values())

    def metric(self, name: str, **labels: str) -> float:
        return self.telemetry.registry.get_sample_value(name, labels) or 0.0


def codes(envelope: Envelope[Contract]) -> list[str]:
    assert isinstance(envelope.data, JobRejected)
    return [violation.code for violation in envelope.data.violations]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.log.start()
    await made.log.create_topics(topics.SPECS)
    yield made
    await made.stop()
    await made.log.close()


async def test_a_valid_job_is_admitted_with_its_defaults_and_its_trace(world):
    await world.queues()
    await world.start()
    await world.submit(VALID, traceparent=TRACE)
    [answer] = await world.answers(1)
    assert isinstance(answer.data, JobAdmitted)
    assert (answer.data.submission, answer.data.submitted_by) == ("s1", "eve")
    assert answer.data.job["spec"]["tasks"][0]["minAvailable"] == 1
    assert (answer.id, answer.source, answer.subject) == ("s1.admitted", "/pumice/admission", "team/train")
    assert answer.traceparent is not None
    assert answer.traceparent.split("-")[1] == "a" * 32
    [delivery] = await world.read(topics.JOB_ADMITTED)
    assert delivery.key == b"team/train"
    assert world.metric("pumice_admission_total", outcome="admitted") == 1


async def test_an_invalid_job_is_rejected_with_every_violation(world):
    await world.queues()
    await world.start()
    await world.submit(spoiled(("spec/maxRetry", "3"), ("spec/plugins/x", []), ("spec/minAvailable", 9)))
    [answer] = await world.answers(1)
    assert codes(answer) == ["wrong-type", "min-available-above-replicas", "unknown-plugin"]
    assert answer.id == "s1.rejected"
    assert isinstance(answer.data, JobRejected)
    assert answer.data.violations[0] == Violation(
        code="wrong-type", path="spec.maxRetry", message='must be an integer, not the string "3"'
    )
    assert world.metric("pumice_admission_total", outcome="rejected") == 1
    assert world.metric("pumice_admission_violations_total", code="unknown-plugin") == 1


async def test_the_answer_is_a_span_of_the_jobs_trace(world):
    await world.queues()
    await world.start()
    await world.submit(VALID, traceparent=TRACE)
    await world.answers(1)
    await asyncio.sleep(0.1)
    [span] = world.spans.get_finished_spans()
    assert (span.name, span.status.is_ok) == ("admit", True)
    assert f"{span.context.trace_id:032x}" == "a" * 32
    assert span.attributes["pumice.queue"] == "research"


async def test_a_job_without_a_trace_begins_one_that_its_submission_names(world):
    await world.queues()
    await world.start()
    await world.submit(VALID)
    await world.submit(spoiled(("metadata/name", "other"), ("spec/queue", "root")), event_id="s2")
    answers = await world.answers(2)
    assert len({answer.traceparent for answer in answers}) == 2
    assert all(answer.traceparent and answer.tracestate for answer in answers)


async def test_a_bare_job_in_yaml_is_answered_under_its_place_in_the_log(world):
    await world.queues()
    await world.start()
    text = json.dumps(VALID, indent=1).encode()
    where = await world.log.producer.send(Record(topics.JOB_SUBMITTED, None, b"# a job\n" + text))
    [answer] = await world.answers(1)
    assert isinstance(answer.data, JobAdmitted)
    assert answer.data.submission == f"job-submitted-{where.partition}-{where.offset}"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\xff\xfe not a text", b"not-json-or-yaml"),
        (b'{"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "x"}}', b"not-a-job"),
        (b'{"hello": 1}', b"not-a-job"),
    ],
)
async def test_what_is_no_job_goes_to_the_dead_letter_topic_and_the_rest_goes_on(world, value, reason):
    await world.queues()
    await world.start()
    await world.log.producer.send(Record(topics.JOB_SUBMITTED, b"team/train", value))
    await world.submit(VALID)
    await world.answers(1)
    [dead] = await world.read(topics.dead_letter(topics.JOB_SUBMITTED))
    assert dict(dead.headers)["dead_letter_reason"] == reason
    assert dead.value == value
    await asyncio.sleep(1)
    assert await world.committed() == 2


async def test_the_same_submission_twice_is_answered_once(world):
    await world.queues()
    await world.start()
    await world.submit(VALID)
    await world.submit(VALID)
    await world.answers(1)
    await asyncio.sleep(2)
    assert len(await world.answers()) == 1
    assert world.metric("pumice_admission_total", outcome="repeated") == 1


async def test_the_same_submission_is_left_alone_while_its_job_exists_and_when_it_has_gone(world):
    await world.queues()
    await world.start()
    await world.submit(VALID)
    await world.answers(1)
    await world.job_state("s1")
    await asyncio.sleep(1)
    await world.submit(VALID)
    await asyncio.sleep(1)
    await world.job_gone()
    await asyncio.sleep(1)
    await world.submit(VALID)
    await asyncio.sleep(1)
    assert len(await world.answers()) == 1
    assert world.metric("pumice_admission_total", outcome="repeated") == 2


async def test_of_two_jobs_of_one_name_in_a_row_the_second_is_rejected(world):
    await world.queues()
    await world.start()
    await world.submit(VALID, event_id="s1")
    await world.submit(VALID, event_id="s2")
    first, second = await world.answers(2)
    assert isinstance(first.data, JobAdmitted)
    assert codes(second) == ["already-exists"]


async def test_a_name_is_free_again_when_its_job_is_gone(world):
    await world.queues()
    await world.start()
    await world.submit(VALID, event_id="s1")
    await world.answers(1)
    await world.job_state("s1")
    await asyncio.sleep(1)
    await world.submit(VALID, event_id="s2")
    assert codes((await world.answers(2))[1]) == ["already-exists"]
    await world.job_gone()
    await asyncio.sleep(1)
    await world.submit(VALID, event_id="s3")
    assert isinstance((await world.answers(3))[2].data, JobAdmitted)


async def test_a_name_is_free_again_when_the_controller_could_not_create_its_job(world):
    await world.queues()
    await world.start()
    await world.submit(VALID, event_id="s1")
    await world.answers(1)
    refusal = JobRejected(
        submission="s1",
        namespace="team",
        name="train",
        violations=(Violation(code="x", path="", message="no"),),
    )
    await world.publish(topics.JOB_REJECTED, b"team/train", refusal)
    await asyncio.sleep(1)
    await world.submit(VALID, event_id="s2")
    assert isinstance((await world.answers(3))[2].data, JobAdmitted)


async def test_an_admitted_job_holds_its_name_only_for_a_time(world):
    await world.queues()
    await world.start()
    await world.submit(VALID, event_id="s1")
    await world.answers(1)
    await asyncio.sleep(world.settings.admitted_memory_seconds + 2)
    await world.submit(VALID, event_id="s2")
    assert [type(answer.data) for answer in await world.answers(2)] == [JobAdmitted, JobAdmitted]


async def test_a_name_that_another_member_admitted_is_taken(world):
    await world.queues()
    await world.start()
    other = JobAdmitted(submission="s0", job=VALID)
    await asyncio.sleep(1)
    await world.publish(topics.JOB_ADMITTED, b"team/train", other)
    await asyncio.sleep(1)
    await world.submit(VALID, event_id="s1")
    assert codes((await world.answers(2))[1]) == ["already-exists"]


async def test_nothing_is_decided_before_the_controller_has_told_of_a_queue(world):
    await world.start()
    await world.submit(VALID)
    await asyncio.sleep(5)
    assert await world.answers() == []
    assert not world.service.health.ready
    await world.queues()
    [answer] = await world.answers(1)
    assert isinstance(answer.data, JobAdmitted)
    assert world.service.health.ready


async def test_a_queue_that_appears_at_once_is_waited_for(world):
    await world.queues()
    await world.start()
    await world.submit(spoiled(("spec/queue", "new")))
    await asyncio.sleep(0.5)
    assert await world.answers() == []
    await world.queues(QueueState(name="new"))
    [answer] = await world.answers(1)
    assert isinstance(answer.data, JobAdmitted)


async def test_a_queue_that_does_not_appear_is_not_waited_for_long(world):
    await world.queues()
    await world.start()
    await world.submit(spoiled(("spec/queue", "reserch")))
    [answer] = await world.answers(1)
    assert codes(answer) == ["queue-not-found"]
    assert (answer.time - EPOCH).total_seconds() < 2


async def test_a_job_with_other_mistakes_does_not_wait_for_its_queue(world):
    await world.queues()
    await world.start()
    await asyncio.sleep(1)
    sent = world.clock.now()
    await world.submit(spoiled(("spec/queue", "reserch"), ("spec/maxRetry", -1)))
    [answer] = await world.answers(1)
    assert codes(answer) == ["out-of-range", "queue-not-found"]
    assert (answer.time - sent).total_seconds() < 0.5


async def test_the_queue_tree_is_followed(world):
    await world.queues()
    await world.queues(QueueState(name="team-a", parent="research"), QueueState(name="shut", state="Closed"))
    await world.start()
    for number, queue in enumerate(("research", "team-a", "shut")):
        await world.submit(spoiled(("metadata/name", f"job{number}"), ("spec/queue", queue)), event_id=queue)
    answers = {answer.id: answer for answer in await world.answers(3)}
    assert set(answers) == {"research.rejected", "team-a.admitted", "shut.rejected"}
    assert codes(answers["research.rejected"]) == ["queue-not-leaf"]
    assert codes(answers["shut.rejected"]) == ["queue-not-open"]
    await world.log.producer.send(Record(topics.CLUSTER_STATE, topics.state_key("queue", "", "team-a"), None))
    await asyncio.sleep(1)
    await world.submit(spoiled(("metadata/name", "again")), event_id="s9")
    assert isinstance((await world.answers(4))[3].data, JobAdmitted)


async def test_an_answer_that_cannot_be_published_is_tried_again_and_published_once(world):
    await world.queues()
    await world.start()
    failures = iter([Unavailable("away"), Unavailable("away"), None])
    world.faulty.refuse = lambda _: next(failures, None)
    await world.submit(VALID)
    [answer] = await world.answers(1)
    assert isinstance(answer.data, JobAdmitted)
    await asyncio.sleep(1)
    assert len(await world.answers()) == 1
    assert await world.committed() == 1


async def test_a_submission_is_not_committed_before_its_answer_is_in_the_log(world):
    await world.queues()
    await world.start()
    world.faulty.refuse = lambda _: Unavailable("away")
    await world.submit(VALID)
    await asyncio.sleep(5)
    assert await world.committed() == 0
    await world.stop()
    world.faulty.refuse = lambda _: None
    await world.start()
    [answer] = await world.answers(1)
    assert answer.id == "s1.admitted"


async def test_after_a_restart_an_admitted_job_that_is_not_there_yet_still_holds_its_name(world):
    await world.queues()
    await world.start()
    await world.submit(VALID, event_id="s1")
    await world.answers(1)
    await world.stop()
    await world.start()
    await world.submit(VALID, event_id="s1")
    await world.submit(VALID, event_id="s2")
    answers = await world.answers(2)
    await asyncio.sleep(1)
    assert [answer.id for answer in answers] == ["s1.admitted", "s2.rejected"]
    assert len(await world.answers()) == 2


async def test_a_job_that_is_too_large_with_its_defaults_is_rejected(world):
    await world.queues()
    await world.start()
    world.faulty.refuse = lambda record: (
        TooLarge("too large", size=2_000_000, limit=1_000_000)
        if record.topic == topics.JOB_ADMITTED
        else None
    )
    await world.submit(VALID)
    [answer] = await world.answers(1)
    assert codes(answer) == ["too-large"]


async def test_more_violations_than_fit_are_cut_with_a_note(world):
    await world.queues()
    await world.start()
    world.faulty.refuse = at_most(8000)
    await world.submit(spoiled(("spec/tasks", [{"name": f"T{n}", "template": {}} for n in range(100)])))
    [answer] = await world.answers(1)
    found = codes(answer)
    assert len(found) == 21
    assert found[-1] == "too-many-violations"


async def test_a_rejection_that_quotes_what_is_too_long_is_cut(world):
    await world.queues()
    await world.start()
    world.faulty.refuse = at_most(8000)
    await world.submit(spoiled(("spec/plugins", {20_000 * "x": []})))
    [answer] = await world.answers(1)
    assert isinstance(answer.data, JobRejected)
    assert codes(answer) == ["unknown-plugin"]
    assert all(len(one.path) <= 1000 for one in answer.data.violations)


async def test_a_job_whose_name_fits_into_no_answer_goes_to_the_dead_letters_and_stops_nobody(world):
    await world.queues()
    await world.start()
    await world.submit(spoiled(("metadata/name", 700_000 * "x")), event_id="s1")
    await world.submit(VALID, event_id="s2")
    [answer] = await world.answers(1)
    assert answer.id == "s2.admitted"
    [letter] = await world.read(topics.dead_letter(topics.JOB_SUBMITTED))
    assert dict(letter.headers)["dead_letter_reason"] == b"too-large"


async def test_many_submissions_are_answered_together_and_each_once(world):
    await world.queues()
    await world.start()
    for number in range(300):
        await world.submit(spoiled(("metadata/name", f"job-{number}")), event_id=f"s{number}")
    answers = await world.answers(300)
    assert {answer.id for answer in answers} == {f"s{number}.admitted" for number in range(300)}
    await asyncio.sleep(1)
    assert await world.committed() == 300


async def test_two_members_share_the_work_and_answer_each_submission_once(world):
    await world.queues()
    await world.start()
    second = World()
    second.clock, second.log, second.faulty = world.clock, world.log, world.faulty
    await second.start()
    await asyncio.sleep(1)
    for number in range(60):
        name = f"job-{number}"
        event = JobSubmitted(job=spoiled(("metadata/name", name)))
        await world.publish(topics.JOB_SUBMITTED, f"team/{name}".encode(), event, f"s{number}")
    answers = await world.answers(60)
    await asyncio.sleep(1)
    await second.stop()
    assert sorted(answer.id for answer in answers) == sorted(f"s{number}.admitted" for number in range(60))
    assert len(await world.answers()) == 60


async def test_a_fact_that_cannot_be_read_is_passed_over(world):
    key = topics.state_key("queue", "", "odd")
    await world.log.producer.send(
        Record(topics.CLUSTER_STATE, key, b"{}", (("ce_type", b"dev.pumice.state.queue.v9"),))
    )
    await world.queues()
    await world.start()
    await world.submit(VALID)
    [answer] = await world.answers(1)
    assert isinstance(answer.data, JobAdmitted)


async def test_a_log_that_is_away_at_first_and_again_later_is_waited_for(world):
    await world.queues()
    world.faulty.away = True
    await world.start()
    await asyncio.sleep(10)
    assert "log" in world.service.health.reasons
    world.faulty.away = False
    await world.submit(VALID)
    await world.answers(1)
    assert world.service.health.ready
    world.faulty.away = True
    await asyncio.sleep(5)
    assert not world.service.health.ready
    world.faulty.away = False
    await world.queues(QueueState(name="late"))
    await world.submit(spoiled(("metadata/name", "other"), ("spec/queue", "late")), event_id="s2")
    assert isinstance((await world.answers(2))[1].data, JobAdmitted)
