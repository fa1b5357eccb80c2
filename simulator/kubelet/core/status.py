"""What a kubelet writes into a pod's status. Fields, reasons and messages are the real kubelet's."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Final

from shared.kube.port import JSON
from simulator.kubelet.core.pod import ContainerRun, Ended, PodRun
from simulator.kubelet.core.times import stamp

OVERDUE_REASON: Final = "DeadlineExceeded"
OVERDUE_MESSAGE: Final = "Pod was active on the node longer than the specified deadline"
_START_ERROR: Final = 128


def pod_status(
    run: PodRun, uid: str, host_ip: str, pod_ip: str, *, is_scheduled: bool, is_first: bool
) -> JSON:
    """Return the status of a pod that was admitted, for a strategic merge patch.

    ``is_scheduled``: the API server wrote PodScheduled itself, when it bound the pod. ``is_first``: no status
    was written before, so there are no words to take back.
    """
    status: JSON = {
        "phase": run.phase,
        "conditions": _conditions(run, is_scheduled, is_first),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": stamp(run.admitted),
        "containerStatuses": [_container_status(c, run, uid) for c in run.containers],
    }
    if run.init:
        status["initContainerStatuses"] = [_container_status(c, run, uid) for c in run.init]
    if run.is_overdue:
        status |= {"reason": OVERDUE_REASON, "message": OVERDUE_MESSAGE}
    return status


def rejected_status(reason: str, message: str, now: datetime) -> JSON:
    """Return the status of a pod which the node does not take (rejectPod)."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": stamp(now),
    }


def _container_status(container: ContainerRun, run: PodRun, uid: str) -> JSON:
    is_running = container.started is not None
    status: JSON = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "state": _state(container, run, uid),
        "lastState": {},
        "ready": is_running or (container in run.init and container.succeeded),
        "started": is_running,
        "restartCount": container.restarts,
    }
    if container.starts:
        number = container.starts - 1
        status["containerID"] = _container_id(uid, container.name, number)
        status["imageID"] = f"{container.image}@sha256:{sha256(container.image.encode()).hexdigest()}"
    if container.last is not None and "terminated" not in status["state"]:
        before = container.starts - (2 if is_running else 1)
        status["lastState"] = _terminated(container, container.last, uid, before)
    return status


def _state(container: ContainerRun, run: PodRun, uid: str) -> JSON:
    if container.started is not None:
        return {"running": {"startedAt": stamp(container.started)}}
    if container.last is not None and container.done:
        return _terminated(container, container.last, uid, container.starts - 1)
    if container.last is not None:
        message = f"back-off restarting failed container {container.name}"
        return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    return {"waiting": {"reason": "PodInitializing" if run.init else "ContainerCreating"}}


def _terminated(container: ContainerRun, ended: Ended, uid: str, number: int) -> JSON:
    terminated: JSON = {
        "exitCode": ended.exit_code,
        "reason": "Completed" if ended.exit_code == 0 else "Error",
        "startedAt": stamp(ended.started),
        "finishedAt": stamp(ended.finished),
        "containerID": _container_id(uid, container.name, number),
    }
    if container.program.failure and ended.exit_code == _START_ERROR:
        terminated |= {"reason": "StartError", "message": container.program.failure}
    return {"terminated": terminated}


def _container_id(uid: str, name: str, number: int) -> str:
    return "containerd://" + sha256(f"{uid}/{name}/{number}".encode()).hexdigest()


def _conditions(run: PodRun, is_scheduled: bool, is_first: bool) -> list[JSON]:
    """Return the conditions, each with the time of its true transition: writing twice changes nothing."""
    unready = [c.name for c in run.containers if c.started is None]
    ready_since = max((c.started for c in run.containers if c.started), default=run.begin)
    unready_since = max((c.last.finished for c in run.containers if c.last), default=run.admitted)
    has_begun = any(c.starts for c in (*run.init, *run.containers))
    has_sandbox = _condition("PodReadyToStartContainers", "True", run.begin)
    if run.ended is not None or not has_begun:
        has_sandbox = _condition("PodReadyToStartContainers", "False", run.ended or run.admitted)
    conditions = [has_sandbox, _initialized(run)]
    for kind in ("Ready", "ContainersReady"):
        if not unready:
            conditions.append(_condition(kind, "True", ready_since))
        elif run.ended is not None:
            reason = "PodCompleted" if run.phase == "Succeeded" else "PodFailed"
            conditions.append(_condition(kind, "False", unready_since, reason))
        else:
            message = f"containers with unready status: [{' '.join(unready)}]"
            conditions.append(_condition(kind, "False", unready_since, "ContainersNotReady", message))
    if not is_scheduled:
        conditions.append(_condition("PodScheduled", "True", run.admitted))
    if is_first:
        return [{k: v for k, v in condition.items() if v is not None} for condition in conditions]
    return conditions


def _initialized(run: PodRun) -> JSON:
    incomplete = [c.name for c in run.init if not (c.succeeded or (c.is_sidecar and c.starts))]
    if incomplete:
        message = f"containers with incomplete status: [{' '.join(incomplete)}]"
        return _condition("Initialized", "False", run.admitted, "ContainersNotInitialized", message)
    reason = "PodCompleted" if run.phase == "Succeeded" else None
    return _condition("Initialized", "True", run.initialized or run.begin, reason)


def _condition(
    kind: str, status: str, since: datetime, reason: str | None = None, message: str | None = None
) -> JSON:
    """Return a condition; a null takes away what an earlier status said."""
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": stamp(since),
        "reason": reason,
        "message": message,
    }
