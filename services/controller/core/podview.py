"""Pods of a job, as far as the job's life depends on them, and whose an object is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.api import names
from shared.api.meta import controller_of, parse_time

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod of a job, as far as the job's life depends on it."""

    name: str
    uid: str
    task: str
    index: int
    generation: int
    phase: str
    node: str | None = None
    deleting: bool = False
    out_of_sync: bool = False
    """An order already chose this pod to be taken away."""
    exit_code: int | None = None
    restarts: int = 0
    started_at: datetime | None = None
    retry: int = 0
    """The job's count of retries when it was made."""
    ready: bool = False
    """All its containers say that they are ready."""
    created: str = ""
    """When it was made; this and the next two as the API server writes times."""
    ended: str = ""
    """When it ended by itself, as far as that is known."""
    restarted: str = ""
    """When a container ended last that was restarted."""
    taken: bool = False
    """Whether it is being deleted and had not ended when that was asked for."""

    @property
    def finished(self) -> bool:
        """Whether it has ended, by itself or because it was taken away."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def holds_room(self) -> bool:
        """Whether it takes room on a node."""
        return self.node is not None and not self.finished


def read_pod(raw: JSON) -> PodView:
    """Read a pod that some job owns."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    annotations = meta.get("annotations") or {}
    containers = status.get("containerStatuses") or []
    init = status.get("initContainerStatuses") or []
    terminated = ((containers[0].get("state") or {}).get("terminated") or {}) if containers else {}
    started = status.get("startTime")
    phase: str = status.get("phase") or "Pending"
    ended = phase in ("Succeeded", "Failed")
    restarts = sum(container.get("restartCount") or 0 for container in (*init, *containers))
    return PodView(
        name=meta["name"],
        uid=meta["uid"],
        task=annotations.get(names.TASK_SPEC) or (meta.get("labels") or {}).get(names.TASK_SPEC, ""),
        index=number(annotations.get(names.TASK_INDEX)),
        generation=number(annotations.get(names.JOB_VERSION)),
        phase=phase,
        node=spec.get("nodeName") or None,
        deleting=bool(meta.get("deletionTimestamp")),
        out_of_sync=annotations.get(names.CONTROLLER_OUT_OF_SYNC) == "true",
        exit_code=terminated.get("exitCode"),
        restarts=restarts,
        started_at=parse_time(started) if started else None,
        retry=number(annotations.get(names.JOB_RETRY_COUNT)),
        ready=phase == "Running" and all(one.get("ready", True) for one in containers),
        created=meta.get("creationTimestamp") or "",
        ended=_ended(status, terminated) if ended else "",
        restarted=_restarted((*init, *containers)) if restarts else "",
        taken=bool(meta.get("deletionTimestamp")) and (not ended or _has_grace(meta)),
    )


def _ended(status: JSON, terminated: JSON) -> str:
    """Return when a pod ended: as its first container says, else as the pod's conditions say."""
    finished: str = terminated.get("finishedAt") or ""
    changes = (one.get("lastTransitionTime") or "" for one in status.get("conditions") or ())
    return finished or max(changes, default="")


def _has_grace(meta: JSON) -> bool:
    """Whether a pod being deleted was given time to end: the API server gives none to one that has ended."""
    return bool(meta.get("deletionGracePeriodSeconds"))


def _restarted(containers: Sequence[JSON]) -> str:
    ends = (((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for one in containers)
    return max((end for end in ends if end), default="")


def owner_job(raw: JSON) -> tuple[str, str] | None:
    """Return name and UID of the Job that controls an object, if one does."""
    owner = controller_of(raw)
    if owner is None or owner.get("kind") != "Job" or "volcano.sh" not in owner.get("apiVersion", ""):
        return None
    return owner["name"], owner["uid"]


def number(text: str | None) -> int:
    """Return the number that an annotation holds; 0 when it holds none."""
    return int(text) if text and text.isdecimal() else 0
