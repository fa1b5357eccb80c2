"""Parts of GPUs in scenarios: who gets which, who waits and why, and what is wrong with manifests."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from services.simulation.adapters.files import scenario_of
from services.simulation.core.engine import Simulation
from tests.unit.simulation.worlds import job, node, pod, run, scenario

REGISTER = "volcano.sh/node-vgpu-register"
TWO = "GPU-0,10,16384,NVIDIA-T4,true,hami-core:GPU-1,10,16384,NVIDIA-T4,true,hami-core:"


def shared(name: str, registered: str = TWO, **notes: str) -> dict[str, Any]:
    """A node with GPUs that the device plugin shares."""
    one = node(name, 0, **notes)
    one["metadata"]["annotations"][REGISTER] = registered
    one["status"]["allocatable"] |= {
        "volcano.sh/vgpu-number": 20,
        "volcano.sh/vgpu-memory": 32768,
        "volcano.sh/vgpu-cores": 200,
    }
    return one


def asking(name: str, replicas: int = 1, annotations: dict[str, str] | None = None, **limits: int) -> Any:
    """A job whose pods ask for parts of GPUs."""
    one = job(name, replicas, 0)
    template = one["spec"]["tasks"][0]["template"]
    template["metadata"]["annotations"] = annotations or {}
    named = {f"volcano.sh/{key.replace('_', '-')}": amount for key, amount in limits.items()}
    template["spec"]["containers"][0]["resources"]["limits"] = named
    return one


def devices(outcome: dict[str, Any]) -> dict[str, list[int]]:
    return {one["object"]: one["devices"] for one in outcome["events"] if "devices" in one}


def test_a_pod_that_volcano_bound_keeps_its_gpu_and_others_get_the_rest() -> None:
    earlier = pod("earlier", 0, spec={"nodeName": "a"})
    earlier["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] = "GPU-1,NVIDIA,16384,0:"
    earlier["spec"]["containers"][0]["resources"]["limits"] = {"volcano.sh/vgpu-number": 1}
    outcome = run(shared("a"), earlier, asking("j", 2, vgpu_memory=8192))
    assert devices(outcome) == {"Pod default/j-w-0": [0], "Pod default/j-w-1": [0]}


def test_a_gpu_that_is_broken_later_keeps_its_pods_and_gets_no_more() -> None:
    broken = shared("a", TWO.replace("16384,NVIDIA-T4,true", "16384,NVIDIA-T4,false", 1), at="10s")
    later = asking("later", 2, vgpu_memory=4096)
    later["metadata"]["annotations"]["pumice.dev/at"] = "20s"
    outcome = run(shared("a"), asking("first", vgpu_memory=4096), broken, later)
    assert devices(outcome) == {
        "Pod default/first-w-0": [0],
        "Pod default/later-w-0": [1],
        "Pod default/later-w-1": [1],
    }


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (asking("j", gpu_memory=10), "needs 10 volcano.sh/gpu-memory on one node; no node has any"),
        (
            asking("j", vgpu_number=1, annotations={"nvidia.com/use-gputype": "H100"}),
            "100% of the memory of a GPU (model H100) on one node; no node has a healthy GPU that would do",
        ),
        (
            asking("j", vgpu_number=3, vgpu_memory=100),
            (
                "100Mi memory of each of 3 GPUs on one node; even empty, no node has room for that on its GPUs: "
                "the most that would do on one node is 2"
            ),
        ),
        (
            asking("j", vgpu_number=2, vgpu_memory=10240),
            (
                "0 fit now; 2 GPUs with that much free are needed, 0 of 1 nodes have as many, and the most on one "
                "node is 1"
            ),
        ),
    ],
)
def test_a_gang_is_told_what_its_gpus_lack(wanted: Any, reason: str) -> None:
    outcome = run(shared("a"), asking("first", vgpu_memory=8192), wanted)
    assert reason in outcome["gangs"]["default/j"]["reason"]


def test_what_a_device_plugin_never_writes_is_wrong_in_a_scenario() -> None:
    (problem,) = scenario(shared("a", "GPU-0,ten:")).problems
    assert 'metadata.annotations: volcano.sh/node-vgpu-register: "GPU-0,ten"' in problem


def test_what_is_wrong_with_claimed_devices_is_said_and_the_rest_runs(tmp_path):
    def made(kind: str, name: str, **more: Any) -> dict[str, Any]:
        return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **more}

    nameless = {"driver": "d", "nodeName": "n1", "pool": {"name": "n1"}, "devices": [{}]}
    spec = {
        "schedulerName": "volcano",
        "containers": [{"name": "main", "image": "i"}],
        "resourceClaims": [{"name": "x", "resourceClaimTemplateName": "asks-nothing"}],
    }
    path = tmp_path / "wrong.yaml"
    objects = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1"},
            "status": {"allocatable": {"pods": "9"}},
        },
        made("ResourceClaimTemplate", "asks-nothing"),
        made("ResourceClaim", "asks-nothing"),
        made("ResourceSlice", "s", spec=nameless),
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec},
    ]
    path.write_text(yaml.safe_dump_all(objects))
    found = scenario_of([str(path)])
    [said] = found.problems
    assert "spec.devices[0].name: name is required" in said
    assert Simulation().run(found).as_json()["bindings"] == {"default/p": "n1"}
