"""What an extender is sent: pods and nodes in Volcano's JSON, that of its ``TaskInfo`` and ``NodeInfo``.

Amounts are Volcano's: CPU in thousandths, memory in bytes, every other resource in thousandths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from services.scheduler.core.model import Model
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.pods import Pod
from services.scheduler.core.resources import PODS
from shared.events.contracts import Gang, NodeTerm, Shape

_PENDING: Final = 1
_BOUND, _RUNNING = 16, 32


def task(question: str, shape: Shape) -> dict[str, Any]:
    """Return a pod of a shape. It has no name of its own: the question's stands for it."""
    requests = {name: amount for name, amount in shape.requests.items() if name != "pods"}
    amounts = _amounts(requests)
    return {
        "UID": question,
        "Name": question,
        "Namespace": "",
        "Resreq": amounts,
        "InitResreq": amounts,
        "Status": _PENDING,
        "Priority": shape.priority,
        "Preemptable": shape.preemptable,
        "BestEffort": not requests,
        "Pod": {
            "metadata": {"name": question, "labels": dict(shape.labels)},
            "spec": {
                "priority": shape.priority,
                "nodeSelector": dict(shape.node_selector),
                "tolerations": [one.model_dump(exclude={"toleration_seconds"}) for one in shape.tolerations],
                "affinity": _affinity(shape),
                "containers": [{"name": "main", "resources": {"requests": _quantities(requests)}}],
            },
        },
    }


def evictor(question: str, gang: Gang) -> dict[str, Any]:
    """Return the first pod of a gang for which others may be evicted."""
    first = gang.tasks[0]
    found = task(question, first.shape)
    name = first.members[0].pod if first.members else gang.name
    meta = {**found["Pod"]["metadata"], "name": name, "namespace": gang.namespace}
    return found | {
        "UID": f"{gang.uid}/{name}",
        "Job": f"{gang.namespace}/{gang.name}",
        "Name": name,
        "Namespace": gang.namespace,
        "TaskRole": first.name,
        "Priority": gang.priority,
        "Pod": {**found["Pod"], "metadata": meta},
    }


def evictee(model: Model, namespace: str, name: str, pod: Pod) -> dict[str, Any]:
    """Return a pod that may be evicted."""
    found = task(pod.uid, pod.shape.contract)
    meta = {**found["Pod"]["metadata"], "name": name, "namespace": namespace, "uid": pod.uid}
    return found | {
        "Job": "" if pod.gang is None else "/".join(pod.gang),
        "Name": name,
        "Namespace": namespace,
        "NodeName": model.nodes.names[pod.slot],
        "Status": _RUNNING if pod.phase == "Running" else _BOUND,
        "Priority": pod.rank,
        "Pod": {**found["Pod"], "metadata": meta},
    }


def node(nodes: Nodes, slot: int) -> dict[str, Any]:
    """Return a node, with what its pods hold now."""
    plain = _plain(nodes)
    has = {name: amount for column, name in plain if (amount := nodes.allocatable.item(column, slot))}
    used = {name: nodes.used.item(column, slot) for column, name in plain}
    taints = nodes.taint_sets[nodes.taint_code.item(slot)]
    idle = {name: amount - used[name] for name, amount in has.items()}
    quantities = {**_quantities(has), "pods": str(nodes.allocatable.item(PODS, slot))}
    return {
        "Name": nodes.names[slot],
        "Node": {
            "metadata": {"name": nodes.names[slot], "labels": dict(nodes.labels[slot])},
            "spec": {
                "unschedulable": bool(nodes.unschedulable[slot]),
                "taints": [{"key": key, "value": value, "effect": effect} for key, value, effect in taints],
            },
            "status": {"allocatable": quantities, "capacity": quantities},
        },
        "Allocatable": _amounts(has),
        "Capacity": _amounts(has),
        "Used": _amounts({name: amount for name, amount in used.items() if amount}),
        "Idle": _amounts(idle),
    }


def _plain(nodes: Nodes) -> list[tuple[int, str]]:
    """Return the columns of resources that Kubernetes has names for, but for the number of pods."""
    names = nodes.resources.names[: nodes.allocatable.shape[0]]
    return [(at, name) for at, name in enumerate(names) if at != PODS and nodes.resources.countable(at)]


def _amounts(amounts: Mapping[str, int]) -> dict[str, Any]:
    return {
        "MilliCPU": amounts.get("cpu", 0),
        "Memory": amounts.get("memory", 0),
        "ScalarResources": {
            name: 1000 * amount for name, amount in sorted(amounts.items()) if name not in ("cpu", "memory")
        },
    }


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in sorted(amounts.items())}


def _affinity(shape: Shape) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if shape.required_terms is not None:
        terms = {"nodeSelectorTerms": [_term(one) for one in shape.required_terms]}
        found["requiredDuringSchedulingIgnoredDuringExecution"] = terms
    if shape.preferred_terms:
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": one.weight, "preference": _term(one.term)} for one in shape.preferred_terms
        ]
    return {"nodeAffinity": found} if found else {}


def _term(term: NodeTerm) -> dict[str, Any]:
    parts = {"matchExpressions": term.expressions, "matchFields": term.fields}
    return {
        name: [{"key": one.key, "operator": one.operator, "values": list(one.values)} for one in some]
        for name, some in parts.items()
        if some
    }
