"""Hypernodes from the labels of nodes, as Volcano's ``label`` discovery makes them.

A network type is a list of labels from the widest group to the narrowest, with the host's own label at its
end: ``[hypercluster, hypernode, kubernetes.io/hostname]`` makes hypernodes of tier 1 from equal values of
``hypernode`` and of tier 2 from those of ``hypercluster``. Volcano ends their names with five random
characters; here these come from the label's value, and a hypernode that Volcano made keeps its name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from services.workflows.core.model import JSON
from shared.api import names
from shared.api.topology import API_VERSION, KIND, MemberType

SOURCE: Final = "label"
CONFIG_KEY: Final = "volcano-controller.conf"
_MAX_TYPE: Final = 20
_LEAST_LABELS: Final = 2
_FOREIGN: Final = re.compile(r"[^a-z0-9.-]")


@dataclass(frozen=True, slots=True)
class Config:
    """The network types by name, each with its labels from tier 1 upwards, and what was wrong with others."""

    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    problems: tuple[str, ...] = ()
    enabled: bool = False

    @property
    def labels(self) -> frozenset[str]:
        """Every label that matters."""
        return frozenset(label for labels in self.types.values() for label in labels)


def read_config(config_map: JSON | None) -> Config:
    """Read the ConfigMap of Volcano's controllers; one that is absent discovers nothing."""
    text = ((config_map or {}).get("data") or {}).get(CONFIG_KEY)
    if not text:
        return Config()
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        return Config(problems=(f"{CONFIG_KEY}: {' '.join(str(error).split())}",))
    sources = content.get("networkTopologyDiscovery") if isinstance(content, dict) else None
    if not isinstance(sources, list):
        return Config()
    ours = [one for one in sources if isinstance(one, dict) and one.get("source") == SOURCE]
    if not any(one.get("enabled") is True for one in ours):
        return Config()
    own = next(one for one in ours if one.get("enabled") is True)
    types = (own.get("config") or {}).get("networkTopologyTypes") or {}
    if not isinstance(types, dict):
        return Config(problems=("networkTopologyTypes: not a mapping",), enabled=True)
    read: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for name, entries in types.items():
        try:
            read[str(name)] = _labels(str(name), entries)
        except ValueError as error:
            problems.append(f"networkTopologyTypes.{name}: {error}")
    return Config(read, tuple(problems), enabled=True)


def _labels(name: str, entries: Any) -> tuple[str, ...]:
    if len(name) > _MAX_TYPE:
        raise ValueError(f"the name has {len(name)} characters, {_MAX_TYPE} are allowed")
    if not isinstance(entries, list) or not all(
        isinstance(one, dict) and isinstance(one.get("nodeLabel"), str) for one in entries
    ):
        raise ValueError("not a list of nodeLabel entries")
    labels = [one["nodeLabel"] for one in entries]
    if len(set(labels)) < len(labels):
        raise ValueError("a label comes twice")
    if len(labels) < _LEAST_LABELS:
        raise ValueError("at least a group's label and the host's own are needed")
    return tuple(reversed(labels[:-1]))


def discover(
    config: Config, nodes: Iterable[tuple[str, Mapping[str, str]]], existing: Iterable[JSON]
) -> dict[str, JSON]:
    """Return the hypernodes that the nodes' labels describe, by name. A chain ends at a missing label."""
    named = _Names(existing)
    members: dict[tuple[str, int, str], set[str]] = {}
    for node, labels in nodes:
        for kind, chain in config.types.items():
            member = node
            for tier, label in enumerate(chain, 1):
                value = labels.get(label)
                if not value:
                    break
                members.setdefault((kind, tier, value), set()).add(member)
                member = named.of(kind, tier, label, value)
    return {
        (name := named.of(kind, tier, config.types[kind][tier - 1], value)): _hypernode(
            name, tier, config.types[kind][tier - 1], value, sorted(found)
        )
        for (kind, tier, value), found in members.items()
    }


class _Names:
    """Names of hypernodes: those that exist for a label, else made from it."""

    def __init__(self, existing: Iterable[JSON]) -> None:
        self._existing = [(one["metadata"]["name"], one["metadata"].get("labels") or {}) for one in existing]
        self._known: dict[tuple[str, int, str, str], str] = {}

    def of(self, kind: str, tier: int, label: str, value: str) -> str:
        key = (kind, tier, label, value)
        if key not in self._known:
            prefix = f"hypernode-{_FOREIGN.sub('-', kind.lower())}-tier{tier}"
            kept = [
                name
                for name, labels in self._existing
                if labels.get(label) == value and name.startswith(f"{prefix}-")
            ]
            digest = hashlib.sha256(f"{label}={value}".encode()).hexdigest()[:10]
            self._known[key] = min(kept, default=f"{prefix}-{digest}")
        return self._known[key]


def _hypernode(name: str, tier: int, label: str, value: str, members: list[str]) -> JSON:
    kind = MemberType.NODE if tier == 1 else MemberType.HYPER_NODE
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "labels": {names.NETWORK_TOPOLOGY_SOURCE: SOURCE, label: value}},
        "spec": {
            "tier": tier,
            "tierName": label,
            "members": [{"type": kind.value, "selector": {"exactMatch": {"name": one}}} for one in members],
        },
    }


@dataclass(frozen=True, slots=True)
class Changes:
    """What must be written so that the discovered hypernodes are those that exist."""

    creates: tuple[JSON, ...]
    updates: tuple[tuple[str, JSON], ...]
    """Name and merge patch."""
    deletes: tuple[str, ...]


def changes(wanted: Mapping[str, JSON], existing: Mapping[str, JSON]) -> Changes:
    """Compare what was discovered with the hypernodes of this source; others' are never touched."""
    updates: list[tuple[str, JSON]] = []
    for name, hypernode in wanted.items():
        if (old := existing.get(name)) is None:
            continue
        labels = old["metadata"].get("labels") or {}
        missing = {k: v for k, v in hypernode["metadata"]["labels"].items() if labels.get(k) != v}
        patch: JSON = {"metadata": {"labels": missing}} if missing else {}
        if old.get("spec") != hypernode["spec"]:
            patch["spec"] = hypernode["spec"]
        if patch:
            updates.append((name, patch))
    return Changes(
        creates=tuple(hypernode for name, hypernode in wanted.items() if name not in existing),
        updates=tuple(updates),
        deletes=tuple(sorted(existing.keys() - wanted.keys())),
    )
