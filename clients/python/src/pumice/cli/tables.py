"""Which columns a list has. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pumice.models import JobView, Model, NodeView, QueueView
from pumice.render.table import Table
from pumice.render.text import age, amount, amounts, pods, why

Cell = Callable[[Any, datetime], str]
Columns = tuple[tuple[str, Cell], ...]


def _position(job: JobView, _: datetime) -> str:
    return "" if job.position is None or job.started else str(job.position)


def _nodes(job: JobView, _: datetime) -> str:
    return ",".join(sorted({one.node for one in job.place if one.node}))


def _gpus(node: NodeView, _: datetime) -> str:
    """Return allocated and whole amounts of what has a slash in its name: GPUs and their like."""
    scarce = sorted(name for name in node.allocatable if "/" in name)
    return " ".join(f"{name.rpartition('/')[2]}={_used(node, name)}" for name in scarce)


def _state(node: NodeView, _: datetime) -> str:
    return ("Ready" if node.ready else "NotReady") + (",SchedulingDisabled" if node.unschedulable else "")


def _used(node: NodeView, resource: str) -> str:
    used, whole = node.allocated.get(resource, 0), node.allocatable.get(resource, 0)
    return f"{amount(resource, used)}/{amount(resource, whole)}"


_JOB: Final[Columns] = (
    ("NAME", lambda job, _: job.name),
    ("QUEUE", lambda job, _: job.queue),
    ("PHASE", lambda job, _: job.phase),
    ("PODS", lambda job, _: pods(job)),
    ("MIN", lambda job, _: str(job.min_available)),
    ("POS", _position),
    ("AGE", lambda job, now: age(job.created_at or job.submitted_at, now)),
)
_JOB_WIDE: Final[Columns] = (
    ("PRIORITY", lambda job, _: job.priority_class),
    ("REQUESTS", lambda job, _: amounts(job.requests)),
    ("RETRIES", lambda job, _: str(job.retry_count)),
    ("NODES", _nodes),
    ("REASON", lambda job, _: why(job)),
)
_QUEUE: Final[Columns] = (
    ("NAME", lambda queue, _: queue.name),
    ("PARENT", lambda queue, _: queue.parent),
    ("STATE", lambda queue, _: queue.state),
    ("WEIGHT", lambda queue, _: "" if queue.weight is None else str(queue.weight)),
    ("PENDING", lambda queue, _: str(queue.jobs.get("Pending", 0))),
    ("RUNNING", lambda queue, _: str(queue.jobs.get("Running", 0))),
    ("PODS", lambda queue, _: str(queue.pods)),
    ("ALLOCATED", lambda queue, _: amounts(queue.allocated)),
)
_QUEUE_WIDE: Final[Columns] = (
    ("PRIORITY", lambda queue, _: str(queue.priority)),
    ("CAPABILITY", lambda queue, _: amounts(queue.capability)),
    ("DESERVED", lambda queue, _: amounts(queue.deserved)),
    ("GUARANTEE", lambda queue, _: amounts(queue.guarantee)),
)
_NODE: Final[Columns] = (
    ("NAME", lambda node, _: node.name),
    ("STATE", _state),
    ("DEVICES", _gpus),
    ("CPU", lambda node, _: _used(node, "cpu")),
    ("MEMORY", lambda node, _: _used(node, "memory")),
    ("PODS", lambda node, _: str(node.pods)),
)
_NODE_WIDE: Final[Columns] = (
    ("POOL", lambda node, _: node.pool),
    ("FREE", lambda node, _: amounts(node.free)),
    ("LABELS", lambda node, _: ",".join(f"{key}={value}" for key, value in sorted(node.labels.items()))),
)
_COLUMNS: Final[dict[type[Model], tuple[Columns, Columns]]] = {
    JobView: (_JOB, _JOB_WIDE),
    QueueView: (_QUEUE, _QUEUE_WIDE),
    NodeView: (_NODE, _NODE_WIDE),
}


def table_of(things: Sequence[Model], now: datetime, *, wide: bool, namespaced: bool) -> Table:
    """Return a table of things of one kind; ``namespaced`` puts the namespace in front."""
    columns, more = _COLUMNS[type(things[0])]
    if namespaced:
        columns = (("NAMESPACE", lambda job, _: job.namespace), *columns)
    if wide:
        columns = (*columns, *more)
    rows = tuple(tuple(cell(thing, now) for _, cell in columns) for thing in things)
    return Table(tuple(title for title, _ in columns), rows)


def changed(before: Model | None, after: Model) -> bool:
    """Whether a table's row would say something new; its age does not count."""
    if before is None:
        return True
    moment = datetime.max.replace(tzinfo=UTC)
    columns = [*_COLUMNS[type(after)][0], *_COLUMNS[type(after)][1]]
    return any(cell(before, moment) != cell(after, moment) for title, cell in columns if title != "AGE")
