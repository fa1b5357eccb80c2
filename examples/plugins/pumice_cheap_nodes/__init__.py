"""Cheap nodes first, dear ones for those that need them.

Nodes carry their price an hour in a label. Pods go to the cheapest node that has room; pods that ask for
no GPU stay off nodes dearer than ``limit``. In a queue, gangs that ask for less come first.

In the scheduler's configuration::

    - name: cheap-nodes
      onError: skip
      arguments:
        label: example.org/price
        weight: 2
        limit: 10
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shared.plugins import Bools, Floats, GangView, NodesView, Plugin, PodShape

GPU = "nvidia.com/gpu"


class CheapNodes(Plugin):
    """See the module."""

    # What pods use changes no price: a node that got a pod stays as good as it was.
    rising = True

    def __init__(self, arguments: Mapping[str, object]) -> None:
        """Read the arguments. A ValueError is shown to whoever wrote the configuration."""
        unknown = sorted(set(arguments) - {"label", "weight", "limit"})
        if unknown:
            raise ValueError(f"unknown argument {', '.join(unknown)}; known: label, weight, limit")
        self.label = str(arguments.get("label", "example.org/price"))
        self.weight = float(str(arguments.get("weight", 1)))
        self.limit = float(str(arguments.get("limit", "inf")))
        if self.weight < 0:
            raise ValueError("weight: must be 0 or more")

    def feasible(self, shape: PodShape, nodes: NodesView) -> Bools:
        """Keep pods without GPUs off dear nodes; nodes without a price are cheap."""
        if shape.requests.get(GPU):
            return np.ones(len(nodes), np.bool_)
        return nodes.numbers(self.label, 0.0) <= self.limit

    def scores(self, shape: PodShape, nodes: NodesView) -> Floats:
        """Give 100 points to a node that costs nothing, half of them to one that costs 1, and so on."""
        return self.weight * 100.0 / (1.0 + np.maximum(nodes.numbers(self.label, 0.0), 0.0))

    def order(self, gangs: Sequence[GangView]) -> Floats:
        """Let gangs that ask for few GPUs come first."""
        return np.array([gang.requests.get(GPU, 0) for gang in gangs], np.float64)
