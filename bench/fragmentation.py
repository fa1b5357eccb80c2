"""Shared GPUs: how much of a cluster is allocated before fragments are all that is left.

``python -m bench.fragmentation --nodes FILE --pods FILE --policy NAME --seeds 10 -o json``

Pods arrive until they asked for more than the cluster has, as in "Beware of Fragmentation" (USENIX ATC
2023), whose six policies are listed beside ours for the lists in ``bench/data/openb``. Their generator of
random numbers is not ours: compare means over seeds.

- ``default``: the scheduler's default policy, which learns the workload from what is there.
- ``gradient``: the paper's gradient alone, with a little binpack for ties.
- ``binpack``: by CPU and memory alone, as Volcano does.
- ``spread``: the nodes with the most CPU and memory free.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from bench.arrivals import Course, arrivals, run
from bench.command import at_least
from bench.openb import WHOLE, Pod, read_nodes, read_pods
from bench.report import Report, Row
from services.scheduler.core.policy import Fragmentation, Policy, Scores
from services.simulation.core.plots import Line, chart
from shared.errors import ConfigurationError
from shared.events.contracts import NodeState
from shared.process import Arguments, exit_code

DATA: Final = Path(__file__).parent / "data" / "openb"
NODES: Final = DATA / "openb_node_list_gpu_node.csv"
PODS: Final = DATA / "openb_pod_list_default.csv.gz"
POLICIES: Final[Mapping[str, Scores]] = {
    "default": Scores(),
    "gradient": Scores(fragmentation=replace(Fragmentation(), cpu_weight=0.0)),
    "binpack": Scores(fragmentation=None),
    "spread": Scores(fragmentation=None, binpack_weight=0.0, least_requested_weight=1.0),
}
NOTE: Final = (
    "Percent of the GPUs allocated when the pods that arrived asked for 100 % of the capacity, and at the "
    "end; means over the seeds, and the deviation at the end. Seconds are CPU time in decisions, for a seed."
)


@dataclass(frozen=True, slots=True)
class Task:
    """What to run."""

    nodes: Sequence[NodeState]
    pods: Sequence[Pod]
    asked: float
    queue: int


def course(task: Task, policy: str, seed: int) -> Course:
    """Run one seed."""
    capacity = sum(len(node.devices) for node in task.nodes) * WHOLE
    pods = arrivals(task.pods, capacity, task.asked, seed)
    return run(task.nodes, pods, Policy(scores=POLICIES[policy]), task.queue)


def row(policy: str, courses: Sequence[Course], asked: float) -> Row:
    """Return a policy's figures."""
    at_end = [one.points[-1][1] for one in courses]
    return {
        "policy": policy,
        "seeds": len(courses),
        "allocated % at 100 %": round(statistics.mean(one.allocated_at(100.0) for one in courses), 2),
        f"at {100 * asked:g} %": round(statistics.mean(at_end), 2),
        "deviation": round(statistics.stdev(at_end), 2) if len(at_end) > 1 else 0.0,
        "placed": round(statistics.mean(one.placed for one in courses)),
        "dropped": round(statistics.mean(one.dropped for one in courses)),
        "seconds": round(statistics.mean(one.deciding for one in courses), 1),
    }


def published(pods: Path) -> list[Row]:
    """Return the paper's figures for a list of pods; none for lists that are not its."""
    trace = pods.name.removeprefix("openb_pod_list_").partition(".")[0]
    with (DATA / "expected.csv").open(encoding="utf-8", newline="") as file:
        return [
            {
                "policy": one["policy"],
                "seeds": int(one["seeds"]),
                "allocated % at 100 %": float(one["allocated_percent_at_100"]),
                "at 130 %": float(one["allocated_percent_at_130"]),
                "deviation": float(one["stdev_at_130"]),
            }
            for one in csv.DictReader(file)
            if one["trace"] == trace
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    return exit_code("bench.fragmentation", lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> None:
    command = Arguments(prog="bench.fragmentation", description=(__doc__ or "").split("\n", 1)[0])
    command.add_argument(
        "--nodes", type=Path, default=NODES, help="columns sn, cpu_milli, memory_mib, gpu, model"
    )
    command.add_argument(
        "--pods",
        type=Path,
        default=PODS,
        help="columns name, cpu_milli, memory_mib, num_gpu, gpu_milli and, if it is limited, gpu_spec",
    )
    command.add_argument("--policy", choices=POLICIES, nargs="+", default=list(POLICIES))
    command.add_argument("--seeds", type=at_least(1), default=10)
    command.add_argument(
        "--percent", type=at_least(1), default=130, help="of the GPUs are asked for in the end"
    )
    command.add_argument(
        "--queue", type=at_least(1), default=1, help="pods that wait together, the largest first"
    )
    command.add_argument("--processes", type=at_least(1), default=1, help="seeds run at a time")
    command.add_argument("-o", "--output", choices=["text", "json"], default="text")
    command.add_argument("--report", type=Path, help="directory for fragmentation.json, .md and a chart")
    options = command.parse_args(arguments)
    nodes, problems = read_nodes(options.nodes)
    pods, more = read_pods(options.pods)
    for problem in (*problems, *more):
        sys.stderr.write(f"bench.fragmentation: {problem}\n")
    if not any(node.devices for node in nodes):
        raise ConfigurationError(f"{options.nodes}: no node has a GPU")
    report = _measure(options, Task(nodes, pods, options.percent / 100, options.queue))
    if options.report:
        _write(report, options.report)
    report.show(options.output)


def _measure(options: argparse.Namespace, task: Task) -> Report:
    parameters = {
        "nodes": len(task.nodes),
        "GPUs": sum(len(node.devices) for node in task.nodes),
        "pods": f"{options.pods.name}: {len(task.pods)}",
        "waiting together": task.queue,
    }
    report = Report("fragmentation", "Fragmentation: shared GPUs", parameters)
    table = report.table("Policies", NOTE)
    lines: list[Line] = []
    with ProcessPoolExecutor(options.processes) as pool:
        for policy in options.policy:
            courses = list(pool.map(partial(course, task, policy), range(1, options.seeds + 1)))
            table.rows.append(row(policy, courses, task.asked))
            lines.append(Line(policy, courses[0].points))
    others = published(options.pods)
    if others:
        report.table("Published", "By the paper's own simulator, the same procedure.").rows += others
    report.pictures["allocated.svg"] = chart(
        "GPUs allocated as pods arrive (first seed)", lines, x="percent asked for", y="percent allocated"
    )
    return report


def _write(report: Report, directory: Path) -> None:
    try:
        report.write(directory)
    except OSError as error:
        raise ConfigurationError(f"--report {directory}: {error.strerror or error}") from error


if __name__ == "__main__":
    sys.exit(main())
