"""The scheduler's pure core: how many decisions it makes, and what they cost as the cluster grows.

``python -m bench.placement --nodes 5000 --gang 20 --pods 100000 --shapes 1``

Measured, each several times, with the median and the lowest and highest:

- **burst**: gangs wait in an empty cluster; time of ``decide`` for all of them. When the cluster is 80 % full
  the pods end and it goes on, until ``--pods`` were placed. Reading events is timed apart. The repeats
  go through one model: the first of them also makes its indexes.
- **growth**: what a decision costs in the largest cluster, over the smallest.
- **lone gang**: one gang of 4 arrives in a cluster that is half full: its event and its cycle.
- **waiting**: 10,000 equal gangs wait for room that is not there, and a pod elsewhere ends: one cycle.
- **victims**: one gang of 2,000 GPUs arrives in a full cluster of gangs of lower priority: its cycle.
- **stopped**: 10,000 gangs of 50 shapes wait for whom not enough others can be evicted, and a pod ends: one
  cycle. There are too few for any gang, or enough for each of its two shapes and too few for both.
- **memory** of the nodes, and of pods that run.
- **standing**: a cluster with ``--running`` pods: from the compacted topic to the first decision, one large
  gang, the verdict that a gang can never run, and a cycle after one pod ended while gangs of 50 shapes wait.

With its defaults it ends within a few minutes on two cores that do nothing else.

Times are CPU time of the one thread: the core does nothing else than compute, so on an idle machine that
is the wall time, and on a busy one it still says what the core costs.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import sys
import time
import tracemalloc
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final

from bench import standing, victims
from bench.command import at_least, parser, show
from bench.gangs import GPUS, NOW, bound, cluster, endings, gang, shape
from bench.report import Report, Row, Spread, quantile
from services.scheduler.core.cycle import decide
from services.scheduler.core.model import Model
from shared.events.contracts import Shape
from shared.process import collect_seldom, exit_code

FULL: Final = 0.8


def bursts(nodes: int, size: int, pods: int, shapes: int, repeats: int) -> list[Row]:
    """Place ``pods`` pods in gangs of ``size``, several times, in waves that fill the cluster to 80 %."""
    model = cluster(nodes)
    kinds = [shape(number) for number in range(shapes)]
    return [_burst(model, f"r{repeat}", size, pods, kinds, nodes) for repeat in range(repeats)]


def _burst(model: Model, name: str, size: int, pods: int, kinds: Sequence[Shape], nodes: int) -> Row:
    wave = max(1, min(pods, int(nodes * GPUS * FULL)) // size)
    placed = decisions = events = number = 0
    deciding = folding = 0.0
    while placed < pods:
        waiting = [
            gang(f"{name}-{index}", size, kinds[index % len(kinds)]) for index in range(number, number + wave)
        ]
        number += wave
        gc.collect()
        started = time.thread_time()
        for one in waiting:
            model.gang_ready(one)
        folding += time.thread_time() - started
        started = time.thread_time()
        made = decide(model, NOW).decisions
        deciding += time.thread_time() - started
        placed += sum(len(decision.rows) for decision in made)
        decisions += len(made)
        if not made:
            raise RuntimeError(f"a gang of {size} does not fit on {nodes} nodes")
        by_gang = {one.name: one.tasks[0].shape for one in waiting}
        states = [state for decision in made for state in bound(decision, by_gang[decision.name])]
        started = time.thread_time()
        for state in states:
            model.apply_pod(state)
        for state in states:
            model.remove_pod(state.namespace, state.name)
        for decision in made:
            model.remove_podgroup(decision.namespace, decision.name)
        folding += time.thread_time() - started
        events += wave + 2 * len(states) + len(made)
    return {
        "pods/s": placed / deciding,
        "decisions/s": decisions / deciding,
        "us per decision": deciding / decisions * 1e6,
        "events/s": events / folding,
    }


def lone(nodes: int, count: int) -> list[float]:
    """Return seconds from a lone gang's event to its decision, in a cluster that is half full."""
    model = cluster(nodes)
    kind = shape(0)
    for number in range(nodes * GPUS // 2 // 20):
        model.gang_ready(gang(f"full{number}", 20, kind))
    decide(model, NOW)
    seconds: list[float] = []
    for number in range(count):
        one = gang(f"lone{number}", 4, kind)
        started = time.thread_time()
        model.gang_ready(one)
        (decision,) = decide(model, NOW).decisions
        seconds.append(time.thread_time() - started)
        for state in bound(decision, kind):
            model.apply_pod(state)
            model.remove_pod(state.namespace, state.name)
        model.remove_podgroup("bench", one.name)
    return seconds


def waiting(nodes: int, gangs: int, count: int) -> list[float]:
    """Return seconds of ``count`` cycles: many equal gangs wait, and a pod ends: all free too little."""
    model = cluster(nodes)
    kind = shape(0)
    for number in range(nodes * GPUS // 20):
        model.gang_ready(gang(f"full{number}", 20, kind))
    made = decide(model, NOW).decisions
    states = [state for one in made[: count // 20 + 1] for state in bound(one, kind)]
    for state in states:
        model.apply_pod(state)
    of_all = gang("wait", count + 1, kind)
    for number in range(gangs):
        model.gang_ready(of_all.model_copy(update={"name": f"wait{number}", "uid": f"wait{number}"}))
    decide(model, NOW)
    return endings(model, [state.name for state in states[:count]])


def memory(nodes: int, most: int) -> Row:
    """Return what nodes and running pods, ``most`` at most, take: arrays and objects."""
    gc.collect()
    tracemalloc.start()
    model = cluster(nodes)
    of = shape(0)
    model.index(model.shapes.intern(of))
    with_nodes = tracemalloc.get_traced_memory()[0]
    pods = min(nodes * GPUS // 2, most)
    for number in range(pods // 20):
        model.gang_ready(gang(f"g{number}", 20, of))
    for decision in decide(model, NOW).decisions:
        for state in bound(decision, of):
            model.apply_pod(state)
    gc.collect()
    with_pods = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {
        "nodes": nodes,
        "MiB of nodes": with_nodes / 2**20,
        "running pods": pods,
        "MiB of pods and gangs": (with_pods - with_nodes) / 2**20,
        "bytes per pod": (with_pods - with_nodes) / max(pods, 1),
    }


def growth(shapes: int, size: int, costs: Mapping[int, float]) -> Row:
    """Return what a decision about a gang of ``size`` costs by number of nodes."""
    figures = list(costs.values())
    by_nodes = {f"{nodes} nodes": cost for nodes, cost in costs.items()}
    return {"shapes": shapes, "gang": size, **by_nodes, "factor": figures[-1] / figures[0]}


def run(options: argparse.Namespace) -> Report:
    """Measure everything the options ask for."""
    report = Report(
        "placement",
        "Placement: the scheduler's core",
        {"pods": options.pods, "repeats": options.repeats},
    )
    table = report.table("Burst", "Time of `decide` alone; events are folded in apart.")
    costs: dict[tuple[int, int], dict[int, float]] = {}
    for nodes, shapes, size in product(options.nodes, options.shapes, options.gang):
        if size > nodes * GPUS * FULL:
            continue
        runs = bursts(nodes, size, options.pods, shapes, options.repeats)
        figures = {name: Spread.of([one[name] for one in runs]) for name in runs[0]}
        table.rows.append({"nodes": nodes, "shapes": shapes, "gang": size, **figures})
        costs.setdefault((shapes, size), {})[nodes] = figures["us per decision"].median
    table = report.table("Growth with the cluster", "Median us per decision, and the last over the first.")
    table.rows += [growth(*what, by_nodes) for what, by_nodes in costs.items()]
    table = report.table("A lone gang of 4 in a half full cluster", "From its event to its decision, in us.")
    for nodes in options.nodes:
        seconds = [value * 1e6 for value in lone(nodes, options.lone)]
        table.rows.append(
            {
                "nodes": nodes,
                "p50": quantile(seconds, 0.5),
                "p99": quantile(seconds, 0.99),
                "most": max(seconds),
            }
        )
    table = report.table(
        f"{options.waiting} gangs wait in a full cluster and one pod ends", "The event and its cycle, in us."
    )
    for nodes in options.nodes:
        seconds = [value * 1e6 for value in waiting(nodes, options.waiting, options.lone // 4)]
        table.rows.append({"nodes": nodes, "p50": quantile(seconds, 0.5), "p99": quantile(seconds, 0.99)})
    victims.measure(report, options.nodes, options.waiting, options.repeats)
    table = report.table("Memory")
    table.rows += [memory(nodes, options.pods) for nodes in options.nodes]
    if options.running:
        nodes = options.running_on
        table = report.table(
            f"{options.running} pods run on {nodes} nodes", "Restart in seconds, the rest in milliseconds."
        )
        table.rows.append(standing.measure(nodes, options.running, options.repeats))
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    return exit_code("bench.placement", lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> None:
    command = parser("bench.placement", __doc__)
    command.add_argument("--nodes", type=at_least(1), nargs="+", default=[1000, 5000, 20000])
    command.add_argument(
        "--gang", type=at_least(1), nargs="+", default=[1, 4, 20, 500, 10_000], help="pods in a gang"
    )
    command.add_argument("--pods", type=at_least(1), default=10_000, help="pods placed in each repeat")
    command.add_argument(
        "--shapes", type=at_least(1), nargs="+", default=[1, 50], help="different shapes, taken in turn"
    )
    command.add_argument("--lone", type=at_least(4), default=400, help="lone gangs timed")
    command.add_argument("--waiting", type=at_least(1), default=10_000, help="gangs that wait")
    command.add_argument(
        "--running", type=at_least(0), default=140_000, help="pods that run in the standing cluster; 0: none"
    )
    command.add_argument("--running-on", type=at_least(1), default=5_000, help="nodes of that cluster")
    command.add_argument("--profile", action="store_true", help="profile one burst instead")
    options = command.parse_args(arguments)
    collect_seldom()
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(bursts, options.nodes[0], options.gang[0], options.pods, options.shapes[0], 1)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    show(run(options), options)


if __name__ == "__main__":
    sys.exit(main())
