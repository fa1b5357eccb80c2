"""Which resource, object and subresource a URL path names."""

# ruff: noqa: PLR2004 - parts of a path

from __future__ import annotations

from dataclasses import dataclass

from simulator.core.kinds import Kind, Registry


@dataclass(frozen=True, slots=True)
class Target:
    """A path below ``/api/v1`` or ``/apis/<group>/<version>``. ``name`` is empty for a collection."""

    kind: Kind
    namespace: str | None
    name: str
    subresource: str


def resolve(registry: Registry, path: str) -> Target | None:
    """Return what a path names, or None when nothing is served there."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if rest[0] == "watch" and len(rest) > 1:
        return None  # the deprecated watch paths
    namespace: str | None = None
    if (
        rest[0] == "namespaces"
        and len(rest) > 2
        and not (group == "" and len(rest) == 3 and rest[2] in ("status", "finalize"))
    ):
        namespace, rest = rest[1], rest[2:]
    kind = registry.find(group, version, rest[0])
    if kind is None or len(rest) > 3 or (namespace is not None and not kind.namespaced):
        return None
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if not kind.namespaced:
        namespace = ""
    elif name and namespace is None:
        return None
    return Target(kind, namespace, name, subresource)
