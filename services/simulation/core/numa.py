"""NUMA nodes of a scenario's machines: what Numatopologies of the scenario tell."""

from __future__ import annotations

from services.controller.core.numa import Numatopology, held_cpus, numa_topology, read_numatopology
from services.simulation.core.store import Store
from shared.api import resources as r
from shared.api.base import JSON
from shared.events.contracts import NodeState, NumaCpus, Shape


class NumaNodes:
    """What each object says. No exporter changes one: CPUs that are taken from the beginning stay so."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[JSON, Numatopology]] = {}
        """By node: the object, and it as read."""

    def of_node(self, state: NodeState) -> NodeState:
        """Return a node's fact with its NUMA nodes."""
        read = self._read(state.name)
        return state if read is None else state.model_copy(update={"numa": numa_topology(read, {})})

    def of_pod(self, pod: JSON, shape: Shape) -> tuple[NumaCpus, ...]:
        """Return the CPUs that a pod has for itself."""
        node = pod["spec"].get("nodeName")
        return held_cpus(pod, self._read(node)) if node and shape.numa is not None else ()

    def _read(self, node: str) -> Numatopology | None:
        raw = self._store.get(r.NUMATOPOLOGIES, ("", node))
        if raw is None:
            return None
        known = self._known.get(node)
        if known is None or known[0] is not raw:
            known = self._known[node] = (raw, read_numatopology(raw))
        return known[1]
