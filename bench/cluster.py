"""The whole way of a job on a real API server and a real broker, each service a process of its own.

``python -m bench.cluster --nodes 1000 --burst 100x20 --burst 5x400 --burst 500x1`` starts a control plane, a
broker, simulated nodes and the services. Timed is what a user sees: from the first create of a Job to the
last binding in a watch of the pods. Beside it, in the same run, stands the limit: how fast the same API
server, with the same nodes and without the services, creates and binds pods for a client that does nothing
else.

A round measures the limit, then starts the services anew, times lone gangs, then bursts; what a burst made
is deleted before the next one. CPU and writes of a burst are those from its first create until all its
pods have started and nothing is written any more.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp

from bench.command import at_least, parser, show
from bench.installation import Installation, Services, Wanted, admin, an_installation, services
from bench.load import IN_FLIGHT, PATIENCE, PodWatch, at_most, job, pod_spec
from bench.processes import Memory, check_proc, cpu_seconds, memory
from bench.report import Report, Row, Spread, Table, quantile
from shared.api.resources import JOBS, NODES, PODGROUPS, PODS
from shared.errors import ConfigurationError, Unavailable
from shared.kube.port import JSON, Cluster
from shared.process import exit_code, run, until_stopped

_GPUS: Final = 8
_WARM_UPS: Final = 3
_WARM_UP_PODS: Final = 200
_LONE: Final = 4
_WAYS: Final = ("gateway", "kubectl")
_ALL: Final = "all"
_VOLCANO: Final = (
    "API writes of Volcano by its design: a create and a bind for each pod, and status writes of the job, the"
    " podgroup and (as conditions) the pods besides."
)
Submit = Callable[[JSON], Coroutine[Any, Any, object]]


class Burst(NamedTuple):
    """So many gangs of so many pods."""

    gangs: int
    size: int

    @property
    def pods(self) -> int:
        """All its pods."""
        return self.gangs * self.size

    def __str__(self) -> str:
        """Return it as it is given."""
        return f"{self.gangs}x{self.size}"


@dataclass(frozen=True, slots=True)
class Work:
    """What to measure."""

    bursts: tuple[Burst, ...]
    lone: int
    ways: tuple[str, ...]
    run_seconds: float | None


@dataclass(frozen=True, slots=True)
class Cost:
    """What a burst took."""

    pods: int
    seconds: float
    cpu: Mapping[str, float]
    """Seconds of CPU by process."""
    writes: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def rate(self) -> float:
        """Pods a second."""
        return self.pods / self.seconds


@dataclass(slots=True)
class Round:
    """What one round measured."""

    raw: dict[int, Cost] = field(default_factory=dict[int, Cost])
    """The limit, by number of pods."""
    lone: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Milliseconds, by way."""
    bursts: dict[tuple[str, Burst], Cost] = field(default_factory=dict[tuple[str, Burst], Cost])
    memory: dict[str, Memory] = field(default_factory=dict[str, Memory])


class Bench:
    """Measures on an installation."""

    def __init__(
        self, work: Work, made: Installation, cluster: Cluster, pods: PodWatch, nodes: list[str]
    ) -> None:
        self._work = work
        self._made = made
        self._cluster = cluster
        self._pods = pods
        self._nodes = nodes
        self._run = f"bench-{os.getpid()}"
        self._made_so_far = 0

    async def warm_up(self) -> None:
        """Let the API server do such work once before it is timed."""
        await self._raw(_WARM_UP_PODS)

    async def round(self) -> Round:
        """Measure everything once."""
        measured = Round()
        for pods in dict.fromkeys(burst.pods for burst in self._work.bursts):
            measured.raw[pods] = cost = await self._raw(pods)
            _say(f"limit, {pods} pods: {cost.rate:.0f} pods/s")
        async with services(self._made) as running:
            for way in self._work.ways:
                async with _submitting(way, running, self._cluster) as submit:
                    measured.lone[way] = samples = await self._lone(submit, running)
                    _say(f"lone gangs by {way}: p50 {quantile(samples, 0.5):.0f} ms")
                    for burst in self._work.bursts:
                        measured.bursts[way, burst] = cost = await self._burst(burst, submit, running)
                        _say(f"{burst} by {way}: {cost.rate:.0f} pods/s")
            measured.memory = {name: memory(pid) for name, pid in self._pids(running).items()}
        return measured

    def _pids(self, running: Services | None = None) -> dict[str, int]:
        return {
            **self._made.pids,
            **({} if running is None else running.pids),
            "measuring client": os.getpid(),
        }

    def _names(self, count: int) -> list[str]:
        """Return new names of jobs or pods."""
        first, self._made_so_far = self._made_so_far, self._made_so_far + count
        return [f"{self._run}-{number}" for number in range(first, first + count)]

    async def _raw(self, count: int) -> Cost:
        """Create and bind pods of the same kind, and nothing else."""
        names = self._names(count)
        spec = {**pod_spec(1, self._work.run_seconds), "schedulerName": "bench"}

        async def one(number: int, name: str) -> None:
            await self._cluster.create(PODS, "default", {"metadata": {"name": name}, "spec": spec})
            await self._cluster.bind("default", name, self._nodes[number % len(self._nodes)])

        cost = await self._timed(count, (one(number, name) for number, name in enumerate(names)), None)
        await at_most(IN_FLIGHT, (self._delete_pod(name) for name in names))
        await self._pods.wait(lambda: self._pods.existing == 0, "the end of all pods")
        return cost

    async def _delete_pod(self, name: str) -> None:
        await self._cluster.delete(PODS, "default", name, grace_seconds=0)

    async def _burst(self, burst: Burst, submit: Submit, running: Services) -> Cost:
        names = self._names(burst.gangs)
        bodies = [job(name, burst.size, 1, self._work.run_seconds) for name in names]
        cost = await self._timed(burst.pods, (submit(body) for body in bodies), running)
        await self._delete_jobs(names, running)
        return cost

    async def _timed(
        self, count: int, calls: Iterable[Coroutine[Any, Any, Any]], running: Services | None
    ) -> Cost:
        """Do the calls, and wait until so many pods are bound, then until everything is at rest."""
        pods, pids = self._pods, self._pids(running)
        bound, started = pods.bound, pods.started
        writes = {} if running is None else await running.settled()
        cpu = cpu_seconds(pids)
        begin = time.perf_counter()
        await at_most(IN_FLIGHT, calls)
        await pods.wait(lambda: pods.bound - bound >= count, "the last binding")
        seconds = pods.last_bound - begin
        await pods.wait(lambda: pods.started - started >= count, "the last pod's start")
        after = {} if running is None else await running.settled()
        return Cost(count, seconds, _less(cpu_seconds(pids), cpu), _less(after, writes))

    async def _lone(self, submit: Submit, running: Services) -> list[float]:
        """Return, in milliseconds, from the create to the last binding of gangs of 4 on an idle cluster."""
        pods, samples = self._pods, list[float]()
        for number, name in enumerate(self._names(_WARM_UPS + self._work.lone)):
            bound = pods.bound
            begin = time.perf_counter()
            await submit(job(name, _LONE, 1, None))
            await pods.wait(lambda bound=bound: pods.bound - bound == _LONE, "a lone gang's last binding")  # type: ignore[misc]
            if number >= _WARM_UPS:  # the first ones warm caches and connections
                samples.append((pods.last_bound - begin) * 1000)
            await self._cluster.delete(JOBS, "default", name)
            await pods.wait(lambda: pods.existing == 0, "the end of a lone gang's pods")
            await running.settled(0.1)
        return samples

    async def _delete_jobs(self, names: Sequence[str], running: Services) -> None:
        """Delete jobs and wait until all that was made for them is gone."""
        await at_most(IN_FLIGHT, (self._cluster.delete(JOBS, "default", name) for name in names))
        await self._pods.wait(lambda: self._pods.existing == 0, "the end of all pods")
        await self._no_podgroups()
        await running.settled()

    async def _no_podgroups(self) -> None:
        """Wait until the garbage collector has taken the last PodGroup away. Raises Unavailable."""
        left, looked = 0, time.monotonic()
        while podgroups := (await self._cluster.list(PODGROUPS, "default")).items:
            if len(podgroups) != left:
                left, looked = len(podgroups), time.monotonic()
            elif time.monotonic() > looked + PATIENCE:
                raise Unavailable(f"{left} podgroups stay although their jobs are gone")
            await asyncio.sleep(0.5)


@asynccontextmanager
async def _submitting(way: str, running: Services, cluster: Cluster) -> AsyncIterator[Submit]:
    """Give what submits a job: by HTTP to the gateway, or to the API server as kubectl would."""
    if way == "kubectl":
        yield lambda body: cluster.create(JOBS, "default", body)
        return
    async with aiohttp.ClientSession() as http:

        async def post(body: JSON) -> None:
            async with http.post(f"{running.gateway}/v1/jobs", json=body) as answer:
                if not answer.ok:
                    raise Unavailable(f"the gateway answered {answer.status}: {await answer.text()}")

        yield post


def _less(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


def _say(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")


async def measure(wanted: Wanted, work: Work, repeats: int) -> list[Round]:
    """Measure all rounds on one installation."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pumice-bench-")))
        made = await stack.enter_async_context(an_installation(wanted, folder))
        cluster = await stack.enter_async_context(admin(made.kubeconfig))
        pods = await stack.enter_async_context(PodWatch(cluster).watching())
        if pods.existing:
            raise ConfigurationError(f"{made.kubeconfig}: {pods.existing} pods are there already")
        nodes = [node["metadata"]["name"] for node in (await cluster.list(NODES)).items]
        bench = Bench(work, made, cluster, pods, nodes)
        await bench.warm_up()
        rounds = []
        for number in range(repeats):
            _say(f"round {number + 1} of {repeats}")
            rounds.append(await bench.round())
        return rounds


def report(wanted: Wanted, work: Work, rounds: Sequence[Round]) -> Report:
    """Sum the rounds up: medians, and the lowest and highest round."""
    made = Report(
        "cluster",
        "Cluster: from the create of a job to its last binding",
        {
            "nodes": f"{wanted.nodes} with {wanted.gpus} GPUs",
            "webhooks": "on" if wanted.webhooks else "off",
            "pods run": "until deleted" if work.run_seconds is None else f"{work.run_seconds:g} s",
            "rounds": len(rounds),
        },
    )

    def of(values: Callable[[Round], float]) -> Spread:
        return Spread.of([values(one) for one in rounds])

    table = made.table(f"A lone gang of {_LONE}", f"Milliseconds; {work.lone} times a round, otherwise idle.")
    for way in work.ways:
        row: Row = {"by": way}
        for share in (0.5, 0.9, 0.99):
            row[f"p{share * 100:g}"] = of(lambda one, w=way, q=share: quantile(one.lone[w], q))  # type: ignore[misc]
        table.rows.append(row)
    table = made.table("Bursts", f"{IN_FLIGHT} requests in flight; a pod asks for one GPU.")
    for key in rounds[0].bursts:
        way, burst = key
        rate = of(lambda one, k=key: one.bursts[k].rate)  # type: ignore[misc]
        table.rows.append(
            {
                "by": way,
                "gangs": str(burst),
                "seconds": of(lambda one, k=key: one.bursts[k].seconds),  # type: ignore[misc]
                "pods/s": rate,
                "limit, pods/s": of(lambda one, n=burst.pods: one.raw[n].rate),  # type: ignore[misc]
                "% of the limit": of(
                    lambda one, k=key: 100 * one.bursts[k].rate / one.raw[k[1].pods].rate  # type: ignore[misc]
                ),
            }
        )
    limit = {f"{pods} pods": [one.raw[pods] for one in rounds] for pods in rounds[0].raw}
    _per_pod(made.table("CPU of the limit", "Milliseconds a pod."), limit, lambda one: one.cpu, 1000)
    for way in work.ways:
        costs = {str(burst): [one.bursts[way, burst] for one in rounds] for burst in work.bursts}
        _per_pod(made.table(f"CPU by {way}", "Milliseconds a pod."), costs, lambda one: one.cpu, 1000)
        _per_pod(made.table(f"API writes by {way}", "Of the services, a pod."), costs, lambda one: one.writes)
    table = made.table("Memory", "MiB after the last burst, and the most that it ever was.")
    for name in rounds[0].memory:
        now, most = (of(lambda one, n=name, i=index: one.memory[n][i]) for index in (0, 1))  # type: ignore[misc]
        table.rows.append({"process": name, "at the end": now, "most": most})
    made.notes.append(_VOLCANO)
    return made


def _per_pod(
    table: Table,
    costs: Mapping[str, Sequence[Cost]],
    parts: Callable[[Cost], Mapping[str, float]],
    scale: float = 1.0,
) -> None:
    """Fill a table with what each part took a pod; a column a burst, the sum at the end."""
    names = dict.fromkeys(name for several in costs.values() for one in several for name in parts(one))
    for name in (*names, _ALL):
        row: Row = {"": name}
        for column, several in costs.items():
            taken = [_part(parts(one), name) for one in several]
            row[column] = Spread.of(
                [scale * part / one.pods for part, one in zip(taken, several, strict=True)]
            )
        if any(row[column].high for column in costs):
            table.rows.append(row)


def _part(taken: Mapping[str, float], name: str) -> float:
    return sum(taken.values()) if name == _ALL else taken.get(name, 0.0)


def _burst_argument(text: str) -> Burst:
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not GANGSxSIZE, as in 100x20")
    return Burst(int(found[1]), int(found[2]))


def _check_room(wanted: Wanted, work: Work) -> None:
    """Raise ConfigurationError for a burst that can't be bound at once, if its pods never end."""
    room = wanted.nodes * wanted.gpus
    for burst in work.bursts:
        if work.run_seconds is None and burst.pods > room:
            raise ConfigurationError(
                f"argument --burst: {burst} asks for {burst.pods} GPUs of {room}: give more --nodes, or"
                " --run-seconds"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    return exit_code("bench.cluster", lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> None:
    command = parser("bench.cluster", __doc__)
    command.add_argument("--nodes", type=at_least(1), default=1000, help="simulated nodes with 8 GPUs")
    command.add_argument(
        "--burst",
        type=_burst_argument,
        action="append",
        metavar="GANGSxSIZE",
        help="gangs submitted at once and pods of each; may be given again (default: 100x20, 5x400, 500x1)",
    )
    command.add_argument("--lone", type=at_least(1), default=100, help="lone gangs timed a round")
    command.add_argument(
        "--through", choices=[*_WAYS, "both"], default="both", help="how jobs are submitted (default: both)"
    )
    command.add_argument(
        "--run-seconds", type=float, help="how long a pod of a burst runs (default: until it is deleted)"
    )
    command.add_argument("--no-webhooks", action="store_true", help="do not judge what comes by kubectl")
    command.add_argument(
        "--kubeconfig", type=Path, help="a cluster without pods that may be thrown away; else one is started"
    )
    command.add_argument("--log", metavar="kafka://HOST:PORT", help="a running broker; else one is started")
    options = command.parse_args(arguments)
    if options.log and not options.log.startswith("kafka://"):
        raise ConfigurationError(f"argument --log: {options.log!r} is not kafka://host:port")
    wanted = Wanted(options.nodes, _GPUS, options.kubeconfig, options.log, not options.no_webhooks)
    work = Work(
        bursts=tuple(options.burst or (Burst(100, 20), Burst(5, 400), Burst(500, 1))),
        lone=options.lone,
        ways=_WAYS if options.through == "both" else (options.through,),
        run_seconds=options.run_seconds,
    )
    _check_room(wanted, work)
    check_proc()
    rounds: list[Round] = []

    async def work_on() -> None:
        rounds.extend(await measure(wanted, work, options.repeats))

    run(until_stopped(work_on()))  # servers and services end with it, however it ends
    if rounds:
        show(report(wanted, work, rounds), options)


if __name__ == "__main__":
    sys.exit(main())
