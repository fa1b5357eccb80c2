"""What CPUs by NUMA node promise, checked against the books alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shared.events import contracts as c

_ALIGNING = ("best-effort", "restricted", "single-numa-node")


class Having(NamedTuple):
    """A pod and the CPUs that it has for itself."""

    node: str
    shape: c.Shape
    cells: Mapping[int, int]
    new: bool
    """It was placed just now."""


def check_numa(pods: Iterable[Having], nodes: Mapping[str, c.NodeState]) -> None:
    """No NUMA node gives more CPUs than it has, and each new pod has those that it asks for, as it asks."""
    used: dict[tuple[str, int], int] = {}
    touched: set[tuple[str, int]] = set()
    for pod in pods:
        for number, cpus in pod.cells.items():
            used[pod.node, number] = used.get((pod.node, number), 0) + cpus
            if pod.new:
                touched.add((pod.node, number))
        if pod.new:
            _check_pod(pod, nodes[pod.node].numa)
    for name, number in touched:
        numa = nodes[name].numa
        usable = {} if numa is None else {one.number: one.usable for one in numa.nodes}
        assert used[name, number] <= usable[number], (name, number, used)


def _check_pod(pod: Having, numa: c.NumaTopology | None) -> None:
    asks = pod.shape.numa
    aligns = numa is not None and numa.cpu_manager == "static" and numa.policy in _ALIGNING
    if asks is None or not aligns or numa is None:
        assert not pod.cells, pod
        assert asks is None or not asks.policy, pod
        return
    assert asks.policy in ("", numa.policy), pod
    assert sum(pod.cells.values()) == sum(asks.cpus), pod
    if len(asks.cpus) == 1:
        most = 1 if numa.policy == "single-numa-node" else len(numa.nodes)
        if numa.policy == "restricted":
            largest, most = sorted((one.cpus for one in numa.nodes), reverse=True), 0
            while sum(largest[:most]) < asks.cpus[0]:
                most += 1
        assert len(pod.cells) <= most, pod
