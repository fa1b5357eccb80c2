"""Whole clusters over months: the Philly jobs by several policies, in virtual time.

The baselines place by the same core as ours, so that what differs is who is next and who waits for whom:

- ``fifo``: in order of arrival over all queues; who does not fit holds up everybody behind.
- ``drf``: the queue with the least GPUs first, in it by arrival; if that job does not fit, the next queue.
- ``ours``: the scheduler's default policy. A job that is evicted runs again from its beginning.
- ``ours-backfill``: the same, and jobs declare how long they run (``--declared`` times what is true), so that
  they run in the shadow of reservations.
- ``ours-no-evictions``, ``ours-backfill-no-evictions``: the same, and nobody is evicted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.command import at_least, factor
from bench.report import Report, Row, figure
from services.scheduler.core.policy import Backfill, Eviction, Policy
from services.simulation.adapters.files import trace_of
from services.simulation.core.gates import DominantShare, FirstInFirstOut, Gate
from services.simulation.core.pages import charts
from services.simulation.core.trace import Trace
from services.simulation.core.tracerun import Cluster, TraceOutcome, TraceRun
from shared.process import Arguments, exit_code

JOBS: Final = Path(__file__).parent / "data" / "philly" / "jobs.csv"
_STAY: Final = Policy(eviction=Eviction(preempt=False, reclaim=False))
_PLAIN: Final = replace(_STAY, backfill=Backfill(enabled=False))


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run the trace."""

    policy: Policy
    gate: Callable[[], Gate] | None = None
    declares: bool = False


POLICIES: Final[Mapping[str, Way]] = {
    "fifo": Way(_PLAIN, FirstInFirstOut),
    "drf": Way(_PLAIN, DominantShare),
    "ours-no-evictions": Way(_STAY),
    "ours-backfill-no-evictions": Way(_STAY, declares=True),
    "ours": Way(Policy()),
    "ours-backfill": Way(Policy(), declares=True),
}
NOTE: Final = (
    "Waits from arrival to start, completion from arrival to end, in hours. Utilisation and share error "
    "until the last arrival. Share error: what queues lack of their fair shares (equal weights, no more than "
    "they ask for), as a part of the cluster. Fragmentation: the part of the free GPUs that is on nodes used "
    "in part."
)


def run(
    trace: Trace, cluster: Cluster, policies: Sequence[str], declared: float, report: Report
) -> dict[str, TraceOutcome]:
    """Run a trace by each policy; note the figures. A job declares ``declared`` times what it runs."""
    told = replace(trace, jobs=tuple(replace(job, declared=job.duration * declared) for job in trace.jobs))
    table = report.table("Policies", NOTE)
    outcomes: dict[str, TraceOutcome] = {}
    for name in policies:
        started = time.process_time()
        way = POLICIES[name]
        gate = None if way.gate is None else way.gate()
        outcomes[name] = TraceRun(told if way.declares else trace, cluster, way.policy, gate).run()
        found: Row = {"policy": name, **row(outcomes[name]), "CPU s": time.process_time() - started}
        table.rows.append(found)
        told_now = ", ".join(
            f"{what} {much:.3g}" for what, much in found.items() if isinstance(much, int | float)
        )
        print(f"{name}: {told_now}", file=sys.stderr, flush=True)
    return outcomes


def row(outcome: TraceOutcome) -> Row:
    """Return a run's figures."""
    found = outcome.summary
    times = {
        f"{label} {part}, h": found[name].get(part, 0.0) / 3600
        for label, name in (("wait", "wait_s"), ("completion", "completion_s"))
        for part in ("mean", "median", "p95")
    }
    return {
        **times,
        "utilisation": found["utilisation"],
        "share error": found["share_error"],
        "fragmentation": found["fragmentation"],
        "makespan, d": found["makespan_s"] / 86400,
        "evictions": found["evictions"],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    return exit_code("bench.queues", lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> None:
    command = Arguments(prog="bench.queues", description=(__doc__ or "").split("\n", 1)[0])
    command.add_argument(
        "--jobs", type=Path, default=JOBS, help="a trace, see docs/simulate.md for its columns"
    )
    command.add_argument("--gpus", type=at_least(1), default=500)
    command.add_argument("--gpus-per-node", type=at_least(1), default=8)
    command.add_argument("--policy", choices=POLICIES, nargs="+", default=list(POLICIES))
    command.add_argument(
        "--declared", type=factor, default=1.5, help="times its duration: what a job declares for backfill"
    )
    command.add_argument("-o", "--output", choices=["text", "json"], default="text")
    command.add_argument("--report", type=Path, help="directory for queues.json, queues.md and charts")
    options = command.parse_args(arguments)
    trace = trace_of(str(options.jobs))
    for problem in trace.problems:
        sys.stderr.write(f"bench.queues: {problem}\n")
    report = _report(options, trace)
    outcomes = run(
        trace, Cluster(options.gpus, options.gpus_per_node), options.policy, options.declared, report
    )
    if options.report:
        report.pictures = charts(outcomes)
        report.write(options.report)
    report.show(options.output)


def _report(options: argparse.Namespace, trace: Trace) -> Report:
    hours = sum(job.gpus * job.duration for job in trace.jobs) / 3600
    parameters = {
        "trace": options.jobs.name,
        "jobs": len(trace.jobs),
        "GPU hours": figure(hours),
        "GPUs": options.gpus,
        "GPUs per node": options.gpus_per_node,
        "declared": f"{figure(options.declared)} times the duration",
    }
    return Report("queues", "Queues: months of jobs", parameters)


if __name__ == "__main__":
    sys.exit(main())
