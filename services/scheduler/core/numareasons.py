"""Why pods that have CPUs for themselves find no room, in numbers."""

from __future__ import annotations

from collections import Counter

import numpy as np

from services.scheduler.core.columns import IntArray, SlotArray
from services.scheduler.core.model import Model
from services.scheduler.core.shapes import Shape
from shared.events.contracts import Reason


def no_such_numa_nodes(model: Model, shape: Shape, slots: SlotArray) -> Reason:
    """No node would give a pod its CPUs even if nothing were used."""
    most = model.numa.most_free(slots, empty=True)
    return Reason(
        code="pod-too-large",
        message=f"needs {_asked(shape)}; even empty, no node has them so: the most that pods can have of one "
        f"NUMA node is {most}",
        numbers={"resource": "numa", "needed": sum(shape.aligned), "nodes": int(slots.size), "most": most},
        next_step="ask for fewer CPUs in each container, or by a policy that does with several NUMA nodes",
    )


def cpus_taken(
    model: Model, shape: Shape, need: int, slots: SlotArray, all_nodes: int, others: int
) -> Reason | None:
    """Too few NUMA nodes have so many CPUs free; None where it is no more nodes than lack something else.

    ``others``: how many nodes have enough of what else is scarce.
    """
    holding = int((model.numa.fits(shape.aligned, slots) > 0).sum())
    if holding > others or (holding == others and not _binds(model, shape, slots)):
        return None
    fits, most = model.index(shape).total, model.numa.most_free(slots)
    return Reason(
        code="no-room",
        message=f"needs {_asked(shape)}, on one node for each of {need} pods: {fits} fit now; {holding} of "
        f"{all_nodes} nodes have them free so, and the most that is free of one NUMA node is {most}",
        numbers={
            "resource": "numa",
            "needed": need,
            "fits": fits,
            "nodes": all_nodes,
            "nodesWithRoom": holding,
            "most": most,
        },
        next_step="wait for running jobs to end, or ask for fewer CPUs in each container",
    )


def not_aligning(model: Model, policy: str, where: SlotArray) -> str:
    """Say what keeps nodes from aligning pods by a policy, and of how many it is true."""
    found: Counter[str] = Counter()
    for slot in where.tolist():
        told = model.nodes.numa.told.get(slot)
        if told is None:
            found["no Numatopology"] += 1
        elif told.cpu_manager != "static":
            found[f"CPU manager policy {told.cpu_manager or 'none'}"] += 1
        else:
            found[f"topology manager policy {told.policy or 'none'}"] += 1
    why = ", ".join(f"{count} with {what}" for what, count in found.most_common(3))
    return f"do not align pods by NUMA policy {policy} ({why})"


def _binds(model: Model, shape: Shape, slots: SlotArray) -> bool:
    """Whether fewer pods fit on some node by its NUMA nodes than by amounts."""
    nodes = model.nodes
    rooms = [(nodes.allocatable[c][slots] - nodes.used[c][slots]) // amount for c, amount in shape.limited]
    fits: IntArray = np.maximum(np.minimum.reduce(rooms), 0)
    return bool((model.numa.fits(shape.aligned, slots, most=fits) < fits).any())


def _asked(shape: Shape) -> str:
    """Say which CPUs a pod has for itself, and how they must lie."""
    counts = [f"{count} CPU{'' if count == 1 else 's'}" for count in shape.aligned]
    whose = "for itself" if len(counts) == 1 else "for its containers alone"
    policy = shape.rules.numa_policy
    how = f"by NUMA policy {policy}" if policy else "by the NUMA policy of the node"
    return f"{' and '.join(counts)} {whose}, {how}"
