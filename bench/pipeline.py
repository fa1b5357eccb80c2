"""The whole way of a job, measured from outside: HTTP submission to pods bound.

``python -m bench.pipeline --nodes 1000 --gangs 100 --size 20 --log memory`` starts ``pumice up`` as a
process, submits through its gateway and watches the pods of its API server. Beside it, in the same run,
stand the limits: one round trip of the log, and how many pods a second the bare API server creates and
binds for a client that does nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.command import at_least, parser, show
from bench.load import IN_FLIGHT, PodWatch, at_most, job
from bench.report import Report, Row, Spread, quantile
from shared.api.resources import JOBS, PODS
from shared.clock import SystemClock
from shared.kube.client import connect
from shared.kube.port import JSON, Cluster
from shared.log.connect import open_log
from shared.log.port import Record, Start, TopicSpec
from shared.process import exit_code


@dataclass(frozen=True, slots=True)
class Work:
    """What to measure."""

    nodes: int
    gangs: int
    size: int
    singles: int
    lone: int
    log: str
    kubeconfig: Path | None
    run_seconds: float


@asynccontextmanager
async def a_process(*words: str, ready: Path) -> AsyncIterator[None]:
    """Run one of our programs until the block ends; wait until it wrote ``ready``."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *words, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        while not _is_there(ready):
            if process.returncode is not None:
                raise SystemExit(f"{words[0]} ended with {process.returncode}")
            await asyncio.sleep(0.05)
        yield
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await process.wait()


def _is_there(ready: Path) -> bool:
    return ready.exists()


@asynccontextmanager
async def a_platform(work: Work, directory: Path) -> AsyncIterator[tuple[str, Cluster]]:
    """Run ``pumice up`` and give its gateway's address and its API server."""
    ready = directory / "ready.json"
    words = ["pumice", "up", "--port", "0", "--ready-file", str(ready)]
    words += ["--kubeconfig", str(work.kubeconfig)] if work.kubeconfig else ["--nodes", f"{work.nodes}x8"]
    if work.log != "memory":
        words += ["--log", work.log]
    async with a_process(*words, ready=ready):
        where = json.loads(ready.read_text(encoding="utf-8"))
        cluster = connect(where["kubeconfig"], clock=SystemClock())
        try:
            yield where["gateway"], cluster
        finally:
            await cluster.close()


async def lone_gangs(work: Work, gateway: str, cluster: Cluster, pods: PodWatch) -> list[float]:
    """Return, in milliseconds, HTTP submission to all bound for gangs of 4 on an idle platform."""
    samples = []
    run = os.getpid()
    async with httpx.AsyncClient(base_url=gateway, timeout=60) as http:
        for number in range(work.lone + 3):
            name, bound = f"lone-{run}-{number}", pods.bound
            begin = time.perf_counter()
            (await http.post("/v1/jobs", json=job(name, 4, 8, None))).raise_for_status()
            await pods.wait(lambda bound=bound: pods.bound - bound == 4, "a lone gang's last binding")  # type: ignore[misc]
            if number >= 3:  # the first ones warm caches and connections
                samples.append((pods.last_bound - begin) * 1000)
            await cluster.delete(JOBS, "default", name)
            await asyncio.sleep(0.05)
    return samples


async def burst(work: Work, gateway: str, pods: PodWatch, gangs: int, size: int) -> float:
    """Return the seconds from the first submission until every pod of all gangs was bound."""
    run = f"burst-{size}-{os.getpid()}"
    before = pods.bound
    begin = time.perf_counter()
    limits = httpx.Limits(max_connections=IN_FLIGHT)
    async with httpx.AsyncClient(base_url=gateway, timeout=120, limits=limits) as http:

        async def submit(number: int) -> None:
            body = job(f"{run}-{number}", size, 1, work.run_seconds)
            (await http.post("/v1/jobs", json=body)).raise_for_status()

        await at_most(IN_FLIGHT, (submit(number) for number in range(gangs)))
    await pods.wait(lambda: pods.bound - before >= gangs * size, "the last binding")
    return pods.last_bound - begin


async def log_round_trip(url: str, samples: int = 300) -> list[float]:
    """Return, in milliseconds, append to read for records of 1 kB on a log of this kind."""
    clock = SystemClock()
    log = open_log("memory://" if url == "memory" else url, clock=clock, client_id="bench")
    topic = f"bench-round-trip-{os.getpid()}"
    try:
        await log.start()
        await log.create_topics([TopicSpec(topic)])
        reader = await log.read([topic], start=Start.EARLIEST)
        taken = []
        for _ in range(samples):
            begin = time.perf_counter()
            sending = asyncio.create_task(log.producer.send(Record(topic, b"k", b"x" * 1000)))
            while not await reader.poll():
                pass
            await sending
            taken.append((time.perf_counter() - begin) * 1000)
        return taken
    finally:
        await log.close()


async def raw_rates(cluster: Cluster, node: str, pods: int) -> dict[str, float]:
    """Return pods a second of the bare API server: created bound, created, bound by the subresource."""
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"}

    def body(name: str, **extra: str) -> JSON:
        return {"metadata": {"name": name}, "spec": spec | extra}

    async def rate(calls: list[Coroutine[Any, Any, Any]]) -> float:
        begin = time.perf_counter()
        await at_most(IN_FLIGHT, calls)
        return len(calls) / (time.perf_counter() - begin)

    names = [f"raw-{number}" for number in range(pods)]
    return {
        "created bound": await rate(
            [cluster.create(PODS, "default", body(f"{n}-b", nodeName=node)) for n in names]
        ),
        "created": await rate([cluster.create(PODS, "default", body(n)) for n in names]),
        "bound": await rate([cluster.bind("default", n, node) for n in names]),
    }


async def bare_server(work: Work, directory: Path) -> dict[str, float]:
    """Measure :func:`raw_rates` on an API server without Pumice."""
    if work.kubeconfig is not None:
        cluster = connect(str(work.kubeconfig), clock=SystemClock())
        try:
            return await raw_rates(cluster, "nowhere", 2000)
        finally:
            await cluster.close()
    kubeconfig = directory / "bare"
    async with a_process("simulator", "--port", "0", "--kubeconfig", str(kubeconfig), ready=kubeconfig):
        cluster = connect(str(kubeconfig), clock=SystemClock())
        try:
            return await raw_rates(cluster, "nowhere", 2000)
        finally:
            await cluster.close()


@dataclass(slots=True)
class Round:
    """What one round measured."""

    trips: list[float]
    bare: dict[str, float]
    lone: list[float]
    bursts: dict[tuple[int, int], float]


async def one_round(work: Work) -> Round:
    """Measure the limits, then a platform of its own, new from the start."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        trips = await log_round_trip(work.log)
        bare = await bare_server(work, directory)
        bursts: dict[tuple[int, int], float] = {}
        async with a_platform(work, directory) as (gateway, cluster), PodWatch(cluster).watching() as pods:
            lone = await lone_gangs(work, gateway, cluster, pods)
            for gangs, size in ((work.gangs, work.size), (work.singles, 1)):
                if gangs:
                    bursts[gangs, size] = await burst(work, gateway, pods, gangs, size)
        return Round(trips, bare, lone, bursts)


def report(work: Work, rounds: Sequence[Round]) -> Report:
    """Sum the rounds up: medians, and the lowest and highest round."""
    parameters = {"nodes": work.nodes, "log": work.log, "seconds a pod runs": work.run_seconds}
    made = Report("pipeline", "Pipeline: from HTTP submission to bound", parameters)

    def of(values: Callable[[Round], float]) -> Spread:
        return Spread.of([values(one) for one in rounds])

    table = made.table("A lone gang of 4", "Milliseconds; the platform is otherwise idle.")
    for what, samples in (("submitted to bound", "lone"), ("limit: round trip of the log, 1 kB", "trips")):
        row: Row = {"what": what}
        for share in (0.5, 0.9, 0.99):
            row[f"p{round(share * 100)}"] = of(lambda one, s=samples, q=share: quantile(getattr(one, s), q))  # type: ignore[misc]
        table.rows.append(row)
    table = made.table("Bursts", f"{IN_FLIGHT} submissions in flight; a pod asks for one GPU.")
    for key in rounds[0].bursts:
        gangs, size = key
        rate = of(lambda one, key=key: key[0] * key[1] / one.bursts[key])  # type: ignore[misc]
        ratio = of(lambda one, key=key: key[0] * key[1] / one.bursts[key] / one.bare["created bound"])  # type: ignore[misc]
        table.rows.append(
            {
                "work": f"{gangs} gangs of {size}",
                "gangs/s": Spread(rate.median / size, rate.low / size, rate.high / size),
                "pods/s": rate,
                "of the bare API server's rate": ratio,
            }
        )
    table = made.table("Limit: the bare API server", f"Pods a second, {IN_FLIGHT} requests in flight.")
    table.rows.append({kind: of(lambda one, kind=kind: one.bare[kind]) for kind in rounds[0].bare})  # type: ignore[misc]
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    return exit_code("bench.pipeline", lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> None:
    command = parser("bench.pipeline", __doc__)
    command.add_argument("--nodes", type=at_least(1), default=1000, help="simulated nodes with 8 GPUs")
    command.add_argument(
        "--gangs", type=at_least(0), default=500, help="gangs of --size pods in the first burst; 0: none"
    )
    command.add_argument("--size", type=at_least(1), default=20)
    command.add_argument(
        "--singles", type=at_least(0), default=10_000, help="jobs of one pod in the second burst; 0: none"
    )
    command.add_argument("--lone", type=at_least(1), default=200, help="lone gangs timed")
    command.add_argument("--log", default="memory", help="memory, or kafka://host:port of a running broker")
    command.add_argument("--kubeconfig", type=Path, help="a real cluster with the CRDs and --nodes nodes")
    command.add_argument("--run-seconds", type=float, default=5.0, help="how long a pod of a burst runs")
    options = command.parse_args(arguments)
    work = Work(
        nodes=options.nodes,
        gangs=options.gangs,
        size=options.size,
        singles=options.singles,
        lone=options.lone,
        log=options.log,
        kubeconfig=options.kubeconfig,
        run_seconds=options.run_seconds,
    )
    rounds = [asyncio.run(one_round(work)) for _ in range(options.repeats)]
    show(report(work, rounds), options)


if __name__ == "__main__":
    sys.exit(main())
