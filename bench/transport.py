"""What it costs to turn the API server's answers into Python objects, by four ways to do so.

``python -m bench.transport --pods 5000`` decodes a list of pods (in pages of 500, as the client does) and as
many lines of a watch:

- **dictionaries**: our path. orjson, and managed fields are dropped; with the fields that the controller
  reads of a job's pod read once (``read_pod``), or not.
- **structs**: msgspec, typed, with those fields only; measured where msgspec is installed. It is quick as it
  skips what it does not name, so that no object could be kept whole.
- **models**: pydantic, those of ``shared.api``, which keep what they do not know.
- **generated models**: kubernetes_asyncio's.

Each runs in a process of its own. Times are CPU time of its one thread, the collector of cyclic garbage
being off; memory is what the process grew by with all pods held.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import orjson

from bench.command import at_least, parser, show
from bench.processes import check_proc, memory
from bench.report import Report, Spread
from services.controller.core.podview import PodView, read_pod
from shared.api.pods import Pod
from shared.kube.answers import WatchDecoder
from shared.kube.port import JSON
from shared.process import exit_code

_SAMPLE: Final = Path(__file__).with_name("pod.json")
"""A running pod of a gang, as a real API server of version 1.36 shows it."""
_PAGE: Final = 500


class Reader(NamedTuple):
    """One way to decode: a page of a list, and a line of a watch."""

    page: Callable[[bytes], Sequence[object]]
    line: Callable[[bytes], object]


class Figures(NamedTuple):
    """Microseconds a pod, each time; bytes a pod that is held."""

    listed: list[float]
    watched: list[float]
    held: float


def sample(number: int) -> bytes:
    """Return a pod of its own: names, identities and addresses differ from pod to pod."""
    text = _SAMPLE.read_bytes()
    for mark, value in (
        (b"GANG", f"train-{number // 20:04d}"),
        (b"INDEX", str(number % 20)),
        (b"IDENTITY", f"{number:08x}"),
        (b"VERSION", str(100_000 + number)),
        (b"NODE", f"node-{number % 1000:04d}"),
        (b"ADDRESS", f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"),
    ):
        text = text.replace(b"%" + mark + b"%", value.encode())
    return orjson.dumps(orjson.loads(text))


def pages(pods: Sequence[bytes]) -> list[bytes]:
    """Return the bodies of a list's pages."""
    head = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":['
    return [head + b",".join(pods[at : at + _PAGE]) + b"]}" for at in range(0, len(pods), _PAGE)]


def lines(pods: Sequence[bytes]) -> list[bytes]:
    """Return the lines of a watch."""
    return [b'{"type":"MODIFIED","object":' + pod + b"}\n" for pod in pods]


def _dictionaries() -> Reader:
    decoder = WatchDecoder("WATCH pods")

    def page(body: bytes) -> list[JSON]:
        return [_trimmed(pod) for pod in orjson.loads(body)["items"]]

    def line(chunk: bytes) -> JSON:
        (event,) = decoder.feed(chunk)
        return _trimmed(event.object)

    return Reader(page, line)


def _dictionaries_read() -> Reader:
    plain = _dictionaries()

    def page(body: bytes) -> list[tuple[JSON, PodView]]:
        return [(pod, read_pod(pod)) for pod in plain.page(body) if isinstance(pod, dict)]

    def line(chunk: bytes) -> tuple[object, PodView]:
        pod: Any = plain.line(chunk)
        return pod, read_pod(pod)

    return Reader(page, line)


def _trimmed(pod: JSON) -> JSON:
    metadata = pod["metadata"]
    return {**pod, "metadata": {name: part for name, part in metadata.items() if name != "managedFields"}}


def _structs() -> Reader:
    """Name the fields that ``read_pod`` reads, and those by which an object is known and owned."""
    msgspec: Any = import_module("msgspec")
    many: Any = list

    def struct(title: str, **fields: Any) -> Any:
        with_defaults = [(field, kind | None, None) for field, kind in fields.items()]
        return msgspec.defstruct(title, with_defaults, rename="camel", gc=False)

    owner = struct("Owner", api_version=str, kind=str, name=str, uid=str, controller=bool)
    meta = struct(
        "Meta",
        name=str,
        namespace=str,
        uid=str,
        resource_version=str,
        creation_timestamp=str,
        deletion_timestamp=str,
        labels=dict[str, str],
        annotations=dict[str, str],
        owner_references=many[owner],
    )
    spec = struct("Spec", node_name=str, scheduler_name=str)
    terminated = struct("Terminated", exit_code=int, finished_at=str)
    state = struct("State", terminated=terminated)
    container = struct("Container", state=state, last_state=state, restart_count=int, ready=bool)
    condition = struct("Condition", type=str, status=str, last_transition_time=str)
    status = struct(
        "Status",
        phase=str,
        start_time=str,
        container_statuses=many[container],
        init_container_statuses=many[container],
        conditions=many[condition],
    )
    pod = struct("Pod", metadata=meta, spec=spec, status=status)
    listing = msgspec.json.Decoder(struct("PodList", items=many[pod]))
    event = msgspec.json.Decoder(struct("Event", type=str, object=pod))
    return Reader(lambda body: listing.decode(body).items, event.decode)


def _models() -> Reader:
    return Reader(
        lambda body: [Pod.model_validate(pod) for pod in orjson.loads(body)["items"]],
        lambda line: Pod.model_validate(orjson.loads(line)["object"]),
    )


def _generated_models() -> Reader:
    library: Any = import_module("kubernetes_asyncio")
    # Not by their constructors: those open a session, which needs a loop.
    client: Any = object.__new__(library.client.ApiClient)
    client.configuration = library.client.Configuration()
    watch: Any = object.__new__(library.watch.Watch)
    watch._api_client = client  # noqa: SLF001 - what the constructor sets

    def page(body: bytes) -> Sequence[object]:
        items: Sequence[object] = client.deserialize(SimpleNamespace(data=body), "V1PodList").items
        return items

    return Reader(page, lambda line: watch.unmarshal_event(line.decode(), "V1Pod")["object"])


READERS: Final[dict[str, Callable[[], Reader]]] = {
    "dictionaries (orjson)": _dictionaries,
    "dictionaries, read once": _dictionaries_read,
    "structs (msgspec)": _structs,
    "models (pydantic)": _models,
    "generated models (kubernetes_asyncio)": _generated_models,
}


def measure(name: str, count: int, repeats: int) -> Figures:
    """Measure one way; to be called in a process of its own."""
    pods = [sample(number) for number in range(count)]
    listed, watched = pages(pods), lines(pods)
    reader = READERS[name]()
    reader.page(listed[0])
    reader.line(watched[0])  # what is made at the first use is no cost of a pod
    gc.collect()
    gc.disable()
    before = memory(os.getpid()).now
    held = [reader.page(body) for body in listed]
    grown = memory(os.getpid()).now - before
    del held
    return Figures(
        [_timed(reader.page, listed) / count for _ in range(repeats)],
        [_timed(reader.line, watched) / count for _ in range(repeats)],
        grown * 2**20 / count,
    )


def _timed(read: Callable[[bytes], object], bodies: Sequence[bytes]) -> float:
    """Return the microseconds that reading takes; what is read is held till the end."""
    gc.collect()
    begin = time.thread_time()
    held = [read(body) for body in bodies]
    taken = time.thread_time() - begin
    del held
    return taken * 1e6


def run(options: argparse.Namespace) -> Report:
    """Measure all ways."""
    body = len(sample(0))
    parameters = {"pods": options.pods, "bytes of JSON a pod": body, "repeats": options.repeats}
    report = Report("transport", "Transport: from the API server's bytes to objects", parameters)
    table = report.table("CPU and memory a pod", "Ratios are to the first line, our path.")
    first: Figures | None = None
    for name in READERS:
        if "msgspec" in name and find_spec("msgspec") is None:
            report.notes.append("msgspec is not installed here, so that its structs were not measured")
            continue
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            figures = process.submit(measure, name, options.pods, options.repeats).result()
        first = first or figures
        listed, watched = Spread.of(figures.listed), Spread.of(figures.watched)
        table.rows.append(
            {
                "as": name,
                "µs in a list": listed,
                "ratio": listed.median / Spread.of(first.listed).median,
                "µs in a watch": watched,
                "ratio in a watch": watched.median / Spread.of(first.watched).median,
                "kB held": figures.held / 1000,
            }
        )
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    return exit_code("bench.transport", lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> None:
    command = parser("bench.transport", __doc__)
    command.add_argument("--pods", type=at_least(1), default=5000, help="pods in the list and in the watch")
    options = command.parse_args(arguments)
    check_proc()
    show(run(options), options)


if __name__ == "__main__":
    sys.exit(main())
