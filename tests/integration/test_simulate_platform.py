"""What ``pumice simulate`` says is what the services do: the same worlds, step by step, on both."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from services.simulation.core.engine import Simulation
from services.simulation.core.scenario import Document, read_scenario
from services.standalone.options import Options
from shared.api import resources as r
from tests.fixtures.platform import Platform, a_platform, gang
from tests.fixtures.waiting import eventually


@dataclass(frozen=True)
class Submit:
    """A job of one master and some workers."""

    name: str
    workers: int
    gpus: int
    minimum: int | None = None

    @property
    def manifest(self) -> dict[str, Any]:
        return {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            **gang(
                self.name, workers=self.workers, gpus=self.gpus, minimum=self.minimum, command="sleep 3600"
            ),
        }


@dataclass(frozen=True)
class Delete:
    """The end of a job."""

    name: str


Step = Submit | Delete
WORLDS: dict[str, tuple[str, list[Step]]] = {
    "gangs are packed, wait, and start when there is room": (
        "3x8",
        [
            Submit("a", 1, 4),
            Submit("b", 2, 8),
            Submit("c", 0, 2),
            Submit("d", 1, 8),
            Delete("b"),
            Submit("e", 2, 1),
            Delete("a"),
        ],
    ),
    "a gang grows beyond its minimum when others leave": (
        "2x8",
        [Submit("a", 1, 4), Submit("b", 5, 2, minimum=2), Submit("c", 0, 8), Delete("a"), Delete("b")],
    ),
}


@pytest.mark.parametrize("world", WORLDS)
async def test_the_services_bind_what_the_simulation_says(world: str) -> None:
    nodes, steps = WORLDS[world]
    async with a_platform(Options(nodes=(nodes,), port=0)) as platform:
        there = (await platform.cluster.list(r.NODES)).items
        for number, step in enumerate(steps, 1):
            if isinstance(step, Submit):
                await platform.client.submit(step.manifest, wait="admitted", timeout=60)
            else:
                await platform.client.delete(step.name)
            expected = _simulated(there, steps[:number])
            await eventually(lambda expected=expected: _is(platform, expected))


def _simulated(nodes: list[dict[str, Any]], steps: list[Step]) -> dict[str, str]:
    """Return where the pods of the jobs that are left are after some steps, one each second."""
    ends = {step.name: f"{at}s" for at, step in enumerate(steps, 1) if isinstance(step, Delete)}
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": one["metadata"]["name"]},
            "status": one["status"],
        }
        for one in nodes
    ]
    for at, step in enumerate(steps, 1):
        if isinstance(step, Submit):
            notes = {"pumice.dev/at": f"{at}s"}
            if step.name in ends:
                notes["pumice.dev/delete-at"] = ends[step.name]
            job = step.manifest
            objects.append({**job, "metadata": {**job["metadata"], "annotations": notes}})
    scenario = read_scenario(Document("world", number, one) for number, one in enumerate(objects, 1))
    found = Simulation().run(scenario, timedelta(seconds=len(steps))).as_json()["bindings"]
    left = {name.removeprefix("default/"): node for name, node in found.items()}
    return {name: node for name, node in left.items() if name.partition("-")[0] not in ends}


async def _is(platform: Platform, expected: dict[str, str]) -> bool:
    pods = await platform.pods()
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in pods
        if (pod.get("spec") or {}).get("nodeName") and not pod["metadata"].get("deletionTimestamp")
    } == expected
