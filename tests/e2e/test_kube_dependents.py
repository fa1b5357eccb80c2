"""What jobs have beside pods, on a real API server, as kubectl applies and shows it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from services.standalone.options import Options
from shared.api import resources as r
from shared.clock import SystemClock
from shared.kube.client import connect
from shared.kube.port import JSON, Cluster, Patch
from tests.fixtures.kube import install_crds, kubelets_of, start_control_plane, until, until_gone
from tests.fixtures.kube_services import Kubectl, kubectl_of
from tests.fixtures.platform import Platform, a_platform
from tests.fixtures.volumes import provisioning, zonal
from tools.kube import ControlPlane

pytestmark = pytest.mark.kubectl
URL = "https://jupyter-note-default.apps.example.org"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = start_control_plane(tmp_path_factory.mktemp("kube"))
    yield plane
    plane.kill()


@pytest.fixture
def kubectl(plane: ControlPlane) -> Kubectl:
    return kubectl_of(plane.kubeconfig)


@asynccontextmanager
async def platform_on(plane: ControlPlane, folder: Path) -> AsyncIterator[Platform]:
    config = folder / "config.yaml"
    pattern = "https://{name}-{job}-{namespace}.apps.example.org"
    config.write_text(f'controller:\n  expose_url: "{pattern}"\n  expose_ingress_class: nginx\n')
    async with plane_client(plane) as cluster:
        await install_crds(cluster)
        options = Options(port=0, kubeconfig=plane.kubeconfig, config=config)
        async with kubelets_of(cluster, "4x8"), a_platform(options) as platform:
            yield platform


@asynccontextmanager
async def plane_client(plane: ControlPlane) -> AsyncIterator[Cluster]:
    cluster = connect(str(plane.kubeconfig), clock=SystemClock())
    yield cluster
    await cluster.close()


def phase(name: str) -> Callable[[JSON], bool]:
    def reached(job: JSON) -> bool:
        return ((job.get("status") or {}).get("state") or {}).get("phase") == name

    return reached


LATE = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: storage.example.org
volumeBindingMode: WaitForFirstConsumer
"""


def is_being_provisioned(claim: JSON) -> bool:
    """Say whether Kubernetes' own controller has asked the provisioner for a volume, for a chosen node."""
    annotations = claim["metadata"].get("annotations", {})
    chosen = annotations.get("volume.kubernetes.io/selected-node", "")
    return chosen.startswith("node-") and "volume.kubernetes.io/storage-provisioner" in annotations


PYTORCH = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: pytorch-job
spec:
  minAvailable: 1
  schedulerName: volcano
  plugins:
    pytorch: ["--master=master", "--worker=worker", "--port=23456"]
    svc: []
    ssh: []
  volumes:
    - mountPath: /out
      volumeClaim:
        accessModes: [ReadWriteOnce]
        resources: {requests: {storage: 1Gi}}
        storageClassName: late
  tasks:
    - replicas: 1
      name: master
      policies:
        - {event: TaskCompleted, action: CompleteJob}
      template:
        spec:
          containers:
            - {image: torch, name: master, imagePullPolicy: IfNotPresent, command: [sleep, "60"]}
          restartPolicy: OnFailure
    - replicas: 2
      name: worker
      template:
        spec:
          containers:
            - {image: torch, name: worker, workingDir: /home, command: [sleep, "60"]}
          restartPolicy: OnFailure
"""


async def test_a_pytorch_jobs_pods_find_their_master_and_nothing_of_it_stays(
    plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    async with platform_on(plane, tmp_path) as platform, provisioning(platform.cluster):
        cluster = platform.cluster
        kubectl("apply", "-f", "-", given=LATE)
        kubectl("apply", "-f", "-", given=PYTORCH)
        job = await until(cluster, r.JOBS, "default", "pytorch-job", phase("Running"))
        pod = await until(cluster, r.PODS, "default", "pytorch-job-worker-1")
        env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
        assert {key: env[key] for key in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")} == {
            "MASTER_ADDR": "pytorch-job-master-0.pytorch-job",
            "MASTER_PORT": "23456",
            "WORLD_SIZE": "3",
            "RANK": "2",
        }
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("pytorch-job-worker-1", "pytorch-job")
        service = await cluster.get(r.SERVICES, "default", "pytorch-job")
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        [claim] = [one["metadata"]["name"] for one in (await cluster.list(r.PVCS, "default")).items]
        await until(cluster, r.PVCS, "default", claim, is_being_provisioned)
        made = (await cluster.get(r.JOBS, "default", "pytorch-job"))["status"]["controlledResources"]
        assert made == {
            "plugin-pytorch": "pytorch",
            "plugin-svc": "svc",
            "plugin-ssh": "ssh",
            f"volume-pvc-{claim}": claim,
        }

        scale = [{"op": "replace", "path": "/spec/tasks/1/replicas", "value": 3}]
        await cluster.patch(r.JOBS, "default", "pytorch-job", scale, kind=Patch.JSON)

        def has_three(hosts: JSON) -> bool:
            return hosts["data"]["VC_WORKER_NUM"] == "3"

        await until(cluster, r.CONFIGMAPS, "default", "pytorch-job-svc", has_three)
        await cluster.delete(r.SECRETS, "default", "pytorch-job-ssh")
        secret = await until(cluster, r.SECRETS, "default", "pytorch-job-ssh")
        assert set(secret["data"]) == {"id_rsa", "id_rsa.pub", "authorized_keys", "config"}

        assert job["metadata"]["uid"] == secret["metadata"]["ownerReferences"][0]["uid"]
        kubectl("delete", "vcjob", "pytorch-job")
        for kind, name in (
            (r.SERVICES, "pytorch-job"),
            (r.CONFIGMAPS, "pytorch-job-svc"),
            (r.SECRETS, "pytorch-job-ssh"),
            (r.NETWORKPOLICIES, "pytorch-job"),
            (r.PODS, "pytorch-job-worker-1"),
        ):
            await until_gone(cluster, kind, "default", name)


NOTEBOOK = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: note
  annotations: {pumice.dev/expose: "jupyter:8888"}
spec:
  minAvailable: 1
  schedulerName: volcano
  tasks:
    - replicas: 1
      name: notebook
      template:
        spec:
          containers: [{image: jupyter, name: notebook, command: [sleep, "60"]}]
          restartPolicy: Never
"""


async def test_an_exposed_notebook_has_service_ingress_and_url_until_it_is_deleted(
    plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    async with platform_on(plane, tmp_path) as platform:
        cluster = platform.cluster
        kubectl("apply", "-f", "-", given=NOTEBOOK)

        def has_urls(job: JSON) -> bool:
            return "pumice.dev/urls" in job["metadata"].get("annotations", {}) and phase("Running")(job)

        job = await until(cluster, r.JOBS, "default", "note", has_urls)
        assert json.loads(job["metadata"]["annotations"]["pumice.dev/urls"]) == {"jupyter": URL}
        assert (await platform.client.get("note")).urls == {"jupyter": URL}
        row = kubectl("get", "ingress", "note-expose", "--no-headers").split()
        assert row[:3] == ["note-expose", "nginx", "jupyter-note-default.apps.example.org"]
        service = await cluster.get(r.SERVICES, "default", "note-jupyter")
        pod = await cluster.get(r.PODS, "default", "note-notebook-0")
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        told = kubectl("get", "events", "--field-selector", "involvedObject.name=note,reason=ExposeError")
        assert "there is no ingress class nginx" in told

        kubectl("delete", "vcjob", "note")
        await until_gone(cluster, r.INGRESSES, "default", "note-expose")
        await until_gone(cluster, r.SERVICES, "default", "note-jupyter")


async def test_kubectl_describes_what_a_job_waits_for(
    plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    async with platform_on(plane, tmp_path) as platform:
        waiting = yaml.safe_load(NOTEBOOK)
        waiting["metadata"] = {"name": "waits"}
        waiting["spec"]["volumes"] = [{"mountPath": "/data", "volumeClaimName": "data"}]
        kubectl("apply", "-f", "-", given=yaml.safe_dump(waiting))

        def says_why(job: JSON) -> bool:
            message = ((job.get("status") or {}).get("state") or {}).get("message") or ""
            return "there is no claim data in namespace default" in message

        await until(platform.cluster, r.JOBS, "default", "waits", says_why)
        await platform.cluster.create(r.PVS, None, zonal("data", None, storageClassName=""))
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": claim | {"storageClassName": "", "volumeName": "data"},
        }
        await platform.cluster.create(r.PVCS, "default", body)
        await until(platform.cluster, r.JOBS, "default", "waits", phase("Running"))
        kubectl("delete", "vcjob", "waits")
        await platform.cluster.delete(r.PVCS, "default", "data")
