"""Our kinds as a real API server takes them."""

from __future__ import annotations

import re

import pytest
import yaml

from shared.api.resources import CRDS, JOBS, PODGROUPS, QUEUES
from shared.kube.client import HttpCluster
from tests.fixtures.kube import CRD_FILES, install_crds, until
from tests.fixtures.kube_services import kubectl_of
from tests.fixtures.platform import gang
from tools.kube import ControlPlane

NAMES = [yaml.safe_load(file.read_text())["metadata"]["name"] for file in CRD_FILES]


@pytest.mark.parametrize("name", NAMES)
async def test_a_kind_is_structural_and_served(kube: HttpCluster, name: str):
    await install_crds(kube)
    crd = await kube.get(CRDS, None, name)
    conditions = {one["type"]: (one["status"], one.get("message")) for one in crd["status"]["conditions"]}
    assert conditions["Established"][0] == "True"
    assert conditions["NamesAccepted"][0] == "True"
    assert "NonStructuralSchema" not in conditions, conditions


async def test_a_server_loses_no_field_of_a_manifest(kube: HttpCluster, namespace: str):
    await install_crds(kube)
    job = gang("train")
    template = job["spec"]["tasks"][0]["template"]["spec"]
    template["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    template["containers"][0] |= {"env": [{"name": "A", "value": "b"}], "volumeMounts": []}
    job["spec"]["plugins"] = {"pytorch": ["--master=master"], "svc": []}
    made = await kube.create(JOBS, namespace, job)
    assert made["spec"]["plugins"] == job["spec"]["plugins"]
    assert made["spec"]["tasks"][0]["template"]["spec"] == template


async def test_status_of_queues_is_a_subresource_and_that_of_podgroups_is_not_as_in_volcano(
    kube: HttpCluster, namespace: str
):
    await install_crds(kube)
    queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": namespace}, "spec": {}}
    await kube.create(QUEUES, None, queue)
    group = {"apiVersion": PODGROUPS.api_version, "kind": "PodGroup", "metadata": {"name": "g"}}
    await kube.create(PODGROUPS, namespace, {**group, "spec": {"minMember": 2}})
    changed = await kube.patch(PODGROUPS, namespace, "g", {"status": {"phase": "Running"}})
    assert changed["status"]["phase"] == "Running"
    body = {"status": {"state": "Open", "running": 1}}
    changed = await kube.patch(QUEUES, None, namespace, body, subresource="status")
    assert changed["status"]["state"] == "Open"
    await kube.delete(QUEUES, None, namespace)


@pytest.mark.kubectl
async def test_kubectl_prints_the_columns_of_our_kinds(
    control_plane: ControlPlane, kube: HttpCluster, namespace: str
):
    await install_crds(kube)
    kubectl = kubectl_of(control_plane.kubeconfig)
    await kube.create(JOBS, namespace, gang("train"))
    status = {"status": {"state": {"phase": "Running"}, "minAvailable": 4, "running": 4}}
    await kube.patch(JOBS, namespace, "train", status, subresource="status")
    await until(kube, JOBS, namespace, "train", lambda job: job["status"])
    head, row = kubectl("-n", namespace, "get", "vcjob", "-o", "wide").splitlines()
    assert head.split() == ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE", "QUEUE"]
    assert re.fullmatch(r"train +Running +4 +4 +\S+ +default", row)


@pytest.mark.kubectl
async def test_kubectl_explains_fields(control_plane: ControlPlane, kube: HttpCluster):
    await install_crds(kube)
    told = kubectl_of(control_plane.kubeconfig)("explain", "vcjob.spec.minAvailable")
    assert "FIELD: minAvailable <integer>" in told
