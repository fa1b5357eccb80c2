"""The HTTP client against a hand-written server that answers what the test says."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import orjson
import pytest
import yaml
from aiohttp import web

from shared.clock import SystemClock
from shared.errors import (
    AlreadyExists,
    ConfigurationError,
    Conflict,
    Gone,
    NotFound,
    Refused,
    Unavailable,
)
from shared.kube.client import HttpCluster, connect
from shared.kube.pace import Backoff
from shared.kube.port import Patch, Resource
from shared.kube.transport import Options

PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")


def kubeconfig(path: Path, server: str, user: dict | None = None, **cluster) -> str:
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [
                    {"name": "here", "context": {"cluster": "c", "user": "u"}},
                    {"name": "there", "context": {"cluster": "c", "user": "u"}},
                ],
                "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
                "users": [{"name": "u", "user": user or {}}],
            }
        )
    )
    return str(path)


class Api:
    """Answers requests from a list (the last one for ever) and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.bodies: list = []
        self.headers: list[dict[str, str]] = []
        self.answers: list = [({}, 200)]
        self.busy = self.most_busy = 0
        self.delay = 0.0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, request.path_qs))
        self.headers.append(dict(request.headers))
        body = await request.read()
        self.bodies.append(orjson.loads(body) if body else None)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.busy += 1
        self.most_busy = max(self.busy, self.most_busy)
        await asyncio.sleep(self.delay)
        self.busy -= 1
        if callable(answer):
            return await answer(request)
        content, status, *headers = answer
        return web.json_response(content, status=status, headers=headers[0] if headers else None)


@asynccontextmanager
async def serving(api: Api) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture
async def api() -> Api:
    return Api()


QUICK = Options(retries=3, backoff=Backoff(first=0.001, longest=0.01), connect_seconds=1.0)


@pytest.fixture
async def cluster(api: Api, tmp_path: Path) -> AsyncIterator[HttpCluster]:
    async with serving(api) as url:
        config = kubeconfig(tmp_path / "config", url)
        client = connect(config, clock=SystemClock(), options=QUICK, rng=random.Random(1))
        yield client
        await client.close()


def status(code: int, reason: str, message: str = "words") -> tuple[dict, int]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message}, code


async def test_each_verb_is_the_request_that_kubernetes_expects(api, cluster):
    await cluster.get(PODS, "ns", "p")
    await cluster.get(NODES, None, "n")
    await cluster.create(JOBS, "ns", {"metadata": {"name": "j"}})
    await cluster.replace(JOBS, "ns", {"metadata": {"name": "j"}}, subresource="status")
    await cluster.patch(PODS, "ns", "p", {"a": 1}, kind=Patch.STRATEGIC, subresource="status")
    await cluster.patch(PODS, "ns", "p", [{"op": "remove", "path": "/a"}], kind=Patch.JSON)
    await cluster.patch(PODS, "ns", "p", {}, kind=Patch.APPLY, params={"fieldManager": "us", "force": "true"})
    await cluster.delete(PODS, "ns", "p", uid="u-1", grace_seconds=0)
    await cluster.bind("ns", "p", "n1", uid="u-1")
    await cluster.evict("ns", "p", uid="u-1")
    await cluster.ping()
    assert api.asked == [
        ("GET", "/api/v1/namespaces/ns/pods/p"),
        ("GET", "/api/v1/nodes/n"),
        ("POST", "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs"),
        ("PUT", "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/j/status"),
        ("PATCH", "/api/v1/namespaces/ns/pods/p/status"),
        ("PATCH", "/api/v1/namespaces/ns/pods/p"),
        ("PATCH", "/api/v1/namespaces/ns/pods/p?fieldManager=us&force=true"),
        ("DELETE", "/api/v1/namespaces/ns/pods/p"),
        ("POST", "/api/v1/namespaces/ns/pods/p/binding"),
        ("POST", "/api/v1/namespaces/ns/pods/p/eviction"),
        ("GET", "/version"),
    ]
    types = [headers.get("Content-Type") for headers in api.headers]
    assert types[4:7] == [
        "application/strategic-merge-patch+json",
        "application/json-patch+json",
        "application/apply-patch+yaml",
    ]
    assert api.bodies[7]["preconditions"] == {"uid": "u-1"}
    assert api.bodies[7]["gracePeriodSeconds"] == 0
    assert api.bodies[8]["target"]["name"] == "n1"
    assert api.bodies[8]["metadata"]["uid"] == "u-1"
    assert api.bodies[9]["deleteOptions"] == {"preconditions": {"uid": "u-1"}}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status(404, "NotFound"), NotFound),
        (status(409, "AlreadyExists"), AlreadyExists),
        (status(409, "Conflict"), Conflict),
        (status(403, "Forbidden"), Refused),
        (status(422, "Invalid"), Refused),
        (status(500, "InternalError"), Unavailable),
    ],
)
async def test_a_write_fails_with_the_servers_words_and_is_not_repeated(api, cluster, answer, error):
    api.answers = [answer]
    with pytest.raises(error, match="words"):
        await cluster.create(PODS, "ns", {"metadata": {"name": "p"}})
    assert len(api.asked) == 1


async def test_a_read_is_tried_again_and_a_write_only_when_the_server_had_not_begun(api, cluster):
    api.answers = [status(503, "ServiceUnavailable"), status(500, "InternalError"), ({"ok": 1}, 200)]
    assert await cluster.get(PODS, "ns", "p") == {"ok": 1}
    api.answers = [(*status(429, "TooManyRequests"), {"Retry-After": "0"}), ({"ok": 2}, 201)]
    assert await cluster.create(PODS, "ns", {"metadata": {"name": "p"}}) == {"ok": 2}


async def test_retries_are_bounded(api, cluster):
    api.answers = [status(503, "ServiceUnavailable")]
    with pytest.raises(Unavailable):
        await cluster.get(PODS, "ns", "p")
    assert len(api.asked) == 1 + QUICK.retries


async def test_retry_after_is_waited_for(api, cluster):
    api.answers = [(*status(429, "TooManyRequests"), {"Retry-After": "1"}), ({}, 200)]
    loop = asyncio.get_running_loop()
    start = loop.time()
    await cluster.get(PODS, "ns", "p")
    assert loop.time() - start >= 0.01  # as long as asked, but not over the longest back-off


async def test_a_budgets_no_to_an_eviction_is_told_at_once(api, cluster):
    api.answers = [status(429, "TooManyRequests", "would violate the budget")]
    with pytest.raises(Unavailable, match="would violate the budget"):
        await cluster.evict("ns", "p")
    assert len(api.asked) == 1


async def test_a_write_whose_answer_is_lost_is_unavailable_and_not_repeated(api, cluster):
    async def hang_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    api.answers = [hang_up]
    with pytest.raises(Unavailable, match="POST /api/v1/namespaces/ns/pods"):
        await cluster.create(PODS, "ns", {"metadata": {"name": "p"}})
    assert len(api.asked) == 1


async def test_nobody_listening_is_unavailable_after_bounded_tries(tmp_path, unused_tcp_port):
    config = kubeconfig(tmp_path / "config", f"http://127.0.0.1:{unused_tcp_port}")
    client = connect(config, clock=SystemClock(), options=QUICK, rng=random.Random(1))
    with pytest.raises(Unavailable, match=str(unused_tcp_port)):
        await client.create(PODS, "ns", {"metadata": {"name": "p"}})
    with pytest.raises(Unavailable):
        await client.ping()
    await client.close()
    await client.close()
    with pytest.raises(Unavailable, match="closed"):
        await client.ping()


async def test_requests_in_flight_are_bounded(api, tmp_path):
    api.delay = 0.02
    async with serving(api) as url:
        config = kubeconfig(tmp_path / "config", url)
        client = connect(config, clock=SystemClock(), options=Options(max_in_flight=3))
        await asyncio.gather(*(client.get(PODS, "ns", str(number)) for number in range(12)))
        await client.close()
    assert api.most_busy == 3


def page(names: list[str], more: str = "", rv: str = "9") -> tuple[dict, int]:
    items = [{"metadata": {"name": name}} for name in names]
    return {"items": items, "metadata": {"resourceVersion": rv, "continue": more}}, 200


async def test_a_list_reads_all_pages_and_its_items_know_their_kind(api, cluster):
    api.answers = [page(["a", "b"], "tok/en+="), page(["c"])]
    listing = await cluster.list(PODS, fields="spec.nodeName!=", labels="x in (1,2)", page=2)
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b", "c"]
    assert listing.items[2]["kind"] == "Pod"
    assert listing.items[2]["apiVersion"] == "v1"
    assert listing.resource_version == "9"
    assert api.asked[1][1].endswith("limit=2&continue=tok%2Fen%2B%3D")
    assert "fieldSelector=spec.nodeName%21%3D" in api.asked[0][1]


async def test_a_list_whose_first_page_was_forgotten_begins_again(api, cluster):
    api.answers = [page(["a"], "token"), status(410, "Expired"), page(["a", "b"], rv="12")]
    listing = await cluster.list(PODS)
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b"]
    assert listing.resource_version == "12"
    assert "continue" not in api.asked[2][1]


def watched(*chunks: bytes):
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0)
        return response

    return answer


def line(kind: str, **obj) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


async def test_a_watch_opens_with_its_version_gives_events_and_ends_with_the_stream(api, cluster):
    big = line("MODIFIED", metadata={"name": "big", "resourceVersion": "6"}, pad="x" * 1_500_000)
    small = line("ADDED", metadata={"name": "small", "resourceVersion": "5"})
    api.answers = [watched(small + big[:700], big[700:900_000], big[900_000:] + small)]
    events = [event async for event in cluster.watch(PODS, "ns", resource_version="4")]
    assert [event.type for event in events] == ["BOOKMARK", "ADDED", "MODIFIED", "ADDED"]
    assert events[0].object["metadata"]["resourceVersion"] == "4"
    assert len(events[2].object["pad"]) == 1_500_000
    path = api.asked[0][1]
    assert "watch=true" in path
    assert "allowWatchBookmarks=true" in path
    assert "resourceVersion=4" in path


async def test_a_watch_of_a_forgotten_version_is_gone_at_once_or_in_the_stream(api, cluster):
    api.answers = [status(410, "Expired"), watched(line("ERROR", code=410, message="too old"))]
    for _ in range(2):
        with pytest.raises(Gone):
            [event async for event in cluster.watch(PODS, resource_version="1")]


async def test_a_watch_that_breaks_is_unavailable(api, cluster):
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(line("ADDED", metadata={"name": "a", "resourceVersion": "2"}))
        await asyncio.sleep(0.1)
        assert request.transport is not None
        request.transport.abort()
        return response

    api.answers = [cut]
    events = cluster.watch(PODS, resource_version="1")
    assert (await anext(events)).type == "BOOKMARK"
    assert (await anext(events)).object["metadata"]["name"] == "a"
    with pytest.raises(Unavailable):
        await anext(events)


async def test_a_token_file_is_read_again_when_the_server_refuses_the_old_token(api, tmp_path):
    token = tmp_path / "token"
    token.write_text("old")
    api.answers = [({}, 200), status(401, "Unauthorized"), ({}, 200), status(401, "Unauthorized")]
    async with serving(api) as url:
        config = kubeconfig(tmp_path / "config", url, {"tokenFile": "token"})
        client = connect(config, clock=SystemClock(), options=QUICK)
        await client.ping()
        token.write_text("new")
        await client.ping()
        assert [headers["Authorization"] for headers in api.headers] == [
            "Bearer old",
            "Bearer old",
            "Bearer new",
        ]
        with pytest.raises(Refused) as refused:
            await client.get(PODS, "ns", "p")
        assert refused.value.status == 401
        await client.close()


async def test_an_exec_plugin_gives_the_token_and_is_not_run_for_each_request(api, tmp_path):
    plugin = tmp_path / "plugin.sh"
    plugin.write_text(
        f"""#!/bin/sh
echo run >> {tmp_path}/runs
echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"secret"}}}}'
"""
    )
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "args": ["x"]}}
    async with serving(api) as url:
        config = kubeconfig(tmp_path / "config", url, user)
        client = connect(config, clock=SystemClock(), options=QUICK)
        for _ in range(3):
            await client.ping()
        await client.close()
    assert {headers["Authorization"] for headers in api.headers} == {"Bearer secret"}
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_a_failing_exec_plugin_says_so_in_one_line(tmp_path):
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "false", "args": ["x"]}}
    config = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", user)
    client = connect(config, clock=SystemClock(), options=QUICK)
    with pytest.raises(Unavailable, match="exec: process returned 1"):
        await client.ping()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "no such file"),
        ("", "not a kubeconfig"),
        ("just words", "not a kubeconfig"),
        ("{ broken", "not a kubeconfig"),
        ("apiVersion: v1\nkind: Config\n", "current-context"),
    ],
)
def test_a_wrong_kubeconfig_is_one_line_that_names_it(tmp_path, text, complaint):
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError, match=complaint) as error:
        connect(str(path), clock=SystemClock())
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_context_is_named(tmp_path):
    config = kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="nowhere"):
        connect(config, clock=SystemClock(), context="nowhere")


def test_outside_of_a_pod_a_missing_kubeconfig_is_named(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigurationError, match="no kubeconfig given and not in a pod"):
        connect(None, clock=SystemClock())


@pytest.mark.slow
def test_the_client_loads_no_generated_models_and_leaves_the_library_whole():
    program = """
import sys, shared.kube.client
assert not [name for name in sys.modules if name.startswith("kubernetes_asyncio")]
import kubernetes_asyncio.config, kubernetes_asyncio.client as client
assert client.ApiClient is not object and client.V1Pod(kind="Pod").kind == "Pod"
assert kubernetes_asyncio.config.kube_config.ApiClient is client.ApiClient
"""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("minutes", "ahead"),
    [(5, 300), (-5, -300), (0, 0), (0.05, 0)],
    ids=["ahead", "behind", "same", "on its way"],
)
async def test_answers_tell_how_far_the_servers_clock_is_ahead(api, cluster, minutes, ahead):
    told = datetime.now(UTC) + timedelta(minutes=minutes)
    api.answers = [({}, 200, {"Date": format_datetime(told, usegmt=True)})]
    assert cluster.ahead == 0
    await cluster.get(PODS, "ns", "p")
    assert cluster.ahead == pytest.approx(ahead, abs=30 if ahead else 0)


async def test_a_date_that_cannot_be_read_tells_nothing(api, cluster):
    api.answers = [({}, 200, {"Date": "yesterday"})]
    await cluster.get(PODS, "ns", "p")
    assert cluster.ahead == 0
