"""What the decisions need to know of a job, and what they ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from shared.api import names
from shared.api.batch import API_VERSION, KIND, JobPhase
from shared.api.meta import KubeObject, controller_of, parse_time

JSON = dict[str, Any]
FINISHED: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})
"""Phases that a job does not leave; an aborted one can be resumed."""


@dataclass(frozen=True, slots=True)
class Note:
    """A Kubernetes event to be written: each is told once, until another look has nothing to tell."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as its object has it."""

    namespace: str
    name: str
    uid: str
    phase: str
    """Empty as long as the controller has not seen it."""
    created_at: datetime
    changed_at: datetime | None
    """When the phase was entered."""
    owner_uid: str
    """UID of the object that controls it; empty: none."""
    annotations: Mapping[str, str]
    minimums: Mapping[str, int]
    """The least number of pods by task; at least one."""
    counts: Mapping[str, Mapping[str, int]]
    """Pods by task and phase."""
    status: JSON = field(compare=False)
    deleting: bool = False
    finalizers: bool = False

    @property
    def finished(self) -> bool:
        """Whether it has ended for good."""
        return self.phase in FINISHED


def read_job(raw: JSON) -> JobView:
    """Read a job's object."""
    meta, status = raw["metadata"], raw.get("status") or {}
    state = status.get("state") or {}
    counts = status.get("taskStatusCount") or {}
    owner = controller_of(raw)
    return JobView(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta.get("uid") or "",
        phase=state.get("phase") or "",
        created_at=parse_time(meta["creationTimestamp"]),
        changed_at=parse_time(state["lastTransitionTime"]) if state.get("lastTransitionTime") else None,
        owner_uid=owner["uid"] if owner else "",
        annotations=meta.get("annotations") or {},
        minimums=dict(_minimums((raw.get("spec") or {}).get("tasks") or ())),
        counts={task: (count or {}).get("phase") or {} for task, count in counts.items()},
        status=status,
        deleting=bool(meta.get("deletionTimestamp")),
        finalizers=bool(meta.get("finalizers")),
    )


def _minimums(tasks: Iterable[JSON]) -> Iterator[tuple[str, int]]:
    for index, task in enumerate(tasks):
        least = task.get("minAvailable")
        if least is None:
            least = task.get("replicas") or 0
        yield task.get("name") or names.default_task_name(index), max(1, least)


def new_job(
    owner: KubeObject,
    kind: str,
    api_version: str,
    *,
    name: str,
    spec: JSON,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> JSON:
    """Return a job that is controlled by ``owner`` and goes with it."""
    reference = {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata: JSON = {"name": name, "namespace": owner.metadata.namespace, "ownerReferences": [reference]}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def difference(old: Any, new: JSON) -> JSON:
    """Return the merge patch that makes ``new`` of ``old``; empty when there is nothing to do.

    A list that is absent is an empty one.
    """
    before: JSON = old if isinstance(old, dict) else {}
    patch: JSON = {key: None for key, value in before.items() if key not in new and value is not None}
    for key, value in new.items():
        stored = before.get(key)
        if isinstance(value, dict) and isinstance(stored, dict):
            if inner := difference(stored, value):
                patch[key] = inner
        elif stored != value and not (stored is None and value == []):
            patch[key] = value
    return patch
