"""The webhooks as the (simulated) API server calls them: verdicts, certificates, and what may be away."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import ssl
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from services.admission.adapters.certificates import from_secret, make
from services.admission.app import build
from services.admission.core.renewal import Lifetimes
from services.admission.settings import AdmissionSettings
from services.standalone.options import Options
from shared.api.resources import (
    CRONJOBS,
    HYPERNODES,
    JOBFLOWS,
    JOBS,
    NAMESPACES,
    PODGROUPS,
    PODS,
    QUEUES,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from shared.api.webhooks import PATHS
from shared.clock import SystemClock
from shared.errors import ConfigurationError, Refused, Unavailable
from shared.kube.client import HttpCluster, connect
from shared.kube.port import Patch, Resource
from shared.log.memory import MemoryLog
from shared.process import new_id
from shared.telemetry.telemetry import Telemetry
from simulator.server import Simulator
from tests.fixtures.platform import a_platform, gang
from tests.fixtures.services import free_port
from tests.fixtures.waiting import eventually
from tests.fixtures.webhooks import NAMESPACE, Hooked, install, is_trusted, listening, webhooks
from tests.unit.admission.worlds import VALID, spoiled

CRDS = Path(__file__).resolve().parents[2] / "deploy" / "crds"
KUBECTL = shutil.which("kubectl")
SECRET = "pumice-admission-certificate"
TOLERATION = {"key": "gpu", "operator": "Exists"}


def obj(resource: Resource, name: str, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, **metadata},
    }
    return made if spec is None else {**made, "spec": spec}


def definitions(*resources: Resource) -> list[dict[str, Any]]:
    files = [CRDS / f"{resource.group}_{resource.plural}.yaml" for resource in resources]
    return [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]


@pytest.fixture
async def simulator(request: pytest.FixtureRequest) -> AsyncIterator[Simulator]:
    """An API server with the kinds that most tests need; others by parameter."""
    crds = definitions(JOBS, QUEUES, PODGROUPS, *getattr(request, "param", ()))
    made = Simulator(SystemClock(), lambda: str(uuid.uuid4()), crds=crds)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def cluster(simulator: Simulator) -> AsyncIterator[HttpCluster]:
    client = connect(simulator.kubeconfig(), clock=SystemClock())
    await client.create(NAMESPACES, None, obj(NAMESPACES, "team"))
    for name, spec in (("root", {}), ("default", {}), ("research", {}), ("leaf", {"parent": "research"})):
        await client.create(QUEUES, None, obj(QUEUES, name, spec))
    yield client
    await client.close()


@pytest.fixture
async def hooked(cluster: HttpCluster) -> AsyncIterator[Hooked]:
    async with webhooks(cluster, webhook_paths=PATHS) as running:
        await install(cluster, running.url, paths=PATHS)
        await is_trusted(cluster)
        yield running


def job(*changes: tuple[str, Any]) -> dict[str, Any]:
    return spoiled(("spec/queue", "leaf"), *changes)


async def test_a_job_gets_its_defaults(hooked, cluster):
    made = await cluster.create(JOBS, "team", job(("spec/minAvailable", ...)))
    assert made["spec"]["schedulerName"] == "volcano"
    assert made["spec"]["minAvailable"] == 4
    assert [task["minAvailable"] for task in made["spec"]["tasks"]] == [1, 3]
    assert (
        hooked.metric("pumice_admission_webhook_answers_total", path="/jobs/mutate", verdict="patched") == 1
    )
    assert (
        hooked.metric("pumice_admission_webhook_answers_total", path="/jobs/validate", verdict="allowed") == 1
    )


async def test_a_bad_job_is_refused_with_every_reason(hooked, cluster):
    bad = job(("spec/queue", "reserch"), ("spec/plugins/x", []), ("spec/tasks/1/name", "master"))
    with pytest.raises(Refused) as caught:
        await cluster.create(JOBS, "team", bad)
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")
    for reason in ('spec.tasks[1].name: another task is named "master"', "spec.plugins[x]: ", "spec.queue: "):
        assert reason in str(caught.value)
    assert (
        hooked.metric("pumice_admission_webhook_answers_total", path="/jobs/validate", verdict="denied") == 1
    )


@pytest.mark.kubectl
@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
async def test_kubectl_shows_a_line_for_each_reason(hooked, simulator, tmp_path):
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(simulator.kubeconfig()))
    process = await asyncio.create_subprocess_exec(
        str(KUBECTL), f"--kubeconfig={tmp_path}/kubeconfig", f"--cache-dir={tmp_path}/cache", "apply", "-f", "-",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    bad = job(("spec/queue", "leef"), ("spec/tasks/1/name", "master"))
    output, _ = await process.communicate(yaml.safe_dump(bad).encode())
    assert process.returncode == 1
    assert 'The Job "train" is invalid:' in output.decode()
    assert '* spec.tasks[1].name: another task is named "master"' in output.decode()
    assert '* spec.queue: there is no queue "leef"; did you mean "leaf"?' in output.decode()


async def test_a_running_job_changes_only_where_it_may(hooked, cluster):
    await cluster.create(JOBS, "team", job())
    await cluster.patch(
        JOBS, "team", "train", {"spec": {"minAvailable": 2}, "metadata": {"labels": {"a": "b"}}}
    )
    with pytest.raises(Refused, match=r"spec\.queue: may not change"):
        await cluster.patch(JOBS, "team", "train", {"spec": {"queue": "default"}})


BAD = {
    HYPERNODES: ({"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "a(b"}}}]},
                 "spec.members[0].selector.regexMatch.pattern: "),
    JOBFLOWS: ({"flows": [{"name": "a", "dependsOn": {"targets": ["z"]}}]}, "spec.flows[0].dependsOn.targets[0]: "),
    CRONJOBS: ({"schedule": "often", "timeZone": "Local", "jobTemplate": {"spec": VALID["spec"]}}, "spec.timeZone: "),
    PODGROUPS: ({"queue": "nowhere"}, "spec.queue: "),
    QUEUES: ({"parent": "nowhere"}, "spec.parent: "),
}  # fmt: skip


@pytest.mark.parametrize("simulator", [(HYPERNODES, JOBFLOWS, CRONJOBS)], indirect=True)
async def test_every_kind_is_judged(hooked, cluster):
    for resource, (spec, reason) in BAD.items():
        with pytest.raises(Refused) as caught:
            await cluster.create(
                resource, "team" if resource.namespaced else None, obj(resource, "one", spec)
            )
        assert reason in str(caught.value)


async def test_queues_get_defaults_and_some_cannot_be_deleted(hooked, cluster):
    assert (await cluster.create(QUEUES, None, obj(QUEUES, "new", {})))["spec"]["reclaimable"] is True
    for name, reason in (("default", "cannot be deleted"), ("research", "has queues below it")):
        with pytest.raises(Refused, match=reason):
            await cluster.delete(QUEUES, None, name)
    await cluster.delete(QUEUES, None, "leaf")


async def test_pods_of_ours_are_judged_and_others_are_not(hooked, cluster):
    budget = {"volcano.sh/jdb-min-available": "none"}
    spec = {"containers": [{"name": "main", "image": "x"}]}
    with pytest.raises(Refused, match=r"metadata\.annotations\[volcano\.sh/jdb-min-available\]"):
        await cluster.create(
            PODS, "team", obj(PODS, "ours", {**spec, "schedulerName": "volcano"}, annotations=budget)
        )
    await cluster.create(PODS, "team", obj(PODS, "theirs", spec, annotations=budget))


async def test_what_was_made_a_moment_ago_counts(hooked, cluster):
    for number in range(10):
        name = f"fresh-{number}"
        await cluster.create(QUEUES, None, obj(QUEUES, name, {}))
        await cluster.create(JOBS, "team", job(("metadata/name", name), ("spec/queue", name)))
        await cluster.create(
            NAMESPACES, None, obj(NAMESPACES, name, annotations={"scheduling.volcano.sh/queue-name": name})
        )
        group = await cluster.create(PODGROUPS, name, obj(PODGROUPS, "g", {"minMember": 1}))
        assert group["spec"]["queue"] == name


@contextlib.asynccontextmanager
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as http:
        yield http


async def test_what_is_no_review_is_answered_with_400_and_the_reason(hooked):
    async with session() as http:
        for body, says in ((b"?", "not JSON"), (b"{}", "expected AdmissionReview")):
            answer = await http.post(f"{hooked.url}/jobs/validate", data=body)
            assert answer.status == 400
            assert says in (await answer.json())["message"]
        review = {
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {"uid": "u", "operation": "CREATE", "kind": {"kind": "Pod"}, "resource": {"resource": "pods"}},
        }  # fmt: skip
        answer = await http.post(f"{hooked.url}/jobs/validate", data=json.dumps(review))
        assert (answer.status, await answer.json()) == (
            400, {"reason": "bad-review", "message": "/jobs/validate is about jobs, not pods"},
        )  # fmt: skip
        assert (await http.post(f"{hooked.url}/nodes/validate", data=b"{}")).status == 404
        assert (await http.get(f"{hooked.url}/readyz")).status == 200
    assert hooked.metric("pumice_admission_webhook_answers_total", path="/jobs/validate", verdict="bad") == 3


async def test_a_path_that_is_off_is_not_there(cluster):
    async with webhooks(cluster, webhook_paths=("/jobs/mutate",)) as running, session() as http:
        assert (await http.post(f"{running.url}/jobs/validate", data=b"{}")).status == 404
        assert (await http.post(f"{running.url}/jobs/mutate", data=b"{}")).status == 400


async def test_webhooks_answer_while_the_log_is_away(cluster):
    tries = 0

    async def start_log() -> None:
        nonlocal tries
        tries += 1
        raise Unavailable("no broker answers")

    clock = SystemClock()
    async with webhooks(cluster):
        pass  # its namespace
    service = build(
        AdmissionSettings(webhook_port=0, webhook_host="127.0.0.1", webhook_names=("127.0.0.1",)),
        clock=clock, log=MemoryLog(clock), ids=new_id, telemetry=Telemetry("admission"), cluster=cluster, start_log=start_log,
    )  # fmt: skip
    running = asyncio.create_task(service.run())
    try:
        await listening(service)
        await install(cluster, f"https://127.0.0.1:{service.webhook_port}")
        await is_trusted(cluster)
        with pytest.raises(Refused, match=r"spec\.queue"):
            await cluster.create(JOBS, "team", job(("spec/queue", "nowhere")))
        assert tries >= 1
        assert service.health.reasons["log"] == "no broker answers"
        assert "webhooks" not in service.health.reasons
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_without_kubernetes_webhooks_cannot_be_on():
    clock = SystemClock()
    parts: dict[str, Any] = {
        "clock": clock,
        "log": MemoryLog(clock),
        "ids": new_id,
        "telemetry": Telemetry("admission"),
    }
    with pytest.raises(ConfigurationError):
        build(AdmissionSettings(webhook_port=0), **parts)


async def test_pumice_up_serves_webhooks_when_its_configuration_says_so(tmp_path):
    port = free_port()
    config = tmp_path / "pumice.yaml"
    admission = {
        "webhook_port": port,
        "webhook_host": "127.0.0.1",
        "webhook_names": ["127.0.0.1"],
        "webhook_namespace": "default",
        "resource_groups": [{"resourceGroup": "gpu", "object": {"key": "namespace", "value": ["default"]}, "tolerations": [TOLERATION]}],
    }  # fmt: skip
    config.write_text(yaml.safe_dump({"admission": admission}))
    async with a_platform(Options(nodes=("1x8",), port=0, config=config)) as platform:
        await install(platform.cluster, f"https://127.0.0.1:{port}")
        await is_trusted(platform.cluster)
        with pytest.raises(Refused, match=r"spec\.queue"):
            await platform.cluster.create(
                JOBS, "default", job(("spec/queue", "nowhere"), ("metadata/namespace", "default"))
            )
        await platform.client.submit(gang("train", workers=1, gpus=4, command="true"))
        view = await platform.client.wait_until("train", "finished", timeout=60)
        assert view.phase == "Completed"
        pods = await platform.pods()
        assert pods
        assert all(TOLERATION in pod["spec"]["tolerations"] for pod in pods)


# ------------------------------------------------------------------------------------------- certificates
class MovedClock(SystemClock):
    """The machine's clock, set back or forward."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def now(self) -> datetime:
        return super().now() + self.offset


async def certificates(cluster: HttpCluster):
    secret = await cluster.get(SECRETS, NAMESPACE, SECRET)
    assert secret["type"] == "kubernetes.io/tls"
    return from_secret(secret["data"])


async def touch_secret(cluster: HttpCluster) -> None:
    """Make admission look at its certificate now, as it does by itself twice a day."""
    await cluster.patch(
        SECRETS, NAMESPACE, SECRET, {"metadata": {"annotations": {"touched": uuid.uuid4().hex}}}
    )


async def shown(url: str) -> bytes:
    host, port = url.removeprefix("https://").split(":")
    return (await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))).encode()


async def test_replicas_share_one_certificate(cluster):
    async with webhooks(cluster) as one, webhooks(cluster) as two:
        held = await certificates(cluster)
        assert held is not None
        assert await shown(one.url) == await shown(two.url) == held.serving
        await install(cluster, two.url)
        await is_trusted(cluster)
        with pytest.raises(Refused, match=r"spec\.queue"):
            await cluster.create(JOBS, "team", job(("spec/queue", "nowhere")))


async def test_a_certificate_is_renewed_in_time_and_shown_without_a_restart(cluster):
    clock = MovedClock()
    clock.offset = -timedelta(days=61)
    async with webhooks(cluster, clock=clock) as running:
        await install(cluster, running.url)
        await is_trusted(cluster)
        old = await certificates(cluster)
        clock.offset = timedelta()
        await touch_secret(cluster)

        async def is_renewed() -> bool:
            return await shown(running.url) != old.serving

        await eventually(is_renewed)
        new = await certificates(cluster)
        assert new.authority == old.authority
        assert new.serving == await shown(running.url)
        await cluster.create(JOBS, "team", job())


async def test_a_new_authority_is_trusted_beside_the_old_one(cluster):
    clock = MovedClock()
    clock.offset = -timedelta(days=61)
    async with webhooks(cluster, clock=clock, webhook_authority_days=91) as running:
        await install(cluster, running.url)
        await is_trusted(cluster)
        old = await certificates(cluster)
        clock.offset = timedelta()
        await touch_secret(cluster)

        async def is_renewed() -> bool:
            return await shown(running.url) != old.serving

        await eventually(is_renewed)
        new = await certificates(cluster)
        assert new.authority != old.authority
        assert new.previous == old.authority
        found = await cluster.get(VALIDATING_WEBHOOKS, None, "pumice")
        bundle = new.bundle(datetime.now(UTC))
        assert bundle == new.authority + old.authority
        assert {hook["clientConfig"]["caBundle"] for hook in found["webhooks"]} == {_b64(bundle)}
        await cluster.create(JOBS, "team", job())


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_configurations_that_are_installed_anew_are_trusted_at_once(hooked, cluster):
    await install(cluster, hooked.url)
    await is_trusted(cluster)
    await cluster.create(JOBS, "team", job())


async def test_a_secret_that_was_spoilt_is_made_anew(hooked, cluster):
    patch = [{"op": "replace", "path": "/data/ca.crt", "value": _b64(b"x")}]
    await cluster.patch(SECRETS, NAMESPACE, SECRET, patch, kind=Patch.JSON)

    async def is_whole() -> bool:
        return await certificates(cluster) is not None

    await eventually(is_whole)

    async def is_shown() -> bool:
        return await shown(hooked.url) == (await certificates(cluster)).serving

    await eventually(is_shown)
    await cluster.create(JOBS, "team", job())


async def test_certificates_of_others_are_presented_and_read_again_when_they_change(cluster, tmp_path):
    class Quick(SystemClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(min(seconds, 0.02))

    def write() -> bytes:
        made = make(["127.0.0.1"], Lifetimes(), datetime.now(UTC))
        for name, content in (
            ("tls.crt", made.serving),
            ("tls.key", made.serving_key),
            ("ca.crt", made.authority),
        ):
            (tmp_path / name).write_bytes(content)
        return made.serving

    first = write()
    files = {
        "webhook_certificate_file": tmp_path / "tls.crt",
        "webhook_key_file": tmp_path / "tls.key",
        "webhook_authority_file": tmp_path / "ca.crt",
    }
    async with webhooks(cluster, clock=Quick(), **files) as running:
        await install(cluster, running.url)
        await is_trusted(cluster)
        assert await shown(running.url) == first
        with pytest.raises(Refused, match=r"spec\.queue"):
            await cluster.create(JOBS, "team", job(("spec/queue", "nowhere")))
        second = write()

        async def is_read() -> bool:
            return await shown(running.url) == second

        await eventually(is_read)


async def test_files_that_are_not_there_end_admission_with_one_line(cluster, tmp_path):
    settings = AdmissionSettings(
        webhook_port=0, webhook_certificate_file=tmp_path / "tls.crt", webhook_key_file=tmp_path / "tls.key"
    )
    clock = SystemClock()
    log = MemoryLog(clock)
    await log.start()
    service = build(
        settings, clock=clock, log=log, ids=new_id, telemetry=Telemetry("admission"), cluster=cluster
    )
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(service.run(), 20)
    assert caught.group_contains(ConfigurationError, match=r"tls\.crt: No such file")
    await log.close()
