"""PodGroups for pods that have none: what Volcano's podgroup controller makes of a pod and its owner.

One PodGroup for each controller (ReplicaSet, StatefulSet, batch Job, RayCluster, Spark driver …), or for a
bare pod. It is owned by what owns the pod, so that it goes along. Minimum and annotations come from the owner
where it is of a kind that carries them, the rest from the pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from services.controller.core.members import own_group
from services.controller.core.model import JSON
from services.controller.core.podgroups import quota_usage
from services.controller.core.status import merge_patch
from shared.api import names
from shared.api.meta import controller_of, format_time
from shared.api.pods import PodSpec
from shared.api.resources import WORKLOADS
from shared.api.scheduling import PodGroupPhase
from shared.kube.port import Resource

_OWNERS: Final = {(one.api_version, one.kind): one for one in WORKLOADS}
_NOT_INHERITED: Final = frozenset({names.JOB_VERSION})
_MOST_MEMBERS: Final = 2**31 - 1


def owner_of(pod: JSON) -> tuple[Resource, str] | None:
    """Return kind and name of the owner whose annotations count; None when there is none such."""
    owner = controller_of(pod)
    kind = None if owner is None else _OWNERS.get((owner.get("apiVersion", ""), owner.get("kind", "")))
    return None if owner is None or kind is None else (kind, owner["name"])


def make_podgroup(pod: JSON, owner: JSON | None, now: datetime) -> JSON:
    """Return the PodGroup of a pod. ``owner`` is the object that :func:`owner_of` names, if it was there.

    Raises ValueError for a pod whose requests cannot be read.
    """
    meta = pod["metadata"]
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": own_group(pod),
            "namespace": meta["namespace"],
            "labels": _volcanic(meta.get("labels")),
            "annotations": {
                **_volcanic(_annotations(owner)),
                **_volcanic(meta.get("annotations")),
                names.READY_SINCE: format_time(now, micro=True),
            },
            "ownerReferences": _owner_references(pod),
        },
        "spec": _spec(pod, owner),
        "status": {"phase": PodGroupPhase.PENDING.value},
    }


def changed_spec(group: JSON, pod: JSON, owner: JSON | None) -> JSON | None:
    """Return the patch that makes a PodGroup's spec what a newer pod and its owner say; None: it is."""
    patch = merge_patch(group.get("spec") or {}, _spec(pod, owner))
    # What the API server's defaults or others added is not ours to take away.
    kept = {key: value for key, value in (patch or {}).items() if value is not None}
    return {"spec": kept} if kept else None


def _spec(pod: JSON, owner: JSON | None) -> JSON:
    inherited, own = _annotations(owner), _annotations(pod)
    minimum = _minimum(inherited, own)
    spec = PodSpec.model_validate(pod.get("spec") or {})
    usage = {name: minimum * amount for name, amount in sorted(quota_usage(spec).items())}
    found: JSON = {
        "minMember": minimum,
        "minResources": {name: str(amount) for name, amount in usage.items()},
        "queue": own.get(names.GROUP_QUEUE_NAME) or inherited.get(names.GROUP_QUEUE_NAME),
        "priorityClassName": spec.priority_class_name,
        "networkTopology": _topology(own),
    }
    return {key: value for key, value in found.items() if value or value == 0}


def _minimum(*sources: Mapping[str, str]) -> int:
    """Return the first minimum that is given; what is no number, or below 0, means 1, as in Volcano."""
    for source in sources:
        text = source.get(names.GROUP_MIN_MEMBER)
        if text is not None:
            return int(text) if text.isdecimal() and int(text) <= _MOST_MEMBERS else 1
    return 1


def _topology(annotations: Mapping[str, str]) -> JSON | None:
    mode = annotations.get(names.NETWORK_TOPOLOGY_MODE)
    tier = annotations.get(names.NETWORK_TOPOLOGY_HIGHEST_TIER)
    if mode is None and tier is None:
        return None
    asked = (mode or "").lower()
    found: JSON = {"mode": asked if asked in ("hard", "soft") else "hard"}
    if tier is not None and tier.isdecimal():
        found["highestTierAllowed"] = int(tier)
    return found


def _annotations(obj: JSON | None) -> Mapping[str, str]:
    return {} if obj is None else obj["metadata"].get("annotations") or {}


def _volcanic(values: Mapping[str, str] | None) -> dict[str, str]:
    return {
        key: value
        for key, value in (values or {}).items()
        if key.startswith(names.VOLCANO) and key not in _NOT_INHERITED
    }


def _owner_references(pod: JSON) -> list[JSON]:
    """Return the pod's owners, or the pod; none is kept from going until the PodGroup is gone."""
    meta = pod["metadata"]
    if controller_of(pod) is None:
        return [
            {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
        ]
    return [
        {key: value for key, value in one.items() if key != "blockOwnerDeletion"}
        for one in meta["ownerReferences"]
    ]
