"""NUMA nodes of machines and the CPUs that pods have of them, from the informers' stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from services.controller.adapters.views import Views
from services.controller.core.model import JSON
from services.controller.core.numa import (
    Numatopology,
    decided_cpus,
    held_cpus,
    is_there,
    numa_topology,
    told_pods,
)
from shared.api import names
from shared.api import resources as r
from shared.events.contracts import NumaCpus, NumaTopology
from shared.kube.port import Resource

Ref = tuple[Resource, str, str]
"""A kind, a namespace (empty for none) and a name."""
_READ: Final = "read"


class NumaViews:
    """Says what scheduling needs; costs nothing for nodes without a Numatopology."""

    def __init__(self, views: Views) -> None:
        self._views = views

    def problem(self, node: str) -> str:
        """Return why a node's Numatopology cannot be read; empty: it can, or there is none."""
        raw = self._views.get(r.NUMATOPOLOGIES, "", node)
        return "" if raw is None else raw["problem"]

    def of_node(self, node: str) -> NumaTopology | None:
        """Return a node's NUMA nodes, None where nobody tells of them."""
        read = self._read(node)
        if read is None:
            return None
        held = Counter[int]()
        for pod in () if read.pods or not read.taken else self._views.guaranteed_on(node):
            for one in decided_cpus(pod) if is_there(pod) else ():
                held[one.node] += one.cpus
        return numa_topology(read, held)

    def of_pod(self, pod: JSON) -> tuple[NumaCpus, ...]:
        """Return the CPUs that a pod has for itself."""
        node = (pod.get("spec") or {}).get("nodeName")
        return held_cpus(pod, self._read(node)) if node else ()

    def changed(self, resource: Resource, old: JSON | None, new: JSON | None) -> Iterator[Ref]:
        """Yield what is told otherwise when an object is another."""
        obj = new or old or {}
        if resource is r.NUMATOPOLOGIES:
            node = obj["metadata"]["name"]
            yield r.NODES, "", node
            changed = told_pods(*(None if one is None else one[_READ] for one in (old, new)))
            for pod in self._views.guaranteed_on(node) if changed else ():
                meta = pod["metadata"]
                if not changed.isdisjoint(((meta["uid"],), (meta["namespace"], meta["name"]))):
                    yield r.PODS, meta["namespace"], meta["name"]
        elif resource is r.PODS:
            yield from self._pod_changed(obj)

    def _pod_changed(self, pod: JSON) -> Iterable[Ref]:
        """Return the node whose exporter tells only how many CPUs are taken, and not by whom."""
        if names.TOPOLOGY_DECISION not in (pod["metadata"].get("annotations") or {}):
            return ()
        node = (pod.get("spec") or {}).get("nodeName")
        read = self._read(node) if node else None
        return [(r.NODES, "", node)] if node and read is not None and not read.pods else ()

    def _read(self, node: str) -> Numatopology | None:
        raw = self._views.get(r.NUMATOPOLOGIES, "", node)
        read: Numatopology | None = None if raw is None else raw[_READ]
        return read
