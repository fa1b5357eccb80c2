"""Probes of pods over real connections, and what they mean."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from aiohttp import web

from services.workflows.adapters.probes import PodProber
from services.workflows.core.model import read_job
from services.workflows.core.probing import Check, holds
from shared.api import resources as r
from shared.api.flow import Probe
from shared.clock import LoopClock
from tests.fakes.cluster import FakeCluster


@pytest.fixture
async def server():
    """A server that is well at /ready, moved at /moved, ill elsewhere; it wants no header but takes one."""
    seen: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(dict(request.headers))
        return web.Response(status={"/ready": 204, "/moved": 302}.get(request.path, 500))

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1], seen
    await runner.cleanup()


async def prober_of(*pods: tuple[str, str, str], timeout: float = 1.0) -> PodProber:
    cluster = FakeCluster(LoopClock(datetime(2026, 1, 1, tzinfo=UTC)))
    for number, (task, phase, address) in enumerate(pods):
        labels = {"volcano.sh/job-name": "j", "volcano.sh/task-spec": task}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{number}", "labels": labels},
            "spec": {},
        }
        made = cluster.put(r.PODS, pod, "n")
        cluster.set_status(r.PODS, made, {"phase": phase, "podIP": address})
    return PodProber(cluster, timeout=timeout, concurrency=4)


@pytest.mark.parametrize(("path", "passes"), [("/ready", 1), ("/moved", 1), ("/ill", 0)])
async def test_answers_from_200_to_399_pass(server, path, passes):
    port, _ = server
    prober = await prober_of(("w", "Running", "127.0.0.1"))
    check = Check("n", "j", "w", port, path)
    assert await prober([check]) == {check: passes}


async def test_a_header_is_sent(server):
    port, seen = server
    prober = await prober_of(("w", "Running", "127.0.0.1"))
    await prober([Check("n", "j", "w", port, "/ready", ("X-Probe", "yes"))])
    assert seen[0]["X-Probe"] == "yes"


async def test_a_connection_passes_and_a_closed_port_does_not(server):
    port, _ = server
    prober = await prober_of(("w", "Running", "127.0.0.1"))
    open_port, closed = Check("n", "j", "w", port), Check("n", "j", "w", 1)
    assert await prober([open_port, closed]) == {open_port: 1, closed: 0}


async def test_only_running_pods_of_the_task_are_asked(server):
    port, seen = server
    here = "127.0.0.1"
    prober = await prober_of(
        ("w", "Running", here),
        ("w", "Running", here),
        ("w", "Pending", here),
        ("w", "Running", ""),
        ("m", "Running", here),
    )
    check, other = Check("n", "j", "w", port, "/ready"), Check("n", "j", "absent", port, "/ready")
    assert await prober([check, other]) == {check: 2, other: 0}
    assert len(seen) == 2


async def test_a_pod_that_does_not_answer_in_time_does_not_pass():
    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await gone.wait()
        writer.close()

    gone = asyncio.Event()
    listening = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    prober = await prober_of(("w", "Running", "127.0.0.1"), timeout=0.1)
    check = Check("n", "j", "w", port, "/")
    assert await prober([check]) == {check: 0}
    gone.set()
    listening.close()
    await listening.wait_closed()


def target(phase: str = "Running", **counts: dict[str, int]):
    return read_job(
        {
            "metadata": {"namespace": "n", "name": "j", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "tasks": [{"name": "ps", "replicas": 2}, {"name": "w", "replicas": 4, "minAvailable": 3}]
            },
            "status": {
                "state": {"phase": phase},
                "taskStatusCount": {task: {"phase": count} for task, count in counts.items()},
            },
        }
    )


@pytest.mark.parametrize(
    ("probe", "job", "answers", "held"),
    [
        ({}, target(), 0, True),
        ({"taskStatusList": [{"taskName": "w", "phase": "Running"}]}, target(w={"Running": 3}), 0, True),
        ({"taskStatusList": [{"taskName": "w", "phase": "Running"}]}, target(w={"Running": 2}), 0, False),
        ({"taskStatusList": [{"taskName": "w", "phase": "Running"}]}, target(w={"Running": 1, "Succeeded": 2}), 0, True),
        ({"taskStatusList": [{"taskName": "w", "phase": "Succeeded"}]}, target(w={"Running": 3}), 0, False),
        ({"taskStatusList": [{"taskName": "w", "phase": "Completed"}]}, target(w={"Succeeded": 3}), 0, True),
        ({"taskStatusList": [{"phase": "Running"}]}, target(w={"Running": 3}, ps={"Running": 2}), 0, True),
        ({"taskStatusList": [{"phase": "Running"}]}, target(w={"Running": 3}, ps={"Running": 1}), 0, False),
        ({"taskStatusList": [{"taskName": "x", "phase": "Running"}]}, target(w={"Running": 3}), 0, False),
        ({"tcpSocketList": [{"taskName": "w", "port": 1}]}, target(), 3, True),
        ({"tcpSocketList": [{"taskName": "w", "port": 1}]}, target(), 2, False),
        ({"tcpSocketList": [{"taskName": "x", "port": 1}]}, target(), 9, False),
        ({"httpGetList": [{"taskName": "ps"}]}, target("Completed"), 0, True),
        ({"tcpSocketList": [{"taskName": "w", "port": 1}], "taskStatusList": [{"taskName": "w", "phase": "Running"}]}, target(), 9, False),
    ],
)  # fmt: skip
def test_a_probe_holds_when_the_tasks_minimum_of_pods_passes_every_part(probe, job, answers, held):
    asked: list[Check] = []

    def ask(check: Check) -> int:
        asked.append(check)
        return answers

    assert holds(Probe.model_validate(probe), job, ask) is held
    assert all(check.path in (None, "/") for check in asked)


def test_a_header_without_a_name_as_clients_in_go_write_it_is_none():
    asked: list[Check] = []
    headers = ({"name": "", "value": ""}, {"name": "X-Probe", "value": ""})
    probe = Probe.model_validate({"httpGetList": [{"taskName": "ps", "httpHeader": one} for one in headers]})
    holds(probe, target(), lambda check: asked.append(check) or 0)
    assert [check.header for check in asked] == [None, ("X-Probe", "")]


def test_a_request_without_port_and_path_is_of_the_root_at_port_80():
    asked: list[Check] = []
    probe = Probe.model_validate({"httpGetList": [{"taskName": "ps", "path": "a/b"}, {"taskName": "ps"}]})
    holds(probe, target(), lambda check: asked.append(check) or 0)
    assert asked == [Check("n", "j", "ps", 80, "/a/b"), Check("n", "j", "ps", 80, "/")]
