"""What the benchmarks of the scheduler's core have in common: nodes with 8 GPUs, gangs of equal pods."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from services.scheduler.core.cycle import decide
from services.scheduler.core.decisions import Decision
from services.scheduler.core.model import Model
from shared.events.contracts import Gang, GangTask, Member, NodeState, PodState, QueueState, Shape

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
GPU: Final = "nvidia.com/gpu"
GPUS: Final = 8
"""On each node."""
GIB: Final = 1 << 30


def node(number: int) -> NodeState:
    """Return a node with 8 GPUs."""
    name = f"node-{number:05d}"
    labels = {"kubernetes.io/hostname": name, "zone": f"z{number % 4}"}
    allocatable = {"cpu": 128_000, "memory": 1024 * GIB, "pods": 110, GPU: GPUS}
    return NodeState(name=name, labels=labels, allocatable=allocatable)


def cluster(nodes: int) -> Model:
    """Return a model of such nodes, and one open queue."""
    model = Model()
    model.apply_queue(QueueState(name="default"))
    for number in range(nodes):
        model.apply_node(node(number))
    return model


def shape(number: int) -> Shape:
    """Return the shape of one-GPU pods; those of different numbers differ in memory."""
    return Shape(requests={"cpu": 8_000, "memory": 64 * GIB + number * GIB // 64, GPU: 1})


def gang(name: str, size: int, of: Shape) -> Gang:
    """Return a gang of equal pods that must all run."""
    members = tuple(Member(pod=f"{name}-worker-{index}", index=index) for index in range(size))
    return Gang(
        namespace="bench",
        name=name,
        uid=name,
        min_member=size,
        tasks=(GangTask(name="worker", shape=of, members=members, minimum=size),),
        created_at=NOW,
        ready_since=NOW,
    )


def pod(name: str, of_gang: str, where: str, of: Shape) -> PodState:
    """Return a pod that runs."""
    return PodState(
        namespace="bench",
        name=name,
        uid=name,
        gang=of_gang,
        task="worker",
        queue="default",
        node=where,
        phase="Running",
        shape=of,
        created_at=NOW,
    )


def bound(decision: Decision, of: Shape) -> list[PodState]:
    """Return the states of a decision's pods once they run."""
    return [pod(name, decision.name, where, of) for name, _, where, _ in decision.rows]


def endings(model: Model, pods: Iterable[str]) -> list[float]:
    """Return seconds of the event and the cycle when each of these pods ends, one after the other."""
    seconds: list[float] = []
    for name in pods:
        started = time.thread_time()
        model.remove_pod("bench", name)
        decide(model, NOW)
        seconds.append(time.thread_time() - started)
    return seconds
