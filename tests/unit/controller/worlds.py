"""Worlds for the job controller's pure core: a job, its pods and podgroup at one moment."""

from __future__ import annotations

from datetime import UTC, datetime

from services.controller.core import podgroups
from services.controller.core.model import Priorities, read_group, read_job
from services.controller.core.plans import World
from services.controller.core.podview import PodView
from services.controller.core.status import Condition, Status
from shared.api.batch import JobPhase
from tests.unit.controller.conftest import job

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def wanted(**spec):
    """1 master and 3 workers, unless ``tasks`` says otherwise."""
    body = job(**spec)
    body["metadata"] |= {"uid": "u-1", "creationTimestamp": "2026-03-01T11:00:00Z", "generation": 1}
    return read_job(body)


def task(name, replicas=1, **more):
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"name": name, "replicas": replicas, "template": template, **more}


def pod(name, phase="Running", **more) -> PodView:
    """``worker-1`` is the second pod of the task ``worker``; on a node unless told otherwise."""
    task, _, index = name.rpartition("-")
    values = {
        "name": f"train-{name}",
        "uid": f"uid-{name}",
        "task": task,
        "index": int(index),
        "generation": 0,
        "phase": phase,
        "node": "n",
        "ready": phase == "Running",
        "created": "2026-03-01T11:00:00Z",
        "ended": "2026-03-01T11:59:00Z" if phase in ("Succeeded", "Failed") else "",
    }
    return PodView(**(values | more))


def pods(one, phase="Running", **more) -> tuple[PodView, ...]:
    """Return a pod for each member."""
    return tuple(pod(f"{t.name}-{index}", phase, **more) for t, index in one.members().values())


def status(phase="Running", generation=0, retries=0, **more) -> Status:
    at = "2026-03-01T11:30:00Z"
    return Status(
        phase=JobPhase(phase),
        since=at,
        generation=generation,
        retries=retries,
        conditions=(Condition(phase, at),),
        **more,
    )


def group(one, phase="Running", generation=0, scale=None):
    body = podgroups.make_podgroup(one, generation, Priorities(), NOW)
    body["metadata"] |= {"uid": "g-1", "creationTimestamp": "2026-03-01T11:00:00Z"}
    body["status"]["phase"] = phase
    if scale is not None:
        body["metadata"]["annotations"]["pumice.dev/scale"] = scale
    return read_group(body)


def world(one=None, members=None, state=None, *, of="Running", **more) -> World:
    """A settled world; ``of`` is the PodGroup's phase, empty for none."""
    one = one or wanted()
    state = state or status()
    members = pods(one, generation=state.generation) if members is None else tuple(members)
    found = group(one, of, state.generation) if of else None
    return World(wanted=one, status=state, group=found, pods=members, **more)
