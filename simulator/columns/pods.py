"""The columns of pods, with the status that ``kubectl get`` sums up."""

from __future__ import annotations

from typing import Any, Final

from simulator.columns.cells import AGE, NONE, at, field, since, text

JSON = dict[str, Any]


_NODE_LOST: Final = "NodeLost"


def _pod_restarts(obj: JSON, now: float) -> str:
    statuses = [*(at(obj, "status", "containerStatuses") or ())]
    statuses += [s for s in at(obj, "status", "initContainerStatuses") or () if _is_sidecar(obj, s["name"])]
    total = sum(one.get("restartCount", 0) for one in statuses)
    ends = [at(one, "lastState", "terminated", "finishedAt") for one in statuses]
    last = max((end for end in ends if end), default=None)
    return f"{total} ({since(last, now)} ago)" if total and last else str(total)


def _is_sidecar(obj: JSON, name: str) -> bool:
    """Say whether an init container is a sidecar."""
    found = (c for c in obj["spec"].get("initContainers") or () if c["name"] == name)
    return any(container.get("restartPolicy") == "Always" for container in found)


def _pod_ready(obj: JSON, _now: float) -> str:
    sidecars = [
        c["name"] for c in obj["spec"].get("initContainers") or () if c.get("restartPolicy") == "Always"
    ]
    total = len(obj["spec"].get("containers") or ()) + len(sidecars)
    ready = sum(
        1
        for one in at(obj, "status", "containerStatuses") or ()
        if one.get("ready") and "running" in (one.get("state") or {})
    )
    ready += sum(
        1
        for one in at(obj, "status", "initContainerStatuses") or ()
        if one["name"] in sidecars and one.get("ready")
    )
    return f"{ready}/{total}"


def _ended(prefix: str, terminated: JSON) -> str:
    if terminated.get("reason"):
        return f"{prefix}{terminated['reason']}"
    if terminated.get("signal"):
        return f"{prefix}Signal:{terminated['signal']}"
    return f"{prefix}ExitCode:{terminated.get('exitCode', 0)}"


def _init_reason(obj: JSON) -> str:
    statuses = at(obj, "status", "initContainerStatuses") or ()
    for number, one in enumerate(statuses):
        state = one.get("state") or {}
        if at(state, "terminated") is not None and state["terminated"].get("exitCode", 0) == 0:
            continue
        if _is_sidecar(obj, one["name"]) and one.get("started"):
            continue
        if "terminated" in state:
            return _ended("Init:", state["terminated"])
        waiting = at(state, "waiting", "reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{number}/{len(obj['spec'].get('initContainers') or ())}"
    return ""


def _pod_status(obj: JSON, _now: float) -> str:
    status = obj.get("status") or {}
    reason: str = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    init = _init_reason(obj)
    reason = init or _container_reason(status, reason)
    if obj["metadata"].get("deletionTimestamp"):
        if status.get("reason") == _NODE_LOST:
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return reason


def _container_reason(status: JSON, reason: str) -> str:
    running = False
    for one in reversed(status.get("containerStatuses") or ()):
        state = one.get("state") or {}
        if at(state, "waiting", "reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            reason = _ended("", state["terminated"])
        elif one.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        return "Running" if _is_ready(status) else "NotReady"
    return reason


def _is_ready(status: JSON) -> bool:
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())


def _pod_gates(obj: JSON, _now: float) -> str:
    gates = obj["spec"].get("readinessGates") or ()
    if not gates:
        return NONE
    held = {c["type"] for c in at(obj, "status", "conditions") or () if c.get("status") == "True"}
    return f"{sum(1 for gate in gates if gate['conditionType'] in held)}/{len(gates)}"


PODS: Final = (
    text("Ready", _pod_ready),
    text("Status", _pod_status),
    text("Restarts", _pod_restarts),
    AGE,
    text("IP", field("status", "podIP", default=NONE), 1),
    text("Node", field("spec", "nodeName", default=NONE), 1),
    text("Nominated Node", field("status", "nominatedNodeName", default=NONE), 1),
    text("Readiness Gates", _pod_gates, 1),
)
