"""Tables: the columns that ``kubectl get`` prints, made by the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.core.kinds import Column, Kind

JSON = dict[str, Any]

_NAME = "Name must be unique within a namespace."


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
    if include == "Object":
        made["object"] = obj
    elif include != "None":
        made["object"] = metadata_of(obj)
    return made


def metadata_of(obj: JSON) -> JSON:
    """Return an object as PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def columns_of(kind: Kind) -> Sequence[Column]:
    """Return the columns of a kind: its name first."""
    if any(column.name == "Name" for column in kind.columns):  # events show their name last
        return kind.columns
    name = Column("Name", lambda obj, _now: obj["metadata"]["name"], "string", "name", _NAME)
    return (name, *kind.columns)


def table(kind: Kind, objects: Sequence[JSON], metadata: JSON, now: float, include: str) -> JSON:
    """Return a whole table."""
    columns = columns_of(kind)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions(columns),
        "rows": [row(columns, obj, now, include or "Metadata") for obj in objects],
    }
