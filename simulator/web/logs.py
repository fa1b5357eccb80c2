"""The ``log`` subresource of pods."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from shared.clock import Clock
from simulator.core.errors import bad_request
from simulator.core.world import World
from simulator.logs import Line, PodLogs

JSON = dict[str, Any]


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
        lines = [line for line in lines if line.at >= since]
    if query.get("sinceTime"):
        moment = datetime.fromisoformat(query["sinceTime"])
        lines = [line for line in lines if line.at >= moment]
    if query.get("tailLines"):
        tail = int(query["tailLines"])
        lines = lines[-tail:] if tail else []
    return lines


async def pod_log(
    request: web.BaseRequest, pod: JSON, logs: PodLogs, clock: Clock, world: World
) -> web.StreamResponse:
    """Send what a container wrote; with ``follow`` until it ends."""
    query = request.query
    container = _container(pod, query.get("container", ""))
    _check_started(pod, container)
    uid = pod["metadata"]["uid"]
    stamps = query.get("timestamps") in ("true", "1")
    lines = _chosen(logs.read(uid, container), query, clock.now())
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    await response.write(_text(lines, stamps=stamps))
    seen = len(logs.read(uid, container))
    while query.get("follow") in ("true", "1") and _runs(world, pod, container):
        await clock.sleep(0.2)
        fresh = logs.read(uid, container)
        await response.write(_text(fresh[seen:], stamps=stamps))
        seen = len(fresh)
    await response.write(_text(logs.read(uid, container)[seen:], stamps=stamps))
    await response.write_eof()
    return response


def _text(lines: list[Line], *, stamps: bool) -> bytes:
    parts = []
    for line in lines:
        stamp = line.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ") if stamps else ""
        parts.append(f"{stamp}{line.text}\n")
    return "".join(parts).encode()


def _runs(world: World, pod: JSON, container: str) -> bool:
    meta = pod["metadata"]
    now = world.find("pods", meta["namespace"], meta["name"])
    if now is None or now["metadata"]["uid"] != meta["uid"]:
        return False
    if now.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return False
    statuses = now.get("status", {}).get("containerStatuses", ())
    return not any(one["name"] == container and "terminated" in (one.get("state") or {}) for one in statuses)
