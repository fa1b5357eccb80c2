"""Takes a pod over: a new one from its spec, one that ran before from the statuses that were written."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from shared.kube.port import JSON
from simulator.kubelet.core.pod import ContainerRun, Ended, PodRun
from simulator.kubelet.core.program import program_of
from simulator.kubelet.core.times import read_stamp

TERMINAL: Final = frozenset({"Succeeded", "Failed"})


def was_admitted(pod: JSON) -> bool:
    """Say whether a kubelet took this pod before (this one's predecessor)."""
    return "startTime" in (pod.get("status") or {})


def is_terminal(pod: JSON) -> bool:
    """Say whether the pod has come to its end."""
    return (pod.get("status") or {}).get("phase") in TERMINAL


def pod_run(pod: JSON, now: datetime, delay_seconds: float = 0.0) -> PodRun:
    """Return the pod's run: containers that run go on, those that ended stay so, others begin."""
    spec, status = pod["spec"], pod.get("status") or {}
    admitted = read_stamp(status["startTime"]) if "startTime" in status else now
    policy = spec.get("restartPolicy") or "Always"
    run = PodRun(
        admitted=admitted,
        begin=_sandbox_time(status) or now + timedelta(seconds=delay_seconds),
        containers=[_container(pod, container, policy) for container in spec["containers"]],
        init=[_init_container(pod, container, policy) for container in spec.get("initContainers") or ()],
    )
    if spec.get("activeDeadlineSeconds"):
        run.deadline = admitted + timedelta(seconds=spec["activeDeadlineSeconds"])
    if "startTime" in status:
        _restore(run.containers, status.get("containerStatuses"))
        _restore(run.init, status.get("initContainerStatuses"))
    return run


def _sandbox_time(status: JSON) -> datetime | None:
    """Return since when the pod's first container could start, if that was so before."""
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodReadyToStartContainers" and condition["status"] == "True":
            return read_stamp(condition["lastTransitionTime"])
    return None


def _container(pod: JSON, container: JSON, policy: str) -> ContainerRun:
    return ContainerRun(container["name"], container.get("image", ""), program_of(pod, container), policy)


def _init_container(pod: JSON, container: JSON, policy: str) -> ContainerRun:
    is_sidecar = container.get("restartPolicy") == "Always"
    return ContainerRun(
        container["name"],
        container.get("image", ""),
        program_of(pod, container, init=True),
        "Always" if is_sidecar else "Never" if policy == "Never" else "OnFailure",
        is_sidecar=is_sidecar,
    )


def _restore(containers: list[ContainerRun], statuses: list[JSON] | None) -> None:
    written = {status["name"]: status for status in statuses or ()}
    for container in containers:
        status = written.get(container.name)
        if status is None:
            continue
        state = status.get("state") or {}
        container.restarts = status.get("restartCount", 0)
        container.quick_ends = container.restarts
        before = (status.get("lastState") or {}).get("terminated")
        container.last = _ended(before) if before else None
        if "running" in state:
            container.started = read_stamp(state["running"]["startedAt"])
        else:
            container.quick_ends += container.last is not None
        if "terminated" in state:
            container.last = _ended(state["terminated"])
            failed = container.last.exit_code != 0
            container.done = not (
                container.policy == "Always" or (container.policy == "OnFailure" and failed)
            )
            container.quick_ends = container.restarts + 1


def _ended(terminated: JSON) -> Ended:
    finished = read_stamp(terminated["finishedAt"])
    started = terminated.get("startedAt")
    return Ended(read_stamp(started) if started else finished, finished, terminated.get("exitCode", 0))
