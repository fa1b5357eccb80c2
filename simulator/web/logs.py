"""The ``log`` subresource of pods: what their containers would have written by now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiohttp import web

from shared.clock import Clock
from simulator.core.errors import bad_request
from simulator.core.world import World
from simulator.kubelet.core.log import container_log

JSON = dict[str, Any]
Line = tuple[datetime, str]
_FOLLOW_SECONDS: Final = 0.2


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


def _chosen(lines: list[Line], query: Any, now: datetime) -> list[Line]:
    if query.get("sinceSeconds"):
        since = now - timedelta(seconds=int(query["sinceSeconds"]))
        lines = [line for line in lines if line[0] >= since]
    if query.get("sinceTime"):
        moment = datetime.fromisoformat(query["sinceTime"])
        lines = [line for line in lines if line[0] >= moment]
    if query.get("tailLines"):
        tail = int(query["tailLines"])
        lines = lines[-tail:] if tail else []
    return lines


async def pod_log(request: web.BaseRequest, pod: JSON, clock: Clock, world: World) -> web.StreamResponse:
    """Send what a container wrote; with ``follow`` until it ends."""
    query = request.query
    container = _container(pod, query.get("container", ""))
    _check_started(pod, container)
    stamps = query.get("timestamps") in ("true", "1")
    previous = query.get("previous") in ("true", "1")
    follow = query.get("follow") in ("true", "1")

    def written() -> list[Line]:
        return container_log(_latest(world, pod), container, clock.now(), previous=previous)

    lines = written()
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    await response.write(_text(_chosen(lines, query, clock.now()), stamps=stamps))
    while follow:
        follow = _runs(_latest(world, pod), container)
        fresh = written()
        await response.write(_text(fresh[len(lines) :], stamps=stamps))
        lines = fresh
        if follow:
            await clock.sleep(_FOLLOW_SECONDS)
    await response.write_eof()
    return response


def _latest(world: World, pod: JSON) -> JSON:
    """Return the pod as it is now, or as it last was when it is gone."""
    meta = pod["metadata"]
    now = world.find("pods", meta["namespace"], meta["name"])
    return now if now is not None and now["metadata"]["uid"] == meta["uid"] else _gone(pod)


def _gone(pod: JSON) -> JSON:
    return {**pod, "status": {**pod.get("status", {}), "phase": "Failed"}}


def _text(lines: list[Line], *, stamps: bool) -> bytes:
    parts = []
    for at, text in lines:
        stamp = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ") if stamps else ""
        parts.append(f"{stamp}{text}\n")
    return "".join(parts).encode()


def _runs(pod: JSON, container: str) -> bool:
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return False
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return not any(one["name"] == container and "terminated" in (one.get("state") or {}) for one in statuses)
