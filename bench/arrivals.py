"""Pods that arrive one after the other until they asked for more than the cluster has, and stay.

The procedure is that of the "fragmentation gradient" paper: the whole list, then pods drawn from it with
replacement until their GPUs reach the wanted part of the capacity, shuffled. A pod that does not fit is
dropped. Each is a gang of one for the scheduler's own core, and runs as soon as it is placed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from bench.openb import WHOLE, Pod
from services.scheduler.core.cycle import decide
from services.scheduler.core.decisions import Decision
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Policy
from shared.events.contracts import Gang, GangTask, Member, NodeState, PodState, QueueState, Shape

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_SPACE: Final = "bench"


@dataclass(slots=True)
class Course:
    """One run: parts of the capacity, as they went."""

    capacity: int
    """In thousandths of a GPU."""
    placed: int = 0
    dropped: int = 0
    deciding: float = 0.0
    """Seconds in ``decide``."""
    points: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """(asked for, allocated), in percent of the capacity, after each pod or, with a queue, each cycle."""

    def allocated_at(self, asked: float) -> float:
        """Return what was allocated when so much (in percent) was asked for."""
        return next((held for at, held in self.points if at >= asked), self.points[-1][1])


def arrivals(pods: Sequence[Pod], capacity: int, asked: float, seed: int) -> list[Pod]:
    """Return pods in order of arrival that ask for ``asked`` times the capacity in GPUs."""
    chance = random.Random(seed)
    drawn = list(pods)
    total = sum(pod.gpu for pod in drawn)
    if not total:
        return drawn
    while total < asked * capacity:
        pod = chance.choice(pods)
        drawn.append(pod)
        total += pod.gpu
    chance.shuffle(drawn)
    return drawn


def run(nodes: Sequence[NodeState], pods: Sequence[Pod], policy: Policy, queue: int = 1) -> Course:
    """Let pods arrive, ``queue`` at a time; of those that wait together the largest come first."""
    model = Model(policy=policy)
    model.apply_queue(QueueState(name="default"))
    for node in nodes:
        model.apply_node(node)
    course = Course(sum(len(node.devices) for node in nodes) * WHOLE)
    asked = held = 0
    for number, waiting in enumerate(_parts(pods, queue)):
        by_name = {f"p{number}-{at}": pod for at, pod in enumerate(waiting)}
        for name, pod in by_name.items():
            model.gang_ready(_gang(name, pod, pod.gpu if queue > 1 else 0))
        started = time.process_time()
        decisions = decide(model, NOW).decisions
        course.deciding += time.process_time() - started
        asked += sum(pod.gpu for pod in waiting)
        for decision in decisions:
            pod = by_name.pop(decision.name)
            held += pod.gpu
            course.placed += 1
            model.apply_pod(_running(decision, pod.shape))
        for name in by_name:
            course.dropped += 1
            model.remove_podgroup(_SPACE, name)
        course.points.append((100.0 * asked / course.capacity, 100.0 * held / course.capacity))
    return course


def _parts(pods: Sequence[Pod], size: int) -> Iterator[Sequence[Pod]]:
    for start in range(0, len(pods), size):
        yield pods[start : start + size]


def _gang(name: str, pod: Pod, priority: int) -> Gang:
    task = GangTask(name="pod", shape=pod.shape, members=(Member(pod=name),), minimum=1)
    return Gang(
        namespace=_SPACE,
        name=name,
        uid=name,
        priority=priority,
        min_member=1,
        tasks=(task,),
        created_at=NOW,
        ready_since=NOW,
    )


def _running(decision: Decision, shape: Shape) -> PodState:
    ((name, task, node, _),) = decision.rows
    return PodState(
        namespace=_SPACE,
        name=name,
        uid=name,
        gang=decision.name,
        task=task,
        queue="default",
        node=node,
        phase="Running",
        devices=decision.devices.get(name, ()),
        shape=shape,
        created_at=NOW,
    )
