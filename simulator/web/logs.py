"""The ``log`` subresource of pods: the checks that the API server makes before it asks the kubelet."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from shared.clock import Clock
from simulator.core.errors import bad_request
from simulator.core.world import World
from simulator.kubelet.logs import send_log

JSON = dict[str, Any]


async def pod_log(request: web.BaseRequest, pod: JSON, clock: Clock, world: World) -> web.StreamResponse:
    """Send what a container wrote; with ``follow`` until it ends."""
    container = _container(pod, request.query.get("container", ""))
    _check_started(pod, container)

    async def latest() -> JSON:
        return _latest(world, pod)

    return await send_log(request, container, latest, clock)


def _container(pod: JSON, wanted: str) -> str:
    spec = pod["spec"]
    names = [one["name"] for one in spec.get("containers", ())]
    every = [*(one["name"] for one in spec.get("initContainers", ())), *names]
    name = pod["metadata"]["name"]
    if wanted:
        if wanted not in every:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(names) != 1:
        raise bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
        )
    return str(names[0])


def _check_started(pod: JSON, container: str) -> None:
    name = pod["metadata"]["name"]
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {name} does not have a host assigned")
    status = pod.get("status", {})
    every = [*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())]
    found = next((one for one in every if one["name"] == container), None)
    if found is not None and "waiting" in (found.get("state") or {}):
        reason = found["state"]["waiting"].get("reason", "ContainerCreating")
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')


def _latest(world: World, pod: JSON) -> JSON:
    """Return the pod as it is now, or as it last was when it is gone."""
    meta = pod["metadata"]
    now = world.find("pods", meta["namespace"], meta["name"])
    return now if now is not None and now["metadata"]["uid"] == meta["uid"] else _gone(pod)


def _gone(pod: JSON) -> JSON:
    return {**pod, "status": {**pod.get("status", {}), "phase": "Failed"}}
