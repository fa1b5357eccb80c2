"""Searches for victims: for a large gang, and in vain for many.

They are part of ``bench.placement``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.gangs import GIB, GPU, GPUS, NOW, bound, cluster, endings, gang, node, pod, shape
from bench.report import Report, Spread, quantile
from services.scheduler.core.cycle import decide
from services.scheduler.core.model import Model
from shared.events.contracts import GangTask, Member, PodState, Shape


def filled(nodes: int, low: float) -> tuple[Model, list[PodState]]:
    """Return a model whose nodes are full of pods with one GPU, and the pods.

    The pods on ``low`` of the nodes are of a low priority, the others of a high one.
    """
    model = cluster(nodes)
    kind = shape(0)
    states: list[PodState] = []
    of_gang = nodes * GPUS // 20
    for number in range(of_gang):
        priority = 0 if number < of_gang * low else 9
        model.gang_ready(gang(f"full{number}", 20, kind).model_copy(update={"priority": priority}))
        for decision in decide(model, NOW).decisions:
            states += bound(decision, kind)
    for state in states:
        model.apply_pod(state)
    return model, states


def found(nodes: int, count: int, gpus: int, repeats: int) -> list[float]:
    """Return seconds in which victims are found for gangs of ``count`` pods with so many GPUs each."""
    model, _ = filled(nodes, 1.0)
    seconds: list[float] = []
    kind = shape(0).model_copy(
        update={"requests": {"cpu": 8_000 * gpus, "memory": 64 * GIB * gpus, GPU: gpus}}
    )
    for number in range(repeats):
        model.gang_ready(gang(f"urgent{number}", count, kind).model_copy(update={"priority": 5}))
        started = time.thread_time()
        (decision,) = decide(model, NOW).decisions
        seconds.append(time.thread_time() - started)
        if len(decision.evictions) != count * gpus:
            raise RuntimeError(f"{len(decision.evictions)} pods are evicted for {count * gpus} GPUs")
    return seconds


def _wide(number: int, size: int, tasks: int) -> dict[str, object]:
    """Return what a gang consists of that takes whole nodes, ``size`` for each of its tasks."""
    parts = tuple(
        GangTask(
            name=f"t{task}",
            shape=Shape(requests={"cpu": 64_000, GPU: GPUS, "memory": (512 - number - task * 64) * GIB}),
            members=tuple(Member(pod=f"t{task}-{index}", index=index) for index in range(size)),
            minimum=size,
        )
        for task in range(tasks)
    )
    return {"tasks": parts, "min_member": size * tasks}


def stopped(nodes: int, gangs: int, shapes: int, tasks: int, count: int) -> list[float]:
    """Return seconds of ``count`` cycles: gangs of many shapes wait in vain for victims, and a pod ends."""
    model, states = filled(nodes, 0.02)
    kinds = [_wide(number, nodes // 40 // tasks, tasks) for number in range(shapes)]
    for number in range(gangs):
        model.gang_ready(
            gang(f"wait{number}", 1, shape(0)).model_copy(update={"priority": 5, **kinds[number % shapes]})
        )
    decide(model, NOW)
    return endings(model, [state.name for state in states[:count]])


def moved(nodes: int, repeats: int) -> list[float]:
    """Return seconds of cycles in which a gang of 4 whole nodes has others move, who have 5 GPUs of each."""
    whole = Shape(requests={"cpu": 8_000, "memory": 64 * GIB, GPU: GPUS})
    model = cluster(nodes)
    for number in range(5 * nodes):
        model.gang_ready(gang(f"run{number}", 1, shape(0)))
        model.apply_pod(pod(f"run{number}-worker-0", f"run{number}", node(number % nodes).name, shape(0)))
    decide(model, NOW)
    seconds: list[float] = []
    for number in range(repeats):
        model.gang_ready(gang(f"wait{number}", 4, whole))
        decide(model, NOW)
        model.ask_to_move(NOW)
        started = time.thread_time()
        outcome = decide(model, NOW)
        seconds.append(time.thread_time() - started)
        if not any(one.evictions for one in outcome.decisions):
            raise AssertionError("nobody moves")
        decide(model, NOW)  # nobody else: what was asked for is over
    return seconds


def measure(report: Report, nodes_of: Sequence[int], gangs: int, repeats: int) -> None:
    """Measure searches for victims that end well, and others."""
    table = report.table(
        "Victims for a gang of 2000 GPUs in a full cluster", "Its cycle, in ms; by GPUs of each of its pods."
    )
    for nodes in nodes_of:
        for gpus in (1, GPUS):
            if nodes * GPUS > 8000:
                spread = Spread.of([value * 1e3 for value in found(nodes, 2000 // gpus, gpus, repeats)])
                table.rows.append({"nodes": nodes, "GPUs of a pod": gpus, "ms": spread})
    table = report.table(
        "Moves for a gang of 4 whole nodes, where others have 5 of 8 GPUs on each",
        "Its cycle, in ms: 20 pods move.",
    )
    for nodes in nodes_of:
        spread = Spread.of([value * 1e3 for value in moved(nodes, repeats)])
        table.rows.append({"nodes": nodes, "ms": spread})
    table = report.table(
        f"{gangs} gangs of 50 shapes wait, too few can be evicted for them, and one pod ends",
        "The event and its cycle, in us; by shapes in each gang.",
    )
    for nodes in nodes_of:
        for tasks in (1, 2):
            seconds = [value * 1e6 for value in stopped(nodes, gangs, 50, tasks, 20)]
            table.rows.append(
                {
                    "nodes": nodes,
                    "shapes of a gang": tasks,
                    "p50": quantile(seconds, 0.5),
                    "p99": quantile(seconds, 0.99),
                }
            )
