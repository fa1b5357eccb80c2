"""The API over an in-memory log; what admission and the controller would say is said by hand."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import httpx
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from services.gateway.app import Gateway, build
from services.gateway.settings import GatewaySettings
from shared.clock import SystemClock
from shared.events import topics
from shared.events.codec import decode, encode
from shared.events.contracts import (
    Binding,
    CommandJob,
    CommandPool,
    CommandQueue,
    Eviction,
    Gang,
    JobSubmitted,
    PodState,
    TrialAnswered,
    TrialReady,
)
from shared.events.trials import trial_record
from shared.log.memory import MemoryLog
from shared.log.port import Record
from shared.telemetry.spans import job_trace
from shared.telemetry.telemetry import Telemetry
from tests.fixtures.gateway_story import Said, Story, node, queue

SHORT = {"name": "train", "image": "pytorch", "gpus": 8, "workers": 2}
GANG = Gang(
    namespace="default",
    name="g",
    uid="u",
    pool="gpu",
    min_member=1,
    tasks=(),
    created_at="2026-01-01T00:00:00Z",
    ready_since="2026-01-01T00:00:00Z",
)
ASKER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@dataclass
class World:
    """A log, a gateway on it and a client of it."""

    log: MemoryLog
    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    gateway: Gateway | None = None
    http: httpx.AsyncClient | None = None

    @asynccontextmanager
    async def running(self, **settings: object) -> AsyncIterator[httpx.AsyncClient]:
        """Run a gateway until the block is left; inside it has read everything."""
        numbers = itertools.count(1)
        self.gateway = build(
            GatewaySettings(port=None, **settings),
            clock=SystemClock(),
            log=self.log,
            ids=lambda: f"id-{next(numbers)}",
            telemetry=Telemetry("gateway", exporter=self.spans),
        )
        running = asyncio.create_task(self.gateway.run())
        try:
            await self.until(lambda: self.gateway is not None and self.gateway.health.ready)
            transport = httpx.ASGITransport(self.gateway.asgi)
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as self.http:
                yield self.http
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def until(self, condition) -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 - looks from outside
                await asyncio.sleep(0.005)

    async def say(self, *said: Said) -> None:
        for message in said:
            record = Record(message.topic, message.key, None)
            if message.envelope is not None:
                record = encode(message.topic, message.key, message.envelope)
            await self.log.producer.send(record)

    async def shows(self, name: str, phase: str) -> dict:
        """Wait until the gateway shows a job in a phase; return it."""
        assert self.http is not None
        async with asyncio.timeout(10):
            while True:
                answer = await self.http.get(f"/v1/jobs/default/{name}")
                if answer.status_code == 200 and answer.json()["phase"] == phase:
                    return answer.json()
                await asyncio.sleep(0.005)

    async def published(self, topic: str) -> list:
        reader = await self.log.read([topic])
        found = []
        while not await reader.caught_up():
            found += [decode(delivery) for delivery in await reader.poll()]
        await reader.close()
        return found


@pytest.fixture
async def world() -> AsyncIterator[World]:
    log = MemoryLog(SystemClock())
    await log.start()
    await log.create_topics(topics.SPECS)
    yield World(log)
    await log.close()


async def submission_of(world: World, number: int = 0) -> str:
    """Wait for the submission to be in the log; return its id."""
    async with asyncio.timeout(10):
        while len(found := await world.published(topics.JOB_SUBMITTED)) <= number:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return found[number].id


async def test_a_submission_is_accepted_once_it_is_in_the_log(world: World) -> None:
    async with world.running() as http:
        answer = await http.post("/v1/jobs", json=SHORT)
    assert answer.status_code == 202
    body = answer.json()
    (envelope,) = await world.published(topics.JOB_SUBMITTED)
    assert isinstance(envelope.data, JobSubmitted)
    assert (envelope.id, envelope.subject) == (body["submission"], "default/train")
    assert envelope.traceparent == body["traceparent"] == answer.headers["traceparent"]
    assert answer.headers["location"] == body["links"]["self"] == "/v1/jobs/default/train"
    assert envelope.data.job["metadata"] == {"namespace": "default", "name": "train"}
    (span,) = world.spans.get_finished_spans()
    assert (span.name, f"{span.context.trace_id:032x}") == ("submit", body["traceparent"][3:35])


@pytest.mark.parametrize(
    "content_type", ["application/yaml", "text/plain", "application/x-www-form-urlencoded", ""]
)
async def test_yaml_is_taken_under_any_name(world: World, content_type: str) -> None:
    text = (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {generateName: run-}\nspec: {queue: q}\n"
    )
    headers = {"content-type": content_type} if content_type else {}
    async with world.running() as http:
        answer = await http.post("/v1/jobs", content=text, headers=headers)
    assert answer.status_code == 202
    assert answer.json()["name"].startswith("run-")
    assert len(answer.json()["name"]) == 9


async def test_an_incoming_trace_is_continued(world: World) -> None:
    async with world.running() as http:
        answer = await http.post("/v1/jobs", json=SHORT, headers={"traceparent": ASKER})
    assert answer.json()["traceparent"][3:35] == ASKER[3:35]
    (envelope,) = await world.published(topics.JOB_SUBMITTED)
    assert envelope.tracestate == f"pumice={ASKER[36:52]}"


@pytest.mark.parametrize(
    ("content", "content_type", "code"),
    [
        ("{", "application/json", "not-json-or-yaml"),
        ("a: [", "application/yaml", "not-json-or-yaml"),
        ("", "application/json", "empty-body"),
        ("[]", "application/json", "not-a-job"),
        ('{"kind":"Pod","apiVersion":"v1"}', "application/json", "not-a-job"),
        ("a: 1\n---\nb: 2\n", "application/yaml", "not-json-or-yaml"),
    ],
)
async def test_what_cannot_be_read_is_a_400_that_says_why(
    world: World, content: str, content_type: str, code: str
) -> None:
    async with world.running() as http:
        answer = await http.post("/v1/jobs", content=content, headers={"content-type": content_type})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == code
    assert await world.published(topics.JOB_SUBMITTED) == []


async def test_mistakes_in_the_short_form_are_a_422_with_every_field(world: World) -> None:
    async with world.running() as http:
        answer = await http.post("/v1/jobs", json={"gpus": -1, "colour": "red"})
    assert answer.status_code == 422
    assert {one["path"] for one in answer.json()["violations"]} == {"name", "image", "gpus", "colour"}


async def test_a_body_over_the_limit_is_a_413_with_the_limit(world: World) -> None:
    async with world.running(max_body=1024) as http:
        answer = await http.post("/v1/jobs", json={**SHORT, "command": "x" * 2000})
    assert answer.status_code == 413
    assert answer.json()["limit"] == 1024
    assert answer.json()["size"] > 2000


async def test_a_job_over_the_logs_limit_is_a_413_with_size_and_limit(world: World) -> None:
    async with world.running() as http:
        answer = await http.post("/v1/jobs", json={**SHORT, "command": "x" * 2_000_000})
    assert answer.status_code == 413
    assert answer.json()["code"] == "too-large"
    assert answer.json()["size"] > answer.json()["limit"] > 0


async def test_the_same_key_and_body_again_make_no_second_job(world: World) -> None:
    async with world.running() as http:
        headers = {"Idempotency-Key": "k-1"}
        first = await http.post("/v1/jobs", json=SHORT, headers={**headers, "traceparent": ASKER})
        await world.shows("train", "Submitted")
        second = await http.post("/v1/jobs", json=dict(reversed(SHORT.items())), headers=headers)
        other = await http.post("/v1/jobs", json={**SHORT, "gpus": 4}, headers=headers)
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json() == second.json()
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    assert len(await world.published(topics.JOB_SUBMITTED)) == 1


async def test_a_key_is_remembered_by_the_topics_and_not_by_the_process(world: World) -> None:
    body = {**SHORT, "name": None, "generateName": "run-"}
    headers = {"Idempotency-Key": "k-1"}
    async with world.running() as http:
        first = await http.post("/v1/jobs", json=body, headers=headers)
    async with world.running() as http:
        second = await http.post("/v1/jobs", json=body, headers=headers)
        other = await http.post("/v1/jobs", json={**body, "gpus": 4}, headers=headers)
    assert first.json() == second.json()
    assert other.status_code == 409
    assert len(await world.published(topics.JOB_SUBMITTED)) == 1


async def test_waiting_for_admission_answers_201_when_it_is_admitted(world: World) -> None:
    async with world.running() as http:
        asked = asyncio.create_task(http.post("/v1/jobs?wait=admitted", json=SHORT))
        story = Story(submission=await submission_of(world))
        await world.say(story.admitted())
        answer = await asked
    assert answer.status_code == 201
    assert answer.json()["phase"] == "Admitted"
    assert answer.headers["location"] == "/v1/jobs/default/train"


async def test_waiting_for_admission_answers_422_with_every_violation(world: World) -> None:
    async with world.running() as http:
        asked = asyncio.create_task(http.post("/v1/jobs?wait=admitted", json=SHORT))
        story = Story(submission=await submission_of(world))
        await world.say(story.rejected(0.1, "queue", "replicas"))
        answer = await asked
        listed = await http.get("/v1/jobs?phase=Rejected")
    problem = answer.json()
    assert answer.status_code == problem["status"] == 422
    assert problem["code"] == "rejected"
    assert problem["violations"] == [
        {"code": "queue", "path": "spec.queue", "message": "queue is wrong"},
        {"code": "replicas", "path": "spec.replicas", "message": "replicas is wrong"},
    ]
    assert [job["name"] for job in listed.json()["items"]] == ["train"]


async def test_a_wait_that_takes_too_long_answers_202_with_the_reason(world: World) -> None:
    async with world.running() as http:
        asked = asyncio.create_task(http.post("/v1/jobs?wait=running&timeout=300ms", json=SHORT))
        story = Story(submission=await submission_of(world)).born()
        story.report(0.5)
        await world.say(*story.said[1:])
        answer = await asked
    assert answer.status_code == 202
    assert answer.json()["phase"] == "Pending"
    assert answer.json()["waiting"]["reason"]["code"] == "insufficient-resources"


async def test_waiting_for_the_end_answers_however_the_job_ends(world: World) -> None:
    async with world.running() as http:
        asked = asyncio.create_task(http.post("/v1/jobs?wait=finished&timeout=1m", json=SHORT))
        story = Story(submission=await submission_of(world)).placed()
        await world.say(*story.said[1:])
        await world.shows("train", "Running")
        assert not asked.done()
        await world.say(story.phase("Failed", 9, previous="Running"))
        answer = await asked
    assert (answer.status_code, answer.json()["phase"]) == (200, "Failed")


async def test_everything_about_a_job_is_rebuilt_from_the_topics_after_a_restart(world: World) -> None:
    story = Story().finished()
    await world.say(node("n0"), node("n1"), queue("default"), *story.said)
    async with world.running() as http:
        paths = (
            "/v1/jobs",
            "/v1/jobs/default/train",
            "/v1/jobs/default/train/trace",
            "/v1/nodes",
            "/v1/queues",
        )
        before = [(await http.get(path)).json() for path in paths]
    async with world.running() as http:
        after = [(await http.get(path)).json() for path in paths]
    assert before == after
    assert before[1]["phase"] == "Completed"
    assert before[2]["spans"][0]["name"] == "job"


async def test_lists_are_filtered_and_paged(world: World) -> None:
    for number in range(5):
        story = Story(f"j{number}", f"u-{number}", f"s-{number}", queue="a" if number % 2 else "b").born()
        await world.say(*story.said)
    async with world.running() as http:
        names = []
        token = None
        while True:
            page = (
                await http.get("/v1/jobs", params={"limit": 2} | ({"continue": token} if token else {}))
            ).json()
            names.append([job["name"] for job in page["items"]])
            if not (token := page["continue"]):
                break
        only_a = (await http.get("/v1/jobs?queue=a&phase=Pending,Running")).json()
        nothing = (await http.get("/v1/jobs?namespace=other")).json()
        wrong = await http.get("/v1/jobs?continue=rubbish!")
    assert names == [["j0", "j1"], ["j2", "j3"], ["j4"]]
    assert ([job["name"] for job in only_a["items"]], only_a["total"]) == (["j1", "j3"], 2)
    assert nothing == {"items": [], "continue": None, "total": 0}
    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid-continue")


async def test_a_deleted_job_leaves_the_list_and_keeps_its_page(world: World) -> None:
    story = Story().finished()
    story.gone(20)
    await world.say(*story.said)
    async with world.running() as http:
        listed = (await http.get("/v1/jobs")).json()
        shown = (await http.get("/v1/jobs/default/train")).json()
    assert listed["items"] == []
    assert (shown["phase"], shown["deleted"]) == ("Completed", True)


async def test_commands_are_written_to_the_log_for_the_very_job(world: World) -> None:
    await world.say(*Story().placed().said)
    async with world.running() as http:
        suspended = await http.post("/v1/jobs/default/train:suspend")
        deleted = await http.delete("/v1/jobs/default/train")
    assert (suspended.status_code, deleted.status_code) == (202, 202)
    found = [envelope.data for envelope in await world.published(topics.JOB_COMMANDS)]
    assert [(command.action.value, command.uid) for command in found if isinstance(command, CommandJob)] == [
        ("suspend", "u-1"),
        ("delete", "u-1"),
    ]


async def test_commands_to_queues_are_written_to_the_log_unless_they_make_no_sense(world: World) -> None:
    await world.say(
        queue("root"),
        queue("team", state="Closed", parent="root"),
        queue("child", state="Closed", parent="team"),
    )
    async with world.running() as http:
        opened = await http.post("/v1/queues/team:open")
        closed = await http.post("/v1/queues/team:close")
        refused = [
            await http.post(f"/v1/queues/{path}") for path in ("root:close", "child:open", "missing:close")
        ]
    assert (opened.status_code, closed.status_code) == (202, 202)
    assert (opened.json()["name"], opened.json()["action"], opened.json()["state"]) == (
        "team",
        "open",
        "Closed",
    )
    assert [(one.status_code, one.json()["code"]) for one in refused] == [
        (409, "impossible"),
        (409, "impossible"),
        (404, "not-found"),
    ]
    found = [envelope.data for envelope in await world.published(topics.QUEUE_COMMANDS)]
    assert [(one.name, one.action.value) for one in found if isinstance(one, CommandQueue)] == [
        ("team", "open"),
        ("team", "close"),
    ]


async def test_that_gangs_are_to_move_is_written_to_the_log_for_a_pool_that_has_nodes(world: World) -> None:
    said = node("n1")
    data = said.envelope.data.model_copy(update={"pool": "gpus"})
    await world.say(replace(said, envelope=replace(said.envelope, data=data)))
    async with world.running() as http:
        asked = await http.post("/v1/pools/gpus:defragment")
        refused = await http.post("/v1/pools/default:defragment")
    assert (asked.status_code, asked.json()["pool"], asked.json()["action"]) == (202, "gpus", "defragment")
    assert (refused.status_code, refused.json()["code"]) == (404, "not-found")
    (found,) = [envelope.data for envelope in await world.published(topics.POOL_COMMANDS)]
    assert isinstance(found, CommandPool)
    assert (found.pool, found.action.value) == ("gpus", "defragment")


async def test_a_command_that_waits_answers_when_it_is_done(world: World) -> None:
    story = Story().placed()
    await world.say(*story.said)
    async with world.running() as http:
        asked = asyncio.create_task(http.post("/v1/jobs/default/train:suspend?wait=true"))
        await world.until(
            lambda: (
                'commands_total{action="suspend"}'
                in (world.gateway or pytest.fail("none"))._context.telemetry.exposition()
            )
        )
        await world.say(story.state("Aborted", 5))
        answer = await asked
        again = await http.post("/v1/jobs/default/train:suspend")
        deleting = asyncio.create_task(http.delete("/v1/jobs/default/train?wait=true"))
        await asyncio.sleep(0.05)
        story.gone(9)
        await world.say(*story.said[-2:])
        deleted = await deleting
    assert (answer.status_code, answer.json()["phase"], answer.json()["done"]) == (200, "Aborted", True)
    assert (again.status_code, again.json()["code"]) == (409, "impossible")
    assert (deleted.status_code, deleted.json()["phase"]) == (200, "Deleted")


async def test_a_command_to_a_queue_that_waits_answers_when_it_is_done(world: World) -> None:
    await world.say(queue("root"), queue("team", parent="root"))
    async with world.running() as http:
        late = await http.post("/v1/queues/team:close?wait=true&timeout=50ms")
        asked = asyncio.create_task(http.post("/v1/queues/team:close?wait=true&timeout=30"))
        await asyncio.sleep(0.05)
        await world.say(queue("team", state="Closing", parent="root"))
        closed = await asked
        opening = asyncio.create_task(http.post("/v1/queues/team:open?wait=true&timeout=30"))
        await asyncio.sleep(0.05)
        await world.say(queue("team", state="Open", parent="root"))
        opened = await opening
    assert (late.status_code, late.json()["state"], late.json()["done"]) == (202, "Open", False)
    assert (closed.status_code, closed.json()["state"], closed.json()["done"]) == (200, "Closing", True)
    assert (opened.status_code, opened.json()["state"], opened.json()["done"]) == (200, "Open", True)


async def test_commands_to_what_is_not_there_are_404(world: World) -> None:
    refused = Story("refused", submission="s-r")
    gone = Story("gone", "u-g", "s-g").born()
    gone.gone(5)
    await world.say(refused.submitted(), refused.rejected(), *gone.said)
    async with world.running() as http:
        for name in ("nothing", "refused", "gone"):
            answer = await http.delete(f"/v1/jobs/default/{name}")
            assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    assert await world.published(topics.JOB_COMMANDS) == []


async def test_resuming_a_job_that_runs_is_a_409(world: World) -> None:
    await world.say(*Story().placed().said)
    async with world.running() as http:
        answer = await http.post("/v1/jobs/default/train:resume")
    assert answer.status_code == 409


async def test_nodes_and_queues_show_what_they_hold(world: World) -> None:
    await world.say(node("n0"), queue("default", capability={"nvidia.com/gpu": 16}), *Story().placed().said)
    async with world.running() as http:
        nodes = (await http.get("/v1/nodes")).json()["items"]
        queues = (await http.get("/v1/queues")).json()["items"]
    assert (nodes[0]["free"]["nvidia.com/gpu"], nodes[0]["pods"]) == (0, 1)
    assert (queues[0]["allocated"]["nvidia.com/gpu"], queues[0]["jobs"]) == (16, {"Running": 1})


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not-found"),
        ("GET", "/v1/jobs/default/nothing", 404, "not-found"),
        ("GET", "/v1/jobs/default/nothing/events", 404, "not-found"),
        ("GET", "/v1/jobs/default/nothing/trace", 404, "not-found"),
        ("PUT", "/v1/jobs", 405, "method-not-allowed"),
        ("GET", "/v1/jobs?limit=0", 422, "invalid-parameters"),
        ("GET", "/v1/jobs?limit=many", 422, "invalid-parameters"),
        ("POST", "/v1/jobs?wait=forever", 422, "invalid-parameters"),
        ("POST", "/v1/jobs?wait=running&timeout=soon", 422, "invalid-parameters"),
    ],
)
async def test_every_error_is_a_problem(world: World, method: str, path: str, status: int, code: str) -> None:
    async with world.running() as http:
        answer = await http.request(method, path)
    assert answer.status_code == answer.json()["status"] == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == code
    assert {"type", "title", "detail"} <= answer.json().keys()


async def test_a_stream_of_a_job_that_ended_tells_everything_and_ends(world: World) -> None:
    await world.say(*Story().finished().said)
    async with world.running() as http:
        answer = await http.get("/v1/jobs/default/train/events")
        frames = [
            dict(line.split(": ", 1) for line in frame.splitlines()) for frame in answer.text.split("\n\n")
        ]
        events = [frame for frame in frames if "event" in frame]
        assert [frame["event"] for frame in events] == [
            "submitted",
            "admitted",
            "phase",
            "report",
            "decision",
            "result",
            "phase",
            "phase",
            "phase",
            "end",
        ]
        assert json.loads(events[-2]["data"])["data"]["phase"] == "Completed"
        for number, frame in enumerate(events[:-1]):
            rest = await http.get("/v1/jobs/default/train/events", headers={"Last-Event-ID": frame["id"]})
            if number == len(events) - 2:
                assert rest.status_code == 204
            else:
                assert rest.text.count("event: ") == len(events) - number - 1


async def test_the_api_describes_itself_with_examples(world: World) -> None:
    async with world.running() as http:
        document = (await http.get("/openapi.json")).json()
        body = document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]
        for example in body["examples"].values():
            answer = await http.post("/v1/jobs", json=example["value"])
            assert answer.status_code == 202, answer.text
    assert "ShortJob" in json.dumps(body["schema"])
    text = json.dumps(document)
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in document["components"]["schemas"]
    assert {"/v1/jobs", "/v1/jobs/{namespace}/{name}", "/v1/nodes", "/readyz"} <= document["paths"].keys()


async def test_metrics_count_requests_by_route_and_submissions_by_outcome(world: World) -> None:
    async with world.running() as http:
        await http.post("/v1/jobs", json=SHORT)
        await http.post("/v1/jobs", content="{")
        await http.get("/v1/jobs/default/nothing")
        await http.get("/nowhere")
        text = (await http.get("/metrics")).text
    assert 'pumice_gateway_http_requests_total{code="202",method="POST",route="/v1/jobs"} 1.0' in text
    assert 'code="404",method="GET",route="/v1/jobs/{namespace}/{name}"} 1.0' in text
    assert 'code="404",method="GET",route="none"} 1.0' in text
    assert 'pumice_gateway_submissions_total{outcome="accepted"} 1.0' in text
    assert 'pumice_gateway_submissions_total{outcome="invalid"} 1.0' in text
    assert "pumice_gateway_read_model_lag_seconds" in text


async def test_a_record_that_cannot_be_read_is_skipped_and_counted(world: World) -> None:
    await world.log.producer.send(Record(topics.JOB_LIFECYCLE, b"default/train", b"{"))
    headers = (
        ("ce_type", PodState.TYPE.encode()),
        ("ce_specversion", b"1.0"),
        ("ce_id", b"1"),
        ("ce_source", b"/x"),
    )
    await world.log.producer.send(Record(topics.CLUSTER_STATE, b"pod/default/x", b'{"name":"x"}', headers))
    await world.say(*Story().placed().said)
    async with world.running() as http:
        await world.shows("train", "Running")
        text = (await http.get("/metrics")).text
    assert 'pumice_gateway_unreadable_records_total{topic="job-lifecycle"} 1.0' in text
    assert 'pumice_gateway_unreadable_records_total{topic="cluster-state"} 1.0' in text


async def test_a_proxy_may_name_the_user(world: World) -> None:
    async with world.running(user_header="X-Forwarded-User") as http:
        await http.post("/v1/jobs", json=SHORT, headers={"X-Forwarded-User": "ann"})
        shown = await world.shows("train", "Submitted")
    assert shown["submittedBy"] == "ann"


async def test_a_bare_job_from_any_producer_is_shown_as_well(world: World) -> None:
    body = b"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: bare}\nspec: {queue: q}\n"
    await world.log.producer.send(Record(topics.JOB_SUBMITTED, b"default/bare", body))
    async with world.running():
        shown = await world.shows("bare", "Submitted")
    assert shown["queue"] == "q"
    assert shown["traceparent"] == job_trace(shown["submission"]).traceparent


async def test_a_mistake_of_ours_is_a_500_problem_and_a_log_line(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.running() as http:
        assert world.gateway is not None
        monkeypatch.setattr(world.gateway.model, "nodes", None)
        answer = await http.get("/v1/nodes")
        assert (await http.get("/healthz")).status_code == 200
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert answer.headers["content-type"] == "application/problem+json"
    assert any(record.exc_info for record in caplog.records if record.name == "pumice.gateway")


async def test_a_trial_that_nobody_answers_names_who_did_not(world):
    async with world.running() as http:
        answer = await http.post("/v1/trials?timeout=100ms", json=SHORT)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (504, "no-answer")
        assert problem["detail"] == "admission did not answer within 0.1 s: does it run?"
        asking = asyncio.create_task(http.post("/v1/trials?timeout=500ms", json=SHORT))
        (_, asked) = await _asked(world, 2)
        ready = TrialReady(trial=asked.trial, gang=GANG)
        await world.log.producer.send(trial_record(ready, "/x", SystemClock().now()))
        detail = (await asking).json()["detail"]
        assert detail == "the scheduler of node pool gpu did not answer within 0.5 s: does it run?"
        assert await world.published(topics.JOB_SUBMITTED) == []


async def test_a_trial_is_answered_as_the_scheduler_says(world):
    async with world.running() as http:
        asking = asyncio.create_task(http.post("/v1/trials?timeout=5s", json=SHORT))
        (asked,) = await _asked(world, 1)
        assert asked.job["metadata"]["name"] == "train"
        said = TrialAnswered(
            trial=asked.trial,
            outcome="evicts",
            bindings=(Binding(pod="train-0", task="worker", node="n1"),),
            evictions=(Eviction(namespace="a", pod="b", uid="c", reason="for train"),),
            later=2,
            at=SystemClock().now(),
        )
        for event in (said.model_copy(update={"trial": "another"}), said, said):
            await world.log.producer.send(trial_record(event, "/x", SystemClock().now()))
        answer = await asking
        assert answer.status_code == 200
        found = answer.json()
        assert (found["outcome"], found["later"], found["waiting"]) == ("evicts", 2, None)
        assert [(one["pod"], one["node"]) for one in found["place"]] == [("train-0", "n1")]
        assert found["evicted"] == [{"namespace": "a", "pod": "b", "reason": "for train"}]


async def test_a_body_that_is_no_job_is_not_tried_out(world):
    async with world.running() as http:
        assert (await http.post("/v1/trials", json={"kind": "Pod"})).status_code == 400
        assert await world.published(topics.TRIALS) == []


async def _asked(world, count: int) -> list:
    """Return so many questions, once they are there."""
    async with asyncio.timeout(10):
        while len(found := await world.published(topics.TRIALS)) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return [one.data for one in found]
