"""Reads lists of nodes and pods with GPUs that are shared, as Alibaba published them.

A bad row is a problem with its line's number, and left out; a file that is no such list is an error.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from shared.errors import ConfigurationError
from shared.events.contracts import Device, DeviceRequest, NodeState, NodeTerm, Requirement, Shape

MODEL: Final = "gpu-model"
"""Label of a node: what its GPUs are."""
WHOLE: Final = 1000
_MIB: Final = 1 << 20
_NODE: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_Row = dict[str, str]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Pod:
    """What a pod asks for. ``gpu``: thousandths in all."""

    shape: Shape
    gpu: int


def read_nodes(path: Path) -> tuple[list[NodeState], list[str]]:
    """Return the nodes of a list, and the problems of its rows. Raises ConfigurationError."""
    seen: set[str] = set()

    def node(row: _Row) -> NodeState:
        made = _node(row)
        if made.name in seen:
            raise ValueError(f"the second node {made.name}")
        seen.add(made.name)
        return made

    return _read(path, _NODE, node)


def read_pods(path: Path) -> tuple[list[Pod], list[str]]:
    """Return the pods of a list (equal ones share their shape), and the problems of its rows.

    Raises ConfigurationError.
    """
    shapes: dict[str, Shape] = {}

    def pod(row: _Row) -> Pod:
        made = _pod(row)
        return Pod(shapes.setdefault(made.shape.model_dump_json(), made.shape), made.gpu)

    return _read(path, _POD, pod)


def _read(path: Path, columns: Iterable[str], make: Callable[[_Row], _Item]) -> tuple[list[_Item], list[str]]:
    try:
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = text.decode().splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    reader = csv.DictReader(lines)
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise ConfigurationError(f"{path}: has no column {', '.join(missing)}")
    found: list[_Item] = []
    problems: list[str] = []
    try:
        for row in reader:
            try:
                found.append(make(row))
            except ValueError as error:
                problems.append(f"{path}: line {reader.line_num}: {error}")
    except csv.Error as error:
        raise ConfigurationError(f"{path}: line {reader.line_num}: {error}") from error
    if not found:
        raise ConfigurationError("\n".join((f"{path}: has no row that can be read", *problems)))
    return found, problems


def _number(row: _Row, name: str, most: int = 1 << 40) -> int:
    text = (row.get(name) or "").strip()
    if not (text.isascii() and text.isdigit() and int(text) <= most):
        raise ValueError(f"{name} is {text!r}, not a whole number from 0 to {most}")
    return int(text)


def _node(row: _Row) -> NodeState:
    if not row["sn"]:
        raise ValueError("sn is empty")
    model = row["model"] or ""
    return NodeState(
        name=row["sn"],
        labels={MODEL: model},
        allocatable={"cpu": _number(row, "cpu_milli"), "memory": _number(row, "memory_mib") * _MIB},
        devices=(Device(model=model),) * _number(row, "gpu", 64),
    )


def _pod(row: _Row) -> Pod:
    count, milli = _number(row, "num_gpu", 64), _number(row, "gpu_milli", WHOLE)
    if count > 1 and milli != WHOLE:
        raise ValueError(f"gpu_milli is {milli}: a pod with {count} GPUs has them whole")
    if count == 1 and not milli:
        raise ValueError("gpu_milli is 0, num_gpu 1")
    models = tuple(model for model in (row.get("gpu_spec") or "").split("|") if model)
    term = NodeTerm(expressions=(Requirement(key=MODEL, operator="In", values=models),))
    shape = Shape(
        requests={"cpu": _number(row, "cpu_milli"), "memory": _number(row, "memory_mib") * _MIB},
        devices=DeviceRequest(count=count, cores=milli) if count else None,
        required_terms=(term,) if models and count else None,
    )
    return Pod(shape, count * milli)
