"""Tables: the columns that ``kubectl get`` prints, made by the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from simulator.core.errors import bad_request
from simulator.core.kinds import Column, Kind

JSON = dict[str, Any]

_NAME = "Name must be unique within a namespace."
_ENDED: Final[dict[str, JSON]] = {  # kubectl hides such rows where it is asked to
    "Succeeded": {
        "type": "Completed",
        "status": "True",
        "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    },
    "Failed": {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."},
}


def definitions(columns: Sequence[Column]) -> list[JSON]:
    """Return the headers."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format or ("name" if column.name == "Name" else ""),
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns
    ]


def row(columns: Sequence[Column], obj: JSON, now: float, include: str = "Metadata") -> JSON:
    """Return the row of one object. ``include`` is None, Metadata or Object."""
    made: JSON = {"cells": [column.cell(obj, now) for column in columns]}
    if phase := _ENDED.get((obj.get("status") or {}).get("phase", "")) if obj.get("kind") == "Pod" else None:
        made["conditions"] = [phase]
    made["object"] = obj if include == "Object" else None if include == "None" else metadata_of(obj)
    return made


def metadata_of(obj: JSON) -> JSON:
    """Return an object as PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def columns_of(kind: Kind) -> Sequence[Column]:
    """Return the columns of a kind: its name first."""
    if any(column.name == "Name" for column in kind.columns):  # events show their name last
        return kind.columns
    name = Column("Name", lambda obj, _now: obj["metadata"].get("name", ""), "string", "name", _NAME)
    return (name, *kind.columns)


def table(kind: Kind, objects: Sequence[JSON], metadata: JSON, now: float, include: str) -> JSON:
    """Return a whole table."""
    if include not in ("", "Metadata", "Object", "None"):
        words = "must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": {words}'
        )
    columns = columns_of(kind)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions(columns),
        "rows": [row(columns, obj, now, include or "Metadata") for obj in objects],
    }
