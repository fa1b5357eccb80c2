"""Words of scenarios: manifests as values."""

from __future__ import annotations

from typing import Any

from services.simulation.core.engine import Simulation
from services.simulation.core.scenario import Document, Scenario, read_scenario

GPU = "nvidia.com/gpu"


def _meta(name: str, notes: dict[str, str], **more: Any) -> dict[str, Any]:
    annotations = {f"pumice.dev/{key.replace('_', '-')}": value for key, value in notes.items()}
    return {"name": name, "annotations": annotations | more.pop("annotations", {}), **more}


def node(name: str, gpu: int = 8, *, ready: bool = True, **notes: str) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    room = {"cpu": 32, "memory": "128Gi", GPU: gpu}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _meta(name, notes),
        "status": {"allocatable": room, "conditions": [condition]},
    }


def queue(name: str, *, spec: dict[str, Any] | None = None, **notes: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": _meta(name, notes),
        "spec": spec or {},
    }


def template(gpu: int, **notes: str) -> dict[str, Any]:
    limits = {"cpu": 1, GPU: gpu} if gpu else {"cpu": 1}
    container = {"name": "main", "image": "trainer", "resources": {"limits": limits}}
    return {"metadata": _meta("", notes), "spec": {"restartPolicy": "Never", "containers": [container]}}


def job(
    name: str, replicas: int = 1, gpu: int = 8, *, spec: dict[str, Any] | None = None, **notes: str
) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": _meta(name, notes),
        "spec": {"tasks": [{"name": "w", "replicas": replicas, "template": template(gpu)}], **(spec or {})},
    }


def pod(
    name: str, gpu: int = 1, *, spec: dict[str, Any] | None = None, group: str = "", **notes: str
) -> dict[str, Any]:
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta(name, notes, annotations=annotations),
        "spec": {"schedulerName": "volcano", **template(gpu)["spec"], **(spec or {})},
    }


def scenario(*objects: Any) -> Scenario:
    return read_scenario(Document("test.yaml", number, one) for number, one in enumerate(objects, 1))


def run(*objects: Any, **options: Any) -> dict[str, Any]:
    """Return what came of it, as JSON."""
    return Simulation().run(scenario(*objects), **options).as_json()


def happened(outcome: dict[str, Any], event: str, what: str = "") -> list[tuple[float, str]]:
    """Return times and objects of a kind of events."""
    return [
        (one["at"], one["object"])
        for one in outcome["events"]
        if one["event"] == event and one["object"].startswith(what)
    ]
