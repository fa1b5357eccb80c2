"""The server over HTTP: watches, media types, webhooks, logs, bodies of every form."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import ssl
import subprocess
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from simulated_world import CRDS, WIDGETS, pod

from shared.clock import SystemClock
from simulator.server import Simulator

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    made = Simulator(SystemClock(), lambda: str(uuid.uuid4()), history=100)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def http(simulator: Simulator) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(simulator.url, timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session


async def _make(http: aiohttp.ClientSession, path: str, body: dict, status: int = 201) -> dict:
    async with http.post(path, json=body) as response:
        assert response.status == status, await response.text()
        return await response.json()


async def _get(http: aiohttp.ClientSession, path: str, status: int = 200, **options) -> dict:
    async with http.get(path, **options) as response:
        assert response.status == status, await response.text()
        return await response.json()


async def _events(http: aiohttp.ClientSession, path: str, **options) -> list[dict]:
    async with http.get(path, **options) as response:
        return [json.loads(line) async for line in response.content]


def _config(name: str, **labels: str) -> dict:
    return {"metadata": {"name": name, "labels": labels}}


async def test_a_watch_tells_what_came_after_a_version(http: aiohttp.ClientSession):
    made = await _make(http, CONFIGMAPS, _config("a"))
    await _make(http, CONFIGMAPS, _config("b"))
    async with http.delete(f"{CONFIGMAPS}/a"):
        pass
    version = made["metadata"]["resourceVersion"]
    events = await _events(http, f"{CONFIGMAPS}?watch=1&timeoutSeconds=1&resourceVersion={version}")
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in events] == [
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]
    assert int(events[1]["object"]["metadata"]["resourceVersion"]) > int(version)


async def test_a_live_watch_is_told_of_a_change_and_of_an_object_that_leaves_its_selector(
    http: aiohttp.ClientSession,
):
    async with http.get(f"{CONFIGMAPS}?watch=1&labelSelector=team%3Da") as response:
        await _make(http, CONFIGMAPS, _config("x", team="a"))
        await _make(http, CONFIGMAPS, _config("y", team="b"))
        async with http.patch(f"{CONFIGMAPS}/x", data='{"metadata":{"labels":{"team":"b"}}}', headers=MERGE):
            pass
        async with http.patch(f"{CONFIGMAPS}/y", data='{"metadata":{"labels":{"team":"a"}}}', headers=MERGE):
            pass
        events = [json.loads(await response.content.readline()) for _ in range(3)]
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in events] == [
        ("ADDED", "x"),
        ("DELETED", "x"),
        ("ADDED", "y"),
    ]


async def test_a_watch_from_a_version_that_is_gone_is_told_so(http: aiohttp.ClientSession):
    first = await _make(http, CONFIGMAPS, _config("a"))
    for number in range(250):
        async with http.patch(f"{CONFIGMAPS}/a", data=f'{{"data":{{"n":"{number}"}}}}', headers=MERGE):
            pass
    events = await _events(
        http, f"{CONFIGMAPS}?watch=1&resourceVersion={first['metadata']['resourceVersion']}"
    )
    assert [(e["type"], e["object"]["code"], e["object"]["reason"]) for e in events] == [
        ("ERROR", 410, "Expired")
    ]


async def test_initial_events_end_with_a_bookmark(http: aiohttp.ClientSession):
    await _make(http, CONFIGMAPS, _config("a"))
    query = "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = await _events(http, f"{CONFIGMAPS}?{query}")
    assert [e["type"] for e in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_pages_join_to_a_consistent_list(http: aiohttp.ClientSession):
    for number in range(7):
        await _make(http, CONFIGMAPS, _config(f"c{number}"))
    first = await _get(http, f"{CONFIGMAPS}?limit=3")
    assert first["metadata"]["remainingItemCount"] == 4
    await _make(http, CONFIGMAPS, _config("c31"))
    async with http.delete(f"{CONFIGMAPS}/c5"):
        pass
    rest = await _get(http, CONFIGMAPS, params={"limit": "10", "continue": first["metadata"]["continue"]})
    assert [i["metadata"]["name"] for i in rest["items"]] == ["c3", "c4", "c5", "c6"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_built_in_items_leave_their_kind_out_and_custom_ones_keep_it(http: aiohttp.ClientSession):
    await _make(http, CONFIGMAPS, _config("a"))
    await _make(http, f"/apis/apiextensions.k8s.io/v1/{CRDS.partition('.')[0]}", WIDGETS)
    path = "/apis/example.com/v1/namespaces/default/widgets"
    await _make(
        http,
        path,
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}},
    )
    assert "kind" not in (await _get(http, CONFIGMAPS))["items"][0]
    assert (await _get(http, path))["items"][0]["kind"] == "Widget"


async def test_tables_have_the_columns_of_kubectl(http: aiohttp.ClientSession):
    await _make(http, PODS, pod("p"))
    table = await _get(http, PODS, headers=TABLE)
    cells = dict(zip((c["name"] for c in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))
    assert cells | {"Age": ""} == {
        "Name": "p",
        "Ready": "0/1",
        "Status": "Pending",
        "Restarts": "0",
        "Age": "",
        "IP": "<none>",
        "Node": "<none>",
        "Nominated Node": "<none>",
        "Readiness Gates": "<none>",
    }
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_bodies_in_yaml_are_read_and_answered_in_yaml(http: aiohttp.ClientSession):
    headers = {"Content-Type": "application/yaml", "Accept": "application/yaml"}
    async with http.post(
        CONFIGMAPS, data="metadata: {name: y}\ndata: {a: '1'}\n", headers=headers
    ) as response:
        assert response.status == 201
        assert response.content_type == "application/yaml"
        assert "apiVersion: v1\n" in await response.text()


async def test_forms_that_cannot_be_read_or_served_are_refused(http: aiohttp.ClientSession):
    async with http.post(CONFIGMAPS, data="x", headers={"Content-Type": "text/plain"}) as response:
        assert response.status == 415
    await _get(http, CONFIGMAPS, 406, headers={"Accept": "application/xml"})
    async with http.get("/no/such/path") as response:
        assert (response.status, await response.text()) == (404, "404 page not found\n")


async def test_discovery_follows_the_kinds_that_are_served(http: aiohttp.ClientSession):
    v2 = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    before = await _get(http, "/apis", headers=v2)
    assert "example.com" not in {item["metadata"]["name"] for item in before["items"]}
    await _make(http, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)
    after = {item["metadata"]["name"]: item for item in (await _get(http, "/apis", headers=v2))["items"]}
    assert after["example.com"]["versions"][0]["resources"][0]["singularResource"] == "widget"
    crd = await _get(http, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com")
    assert {c["type"]: c["status"] for c in crd["status"]["conditions"]}["Established"] == "True"
    document = await _get(http, "/openapi/v3/apis/example.com/v1")
    assert document["components"]["schemas"]["com.example.v1.Widget"]["properties"]["spec"]["required"] == [
        "size"
    ]


async def test_a_pod_without_a_node_has_no_log_and_one_that_has_not_started_an_empty_one(
    http: aiohttp.ClientSession,
):
    await _make(http, PODS, pod("p"))
    async with http.get(f"{PODS}/p/log") as response:
        assert response.status == 400
    await _make(http, f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}})
    async with http.get(f"{PODS}/p/log?tailLines=2") as response:
        assert (response.status, await response.text()) == (200, "")


async def test_an_eviction_is_a_deletion_with_grace(http: aiohttp.ClientSession):
    await _make(http, PODS, pod("p"))
    await _make(http, f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}})
    await _make(
        http, f"{PODS}/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    )
    assert (await _get(http, f"{PODS}/p"))["metadata"]["deletionGracePeriodSeconds"] == 30


async def test_a_collection_is_deleted_by_selector(http: aiohttp.ClientSession):
    for number in range(4):
        await _make(http, CONFIGMAPS, _config(f"c{number}", odd=str(number % 2)))
    async with http.delete(f"{CONFIGMAPS}?labelSelector=odd%3D1") as response:
        assert len((await response.json())["items"]) == 2
    assert [i["metadata"]["name"] for i in (await _get(http, CONFIGMAPS))["items"]] == ["c0", "c2"]


async def test_scale_is_read_and_written(http: aiohttp.ClientSession):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = "/apis/apps/v1/namespaces/default/deployments"
    await _make(http, path, {"metadata": {"name": "d"}, "spec": spec})
    async with http.patch(f"{path}/d/scale", data='{"spec":{"replicas":4}}', headers=MERGE) as response:
        assert (await response.json())["spec"] == {"replicas": 4}
    scale = await _get(http, f"{path}/d/scale")
    assert (scale["kind"], scale["status"]["selector"]) == ("Scale", "a=b")


# Webhooks


def _certificate(directory: Path) -> tuple[Path, Path]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    key, certificate = directory / "tls.key", directory / "tls.crt"
    command = [
        openssl,
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    command += [
        "-keyout",
        str(key),
        "-out",
        str(certificate),
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


class Hook:
    """A webhook server that remembers what it was asked."""

    def __init__(self, answer) -> None:
        self.answer = answer
        self.asked: list[dict] = []

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.asked.append(review["request"])
        response = {"uid": review["request"]["uid"], **(await self.answer(review["request"]))}
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )


@pytest.fixture
async def serve_hook(tmp_path: Path):
    certificate, key = _certificate(tmp_path)
    runners: list[web.AppRunner] = []

    async def serve(answer) -> tuple[Hook, dict]:
        hook = Hook(answer)
        application = web.Application()
        application.router.add_post("/", hook.handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        runners.append(runner)
        client = {
            "url": f"https://127.0.0.1:{runner.addresses[0][1]}/",
            "caBundle": base64.b64encode(certificate.read_bytes()).decode(),
        }
        return hook, client

    yield serve
    for runner in runners:
        await runner.cleanup()


def _configuration(kind: str, client: dict, **options) -> dict:
    rule = {
        "operations": ["CREATE", "DELETE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
    }
    hook = {
        "name": "hook.example.com",
        "clientConfig": client,
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        **options,
    }
    return {
        "metadata": {"name": "h"},
        "kind": kind,
        "apiVersion": "admissionregistration.k8s.io/v1",
        "webhooks": [hook],
    }


VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


async def test_a_mutating_webhook_changes_what_is_stored(http: aiohttp.ClientSession, serve_hook):
    async def answer(request: dict) -> dict:
        patch = base64.b64encode(
            json.dumps([{"op": "add", "path": "/data", "value": {"by": "hook"}}]).encode()
        ).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": patch, "warnings": ["changed"]}

    hook, client = await serve_hook(answer)
    await _make(
        http,
        MUTATING,
        _configuration(
            "MutatingWebhookConfiguration", client, objectSelector={"matchLabels": {"hook": "yes"}}
        ),
    )
    async with http.post(CONFIGMAPS, json=_config("a", hook="yes")) as response:
        assert (await response.json())["data"] == {"by": "hook"}
        assert response.headers["Warning"] == '299 - "changed"'
    assert "data" not in await _make(http, CONFIGMAPS, _config("b"))
    assert [(r["operation"], r["name"], r["namespace"], r["resource"]["resource"]) for r in hook.asked] == [
        ("CREATE", "a", "default", "configmaps")
    ]


async def test_a_validating_webhook_refuses_with_its_words(http: aiohttp.ClientSession, serve_hook):
    async def answer(request: dict) -> dict:
        return {"allowed": request["operation"] != "DELETE", "status": {"message": "keep it", "code": 403}}

    _, client = await serve_hook(answer)
    await _make(http, VALIDATING, _configuration("ValidatingWebhookConfiguration", client))
    await _make(http, CONFIGMAPS, _config("a"))
    async with http.delete(f"{CONFIGMAPS}/a") as response:
        status = await response.json()
    assert (status["code"], status["message"]) == (
        403,
        'admission webhook "hook.example.com" denied the request: keep it',
    )


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
async def test_a_webhook_that_does_not_answer_counts_by_its_failure_policy(
    http: aiohttp.ClientSession, serve_hook, policy: str, code: int
):
    async def answer(request: dict) -> dict:
        await asyncio.sleep(5)
        return {"allowed": True}

    _, client = await serve_hook(answer)
    await _make(
        http,
        VALIDATING,
        _configuration("ValidatingWebhookConfiguration", client, failurePolicy=policy, timeoutSeconds=1),
    )
    answered = await _make(http, CONFIGMAPS, _config("a"), code)
    if code == 500:
        assert "context deadline exceeded" in answered["message"]


async def test_the_namespace_selector_of_a_webhook_keeps_others_out(http: aiohttp.ClientSession, serve_hook):
    async def answer(request: dict) -> dict:
        return {"allowed": False}

    _, client = await serve_hook(answer)
    selector = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}
        ]
    }
    await _make(
        http, VALIDATING, _configuration("ValidatingWebhookConfiguration", client, namespaceSelector=selector)
    )
    await _make(http, CONFIGMAPS, _config("a"))
    await _make(http, "/api/v1/namespaces/kube-system/configmaps", _config("a"), 403)
