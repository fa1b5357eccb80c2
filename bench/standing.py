"""A cluster in use for ``bench.placement``: its state as records of the log, and what scheduling it takes."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Final

from bench.gangs import GIB, GPU, GPUS, NOW, bound, endings, gang, node, pod, shape
from bench.report import Row, Spread, quantile
from services.scheduler.adapters.feed import Feed
from services.scheduler.core.cycle import decide
from services.scheduler.core.model import Model
from services.scheduler.core.reports import Reporter
from shared.events import topics
from shared.events.codec import encode
from shared.events.contracts import Contract, Gang, PodGroupState, QueueState, Shape
from shared.events.envelope import Envelope
from shared.log.port import Delivery
from shared.telemetry.telemetry import Telemetry

_SIZE: Final = 20
"""Pods in a gang that runs."""
_LEFT: Final = 1
"""GPUs that stay free on each node."""
_SHAPES: Final = 50
_WIDE: Final = 512
_TIMES: Final = 20
_CYCLES: Final = 400
_WITHOUT: Final = Shape(requests={"cpu": 1_000, "memory": 4 * GIB})
_TOO_LARGE: Final = Shape(requests={"cpu": 8_000, "memory": 64 * GIB, GPU: 2 * GPUS})
"""No node has so many GPUs."""


def facts(nodes: int, running: int) -> Iterator[tuple[str, str, Contract]]:
    """Yield (kind, name, fact) of a cluster whose pods are spread evenly.

    They hold all GPUs but one of each node, the rest CPU alone, in gangs of 20 of 50 shapes.
    """
    yield "queue", "default", QueueState(name="default")
    for number in range(nodes):
        one = node(number)
        yield "node", one.name, one
    with_gpus = min(running, nodes * (GPUS - _LEFT))
    for first in range(0, running, _SIZE):
        name = f"run{first // _SIZE}"
        size = min(_SIZE, running - first)
        of = shape(first // _SIZE % _SHAPES) if first + size <= with_gpus else _WITHOUT
        made = gang(name, size, of)
        yield (
            "podgroup",
            name,
            PodGroupState(namespace="bench", name=name, uid=name, phase="Running", gang=made),
        )
        for index, member in enumerate(made.tasks[0].members, first):
            yield "pod", member.pod, pod(member.pod, name, f"node-{index % nodes:05d}", of)


def records(nodes: int, running: int) -> list[Delivery]:
    """Return what a reader of the compacted topic gets."""
    found: list[Delivery] = []
    for kind, name, fact in facts(nodes, running):
        namespace = "bench" if kind in ("pod", "podgroup") else ""
        key = topics.state_key(kind, namespace, name)
        record = encode(topics.CLUSTER_STATE, key, Envelope(name, "/bench", NOW, fact))
        found.append(Delivery(record.topic, 0, len(found), 0, record.key, record.value, record.headers))
    return found


def start(deliveries: list[Delivery]) -> tuple[Model, float]:
    """Read all records and decide about one gang; return the model, and the seconds to the decision."""
    model = Model()
    feed = Feed(model, Telemetry("scheduler"), on_pool=lambda _: None, on_policy=lambda _: None)
    gc.collect()
    started = time.thread_time()
    for delivery in deliveries:
        feed.state(delivery)
    _first(model, "first", 4)
    return model, time.thread_time() - started


def _first(model: Model, name: str, size: int) -> float:
    """Return seconds from a gang's event to its decision; it is gone afterwards."""
    one = gang(name, size, shape(0))
    started = time.thread_time()
    model.gang_ready(one)
    made = decide(model, NOW).decisions
    seconds = time.thread_time() - started
    if len(made) != 1:
        raise RuntimeError(f"a gang of {size} was not decided about")
    for state in bound(made[0], shape(0)):
        model.apply_pod(state)
        model.remove_pod(state.namespace, state.name)
    model.remove_podgroup("bench", name)
    decide(model, NOW)
    return seconds


def _verdict(model: Model, one: Gang) -> float:
    """Return seconds from the event of a gang that can never run to the reason that says so."""
    reporter = Reporter(model)
    started = time.thread_time()
    model.gang_ready(one)
    decide(model, NOW)
    reporter.begin(NOW)
    told = reporter.some(NOW, 1)
    seconds = time.thread_time() - started
    if not told:
        raise RuntimeError(f"nothing was told about {one.name}")
    model.remove_podgroup("bench", one.name)
    decide(model, NOW)
    return seconds


def _endings(model: Model, nodes: int, running: int) -> list[float]:
    """Return seconds of cycles after one pod ended, while gangs of all shapes wait for more than that."""
    for number in range(_SHAPES):
        model.gang_ready(gang(f"wait{number}", 2 * nodes, shape(number)))
    decide(model, NOW)
    return endings(model, [f"run{index}-worker-0" for index in range(min(_CYCLES, -(-running // _SIZE)))])


def measure(nodes: int, running: int, repeats: int) -> Row:
    """Return the restart in seconds, the rest in milliseconds."""
    deliveries = records(nodes, running)
    starts = [start(deliveries) for _ in range(repeats)]
    model = starts[-1][0]
    wide = min(_WIDE, nodes)
    never = [gang(f"n{at}", wide, _TOO_LARGE) for at in range(_TIMES)]
    row: Row = {
        "restart": Spread.of([seconds for _, seconds in starts]),
        f"gang of {wide}": Spread.of([_first(model, f"w{at}", wide) * 1e3 for at in range(_TIMES)]),
        "can never run": Spread.of([_verdict(model, one) * 1e3 for one in never]),
    }
    cycles = [seconds * 1e3 for seconds in _endings(model, nodes, running)]
    return {**row, "pod ends, p50": quantile(cycles, 0.5), "p99": quantile(cycles, 0.99)}
