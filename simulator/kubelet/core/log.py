"""A container's log, as its program would have written it by now. Nothing of it is stored anywhere."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.kube.port import JSON
from simulator.kubelet.core.program import program_of
from simulator.kubelet.core.times import read_stamp


def container_log(
    pod: JSON, container: str, now: datetime, *, previous: bool = False
) -> list[tuple[datetime, str]]:
    """Return the lines of a container's current (or ``previous``) run, each with its time.

    Empty for a container that has not started. Raises KeyError for a name that the pod does not have.
    """
    spec, status = pod["spec"], pod.get("status") or {}
    init = {one["name"]: one for one in spec.get("initContainers") or ()}
    main = {one["name"]: one for one in spec["containers"]}
    program = program_of(pod, {**init, **main}[container], init=container in init)
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    state: JSON = next((one for one in statuses if one["name"] == container), {})
    states = state.get("lastState" if previous else "state") or {}
    if not previous and "waiting" in states:
        states = state.get("lastState") or {}
    run = states.get("running") or states.get("terminated") or {}
    if "startedAt" not in run:
        return []
    start = read_stamp(run["startedAt"])
    # Stamps are whole seconds: a line of the last second counts.
    until = read_stamp(run["finishedAt"]) + timedelta(seconds=1) if "finishedAt" in run else now
    lines = [(start + timedelta(seconds=at), text) for at, text in program.output]
    return [(time, text) for time, text in lines if time <= until]
