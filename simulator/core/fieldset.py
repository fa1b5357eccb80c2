"""Sets of field paths, as server-side apply keeps them (``fieldsV1``), and the shapes of fields.

A path is a tuple of elements: ``f:name`` a field, ``k:{"name":"c"}`` a list element by its keys, ``v:"x"`` an
element of a set. A list is *atomic* (one value), a *set* of scalars, or a *map* of objects by keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from simulator.types import Field

JSON = dict[str, Any]
Path = tuple[str, ...]
Paths = frozenset[Path]


class Shape(NamedTuple):
    """What a value is: how its fields are found, and how a list's elements are told apart."""

    child: Callable[[str], Shape]
    item: Callable[[], Shape]
    kind: str = "atomic"  # of a list: atomic, set or map
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = {}
    atomic: bool = False  # an object that is one value


_ATOMIC: Final = frozenset(
    {
        "meta/v1.LabelSelector",
        *(
            f"core/v1.{name}"
            for name in (
                "ConfigMapKeySelector",
                "FileKeySelector",
                "LocalObjectReference",
                "NodeSelector",
                "NodeSelectorTerm",
                "ObjectFieldSelector",
                "ObjectReference",
                "ResourceFieldSelector",
                "ScopedResourceSelectorRequirement",
                "SecretKeySelector",
                "SecretReference",
                "TopologySelectorTerm",
                "TypedLocalObjectReference",
            )
        ),
    }
)


def of_type(fields: Callable[[str], Mapping[str, Field]], name: str) -> Shape:
    """Return the shape of a built-in struct; selectors and references are one value."""

    def child(key: str) -> Shape:
        known = fields(name).get(key) if name else None
        return _of_field(fields, known) if known is not None else _UNKNOWN

    return Shape(child, _unknown_item, atomic=name in _ATOMIC)


def _of_field(fields: Callable[[str], Mapping[str, Field]], field: Field) -> Shape:
    inner = of_type(fields, field.inner if "." in field.inner else "")
    if field.type.startswith("map["):
        return Shape(lambda _key: inner, lambda: inner, atomic=field.atomic)
    kind = "map" if field.keys else "set" if field.is_set else "atomic"
    defaults = {"protocol": "TCP"} if "protocol" in field.keys else {}
    atomic = field.atomic or (inner.atomic and not field.type.startswith("[]"))
    return Shape(inner.child, lambda: inner, kind, field.keys, defaults, atomic)


def of_schema(schema: Mapping[str, Any]) -> Shape:
    """Return the shape that a custom resource's schema tells."""

    def child(key: str) -> Shape:
        if key == "metadata":
            return _METADATA
        known = (schema.get("properties") or {}).get(key)
        additional = schema.get("additionalProperties")
        return of_schema(known if known is not None else additional if isinstance(additional, dict) else {})

    items = schema.get("items") or {}
    defaults = {
        key: value["default"] for key, value in (items.get("properties") or {}).items() if "default" in value
    }
    return Shape(
        child,
        lambda: of_schema(items),
        schema.get("x-kubernetes-list-type") or "atomic",
        tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        defaults,
        schema.get("x-kubernetes-map-type") == "atomic",
    )


def _unknown_child(_key: str) -> Shape:
    return _UNKNOWN


def _metadata_child(key: str) -> Shape:
    if key == "ownerReferences":
        return Shape(_unknown_child, _unknown_item, "map", ("uid",))
    return Shape(_unknown_child, _unknown_item, "set" if key == "finalizers" else "atomic")


def _unknown_item() -> Shape:
    return _UNKNOWN


_UNKNOWN: Shape = Shape(_unknown_child, _unknown_item)
_METADATA = Shape(_metadata_child, _unknown_item)


def element(shape: Shape, one: Any) -> str:
    """Return the path element of a list's element."""
    if shape.kind == "set":
        return "v:" + orjson.dumps(one).decode()
    mark = {key: one.get(key, shape.defaults.get(key)) for key in shape.keys}
    return "k:" + orjson.dumps({k: v for k, v in sorted(mark.items()) if v is not None}).decode()


def leaves(
    shape: Shape, value: Any, path: Path = (), *, containers: bool = False
) -> Iterator[tuple[Path, Any]]:
    """Yield every path that a value sets, and to what. ``containers``: also maps that have fields."""
    if isinstance(value, dict) and value and not shape.atomic:
        if containers and path:
            yield path, None
        for key, one in value.items():
            yield from leaves(shape.child(key), one, (*path, f"f:{key}"), containers=containers)
    elif isinstance(value, list) and shape.kind != "atomic" and value:
        if containers:
            yield path, None
        for one in value:
            below = (*path, element(shape, one))
            if shape.kind == "set":
                yield below, one
            else:
                yield below, None
                yield from leaves(shape.item(), one, below)
    else:
        yield path, value


def pack(paths: Paths) -> JSON:
    """Return paths as ``fieldsV1``."""
    root: JSON = {}
    for path in sorted(paths):
        node = root
        for part in path:
            node = node.setdefault(part, {})
        node["."] = {}
    return _without_lone_dots(root)


def _without_lone_dots(node: JSON) -> JSON:
    if set(node) == {"."}:
        return {}
    return {key: {} if key == "." else _without_lone_dots(one) for key, one in node.items()}


def unpack(fields: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    """Yield the paths of a ``fieldsV1``."""
    for key, below in fields.items():
        if key == ".":
            yield path
        elif below:
            yield from unpack(below, (*path, key))
        else:
            yield (*path, key)


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Sort paths as conflicts list them: at each level what ends there before what goes deeper."""
    ends: list[Path] = []
    deeper: dict[str, list[Path]] = {}
    for path in sorted(paths):
        if len(path) == 1:
            ends.append(path)
        else:
            deeper.setdefault(path[0], []).append(path[1:])
    return ends + [(first, *rest) for first, below in deeper.items() for rest in in_order(below)]


def text(path: Path) -> str:
    """Write a path as conflicts show it: ``.spec.containers[name="c"].image``."""
    parts: list[str] = []
    for part in path:
        kind, _, rest = part.partition(":")
        if kind == "f":
            parts.append(f".{rest}")
        elif kind == "i":
            parts.append(f"[{rest}]")
        elif kind == "k":
            marks = ",".join(f"{key}={orjson.dumps(one).decode()}" for key, one in orjson.loads(rest).items())
            parts.append(f"[{marks}]")
        else:
            parts.append(f"[={rest}]")
    return "".join(parts)
