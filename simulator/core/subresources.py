"""Subresources that are more than a part of their object: binding, eviction, scale, reviews."""

from __future__ import annotations

from typing import Any

from simulator.core import admission
from simulator.core.delete import delete
from simulator.core.entries import Entry
from simulator.core.errors import (
    StatusError,
    bad_request,
    conflict,
    internal,
    invalid,
    invalid_object,
    no_resource,
    required,
    success,
    unsupported,
)
from simulator.core.kinds import Kind, Scale
from simulator.core.read import get
from simulator.core.world import Call, Steps, World
from simulator.core.write import mismatch, replace, uid_mismatch

JSON = dict[str, Any]


def bind(world: World, kind: Kind, namespace: str, name: str, body: Any, call: Call) -> Steps[JSON]:
    """Set a pod's node, once. Raises StatusError 404, 409, 422."""
    if not isinstance(body, dict):
        raise bad_request("a binding must be an object")
    meta = body.get("metadata") or {}
    if meta.get("name") != name:
        raise bad_request("name in URL does not match name in Binding object")
    target = body.get("target") or {}
    _check_target(target)
    yield from admission.validate(world, kind, "CREATE", body, None, call, "binding")
    current = get(world, kind, namespace, name)
    pod = current.obj
    held = pod["metadata"]
    subject = "pods/binding"
    if meta.get("uid") and meta["uid"] != held["uid"]:
        raise uid_mismatch(kind, current, meta["uid"])
    version = meta.get("resourceVersion")
    if version and version != held["resourceVersion"]:
        raise mismatch(kind, current, "ResourceVersion", version, held["resourceVersion"])
    if held.get("deletionTimestamp"):
        raise conflict(
            kind, name, f"pod {name} is being deleted, cannot be assigned to a host", subject=subject
        )
    if pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise conflict(kind, name, why, subject=subject)
    if pod["spec"].get("schedulingGates"):
        raise conflict(kind, name, f"pod {name} has non-empty .spec.schedulingGates", subject=subject)
    if not call.dry_run:
        world.save(kind, _bound(pod, target["name"], meta, call), current.creator)
    return success(code=201)


def _check_target(target: JSON) -> None:
    causes = []
    if target.get("kind", "Node") not in ("Node", ""):
        causes.append(unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        causes.append(required("target.name"))
    if len(causes) == 1:
        raise internal(causes[0].text())
    if causes:
        raise internal("[" + ", ".join(cause.text() for cause in causes) + "]")


def _bound(pod: JSON, node: str, binding: JSON, call: Call) -> JSON:
    meta = dict(pod["metadata"])
    for part in ("annotations", "labels"):
        if binding.get(part):
            meta[part] = {**(meta.get(part) or {}), **binding[part]}
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": call.stamp,
    }
    others = [c for c in pod["status"].get("conditions") or () if c["type"] != "PodScheduled"]
    status = pod["status"] | {"conditions": [*others, condition]}
    return pod | {"metadata": meta, "spec": pod["spec"] | {"nodeName": node}, "status": status}


def evict(world: World, kind: Kind, namespace: str, name: str, body: Any, call: Call) -> Steps[JSON]:
    """Delete a pod as an eviction asks; disruption budgets are not kept here."""
    eviction = body if isinstance(body, dict) else {}
    if (eviction.get("metadata") or {}).get("name") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = eviction.get("deleteOptions") or {}
    call.dry_run = call.dry_run or bool(options.get("dryRun"))
    current = get(world, kind, namespace, name)
    uid = (options.get("preconditions") or {}).get("uid")
    if not call.dry_run and uid in (None, current.obj["metadata"]["uid"]):
        told = _disrupted(current.obj, call)
        if told is not current.obj:
            world.save(kind, told, current.creator)
    yield from delete(world, kind, namespace, name, options, call)
    return success(code=201)


def _disrupted(pod: JSON, call: Call) -> JSON:
    """Say in a pod's status why it goes."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": call.stamp,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    held = pod["status"].get("conditions") or ()
    if any(one | {"lastTransitionTime": call.stamp} == condition for one in held):
        return pod
    others = [one for one in held if one["type"] != condition["type"]]
    return pod | {"status": pod["status"] | {"conditions": [*others, condition]}}


def scale_of(kind: Kind, obj: JSON) -> JSON:
    """Return the scale subresource of an object."""
    scale_ = _scale(kind)
    meta = obj["metadata"]
    shown = {
        key: meta[key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in meta
    }
    scale: JSON = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown}
    scale["spec"] = {"replicas": count} if (count := _at(obj, scale_.spec)) else {}
    scale["status"] = {"replicas": _at(obj, scale_.status) or 0}
    selector = _selector(kind, obj)
    if selector:
        scale["status"]["selector"] = selector
    return scale


def _scale(kind: Kind) -> Scale:
    if kind.scale is None:
        raise no_resource()
    return kind.scale


def _selector(kind: Kind, obj: JSON) -> str:
    path = _scale(kind).selector
    if path:
        return str(_at(obj, path) or "")
    labels = ((obj.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _at(obj: JSON, path: str) -> Any:
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def rescale(world: World, kind: Kind, namespace: str, name: str, scale: Any, call: Call) -> Steps[JSON]:
    """Set the number of replicas. Raises StatusError."""
    current = get(world, kind, namespace, name)
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version and version != current.obj["metadata"]["resourceVersion"]:
        raise conflict(kind, name)
    count = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(count, int) or (count < 0 and kind.builtin):
        cause = invalid("spec.replicas", count, "must be greater than or equal to 0")
        raise invalid_object(Kind("autoscaling", "v1", "scales", "Scale"), name, [cause])
    changed, _ = kind.decode(_with(current.obj, _scale(kind).spec.strip(".").split("."), count))
    entry: Entry = yield from replace(world, kind, current, changed, call)
    return scale_of(kind, entry.obj)


def _with(obj: JSON, path: list[str], value: object) -> JSON:
    first, *rest = path
    return obj | {first: _with(obj.get(first) or {}, rest, value) if rest else value}


def review(kind: str, api_version: str, body: Any) -> JSON:
    """Answer an access review: everything is allowed here."""
    if not isinstance(body, dict):
        raise StatusError(400, "BadRequest", "a review must be an object")
    answer = {"kind": kind, "apiVersion": api_version, "metadata": {}, "spec": body.get("spec") or {}}
    if kind == "SelfSubjectRulesReview":
        every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        urls = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        return answer | {
            "status": {"resourceRules": [every], "nonResourceRules": [urls], "incomplete": False}
        }
    if kind == "SelfSubjectReview":
        return answer | {
            "status": {
                "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]}
            }
        }
    return answer | {"status": {"allowed": True}}
