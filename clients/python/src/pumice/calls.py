"""The gateway's API, endpoint by endpoint: a request and how its answer is read. Pure.

The flows repeat and follow these; the clients carry them out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from pumice.errors import ProtocolError
from pumice.models import (
    Commanded,
    JobView,
    Model,
    NodeView,
    PoolCommanded,
    QueueCommanded,
    QueueView,
    Trace,
    Trial,
)

T = TypeVar("T")
M = TypeVar("M", bound=Model)
Command = Literal["suspend", "resume", "delete"]
QueueCommand = Literal["open", "close"]
PATIENCE = 10.0
"""Seconds that the answer of a request which waits on the server may come late."""
_TRIAL = 10.0
"""Seconds that the server gives those who answer a trial."""
State = Literal["admitted", "running", "finished"]


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request. ``path`` is below the server's address and is escaped already."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request and how its answer is read."""

    request: Request
    read: Callable[[Answer], T]
    timeout: float | None = None
    """Seconds for the answer, of a request that waits on the server; None: the client's own."""
    absent: Callable[[], T] | None = None
    """For deletions: what a 404 means when an earlier attempt may have done the work."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, and what to ask for to get those after them."""

    jobs: tuple[JobView, ...]
    after: str | None


def submit(body: dict[str, Any], *, key: str, wait: float | None) -> Call[JobView]:
    """Submit a job; ``wait`` up to so many seconds for its admission.

    The same key again makes no second job and asks about the first.
    """
    params = {} if wait is None else {"wait": "admitted", "timeout": f"{wait:.3f}"}
    headers = {"content-type": "application/json", "idempotency-key": key}
    request = Request("POST", "/v1/jobs", params, headers, json.dumps(body).encode())
    return Call(request, lambda answer: _one(JobView, answer), _patience(wait))


def try_out(body: dict[str, Any], timeout: float | None) -> Call[Trial]:
    """Ask what would become of a job; ``timeout``: seconds for the answer, None: the server's own."""
    params = {} if timeout is None else {"timeout": f"{timeout:.3f}"}
    headers = {"content-type": "application/json"}
    request = Request("POST", "/v1/trials", params, headers, json.dumps(body).encode())
    return Call(
        request, lambda answer: _one(Trial, answer), _patience(_TRIAL if timeout is None else timeout)
    )


def get_job(namespace: str, name: str) -> Call[JobView]:
    """Read one job."""
    return Call(Request("GET", job_path(namespace, name)), lambda answer: _one(JobView, answer))


def list_jobs(namespace: str | None, queue: str | None, after: str | None) -> Call[Page]:
    """Read a page of the jobs of a namespace (None: of all), of a queue (None: of all)."""
    wanted = (("namespace", namespace), ("queue", queue), ("continue", after))
    params = {key: value for key, value in wanted if value}
    return Call(Request("GET", "/v1/jobs", params), _page)


def command(namespace: str, name: str, verb: Command, wait: float | None) -> Call[Commanded]:
    """Suspend, resume or delete a job; ``wait`` up to so many seconds until that is done."""
    params = _waiting(wait)
    if verb == "delete":
        request = Request("DELETE", job_path(namespace, name), params)
        gone = Commanded(namespace=namespace, name=name, action=verb, phase="Deleted", done=True)
        return Call(request, _commanded, _patience(wait), absent=lambda: gone)
    request = Request("POST", f"{job_path(namespace, name)}:{verb}", params)
    return Call(request, _commanded, _patience(wait))


def events(namespace: str, name: str, last_id: str) -> Request:
    """Open the stream of a job's events after ``last_id`` (empty: from the first one)."""
    headers = {"accept": "text/event-stream", "cache-control": "no-store"}
    return Request(
        "GET",
        f"{job_path(namespace, name)}/events",
        headers={**headers, "last-event-id": last_id} if last_id else headers,
    )


def trace(namespace: str, name: str) -> Call[Trace]:
    """Read the spans of a job."""
    return Call(Request("GET", f"{job_path(namespace, name)}/trace"), lambda answer: _one(Trace, answer))


def queues() -> Call[tuple[QueueView, ...]]:
    """Read all queues."""
    return Call(Request("GET", "/v1/queues"), lambda answer: _many(QueueView, answer))


def command_queue(name: str, verb: QueueCommand, wait: float | None) -> Call[QueueCommanded]:
    """Open or close a queue; ``wait`` up to so many seconds until that is done."""
    request = Request("POST", f"/v1/queues/{quote(name, safe='')}:{verb}", _waiting(wait))
    return Call(request, lambda answer: _one(QueueCommanded, answer), _patience(wait))


def defragment(pool: str) -> Call[PoolCommanded]:
    """Have gangs of a node pool move for those that wait."""
    request = Request("POST", f"/v1/pools/{quote(pool, safe='')}:defragment")
    return Call(request, lambda answer: _one(PoolCommanded, answer))


def nodes() -> Call[tuple[NodeView, ...]]:
    """Read all nodes."""
    return Call(Request("GET", "/v1/nodes"), lambda answer: _many(NodeView, answer))


def job_path(namespace: str, name: str) -> str:
    """Return the path of a job."""
    return f"/v1/jobs/{quote(namespace, safe='')}/{quote(name, safe='')}"


def parse(text: str | bytes) -> Any:
    """Read JSON from the server."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ProtocolError("the answer is not JSON: is this the address of a Pumice gateway?") from error


def validate(model: type[M], value: object) -> M:
    """Read a value from the server as a model."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or model.__name__
        raise ProtocolError(f"the answer is not what this client knows: {where}: {first['msg']}") from error


def _one(model: type[M], answer: Answer) -> M:
    return validate(model, parse(answer.body))


def _many(model: type[M], answer: Answer) -> tuple[M, ...]:
    value = parse(answer.body)
    items = value.get("items") if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise ProtocolError("the answer is not a list")
    return tuple(validate(model, item) for item in items)


def _page(answer: Answer) -> Page:
    value = parse(answer.body)
    after = value.get("continue") if isinstance(value, dict) else None
    return Page(_many(JobView, answer), str(after) if after else None)


def _commanded(answer: Answer) -> Commanded:
    return _one(Commanded, answer)


def _waiting(wait: float | None) -> dict[str, str]:
    return {} if wait is None else {"wait": "true", "timeout": f"{wait:.3f}"}


def _patience(wait: float | None) -> float | None:
    return None if wait is None else wait + PATIENCE
