"""The verb delete: preconditions, grace, finalizers, and what is asked for the dependents."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from simulator.core import admission
from simulator.core.entries import Entry
from simulator.core.errors import (
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_options,
    not_found,
    success,
    unsupported,
)
from simulator.core.kinds import Kind
from simulator.core.world import CLEANUP, CRDS, FOREGROUND, ORPHAN, Call, Steps, World

JSON = dict[str, Any]

_IMMORTAL: Final = ("default", "kube-system", "kube-public")
_ORPHANS: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set propagationPolicy=Orphan to suppress this warning"
)
_POLICIES: Final = ("Foreground", "Background", "Orphan", "nil")


def delete(
    world: World, kind: Kind, namespace: str, name: str, options: JSON, call: Call
) -> Steps[JSON | Entry]:
    """Delete an object, or mark it. Returns the object as it is now, or a Status when it is gone."""
    current = _find(world, kind, namespace, name)
    _check_options(options)
    _preconditions(kind, current, options)
    yield from admission.validate(world, kind, "DELETE", None, current.obj, call)
    current = _find(world, kind, namespace, name)
    _preconditions(kind, current, options)
    if kind.storage == "namespaces" and name in _IMMORTAL:
        raise forbidden(kind, name, "this namespace may not be deleted")
    grace = _grace(kind, current.obj, options)
    silent = not options.get("propagationPolicy") and options.get("orphanDependents") is None
    if silent and kind.strategy.orphans and kind.group == "batch":
        call.warnings.append(_ORPHANS)
    finalizers = _finalizers(kind, current.obj, options)
    waits = bool(finalizers) or grace > 0 or _namespace_waits(kind, current.obj)
    if not waits:
        last = _at_its_end(world, kind, current, call)
        return _answer(kind, last if call.dry_run else world.erase(kind, last))
    marked = _marked(kind, current.obj, finalizers, grace, call)
    if kind.storage == "namespaces":
        marked["status"] = {**marked.get("status", {}), "phase": "Terminating"}
    if kind.storage == CRDS and not current.obj["metadata"].get("deletionTimestamp"):
        marked["status"] = _terminating(marked["status"], call)
    if marked == current.obj:
        return current
    if call.dry_run:
        return Entry(marked, current.rv, current.namespace, current.name)
    return world.save(kind, marked, current.creator)


def _at_its_end(world: World, kind: Kind, current: Entry, call: Call) -> Entry:
    """Return what is to be taken out: of a pod a last version is stored, at the end of its grace."""
    if kind.storage != "pods":
        return current
    marked = _marked(kind, current.obj, [], 0, call)
    if call.dry_run:
        return Entry(marked, current.rv, current.namespace, current.name)
    return world.save(kind, marked, current.creator) if marked != current.obj else current


def _find(world: World, kind: Kind, namespace: str, name: str) -> Entry:
    entry = world.store.collection(kind.storage).get(namespace, name)
    if entry is None:
        raise not_found(kind, name)
    return entry


def _check_options(options: JSON) -> None:
    policy = options.get("propagationPolicy")
    if policy is not None and options.get("orphanDependents") is not None:
        raise invalid_options(
            "DeleteOptions",
            invalid(
                "propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"
            ),
        )
    if policy is not None and policy not in _POLICIES:
        raise invalid_options("DeleteOptions", unsupported("propagationPolicy", policy, _POLICIES))
    grace = options.get("gracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        found = "string" if isinstance(grace, str) else "bool" if isinstance(grace, bool) else "object"
        raise bad_request(
            f"json: cannot unmarshal {found} into Go struct field "
            "DeleteOptions.gracePeriodSeconds of type int64"
        )


def _preconditions(kind: Kind, current: Entry, options: JSON) -> None:
    wanted = options.get("preconditions") or {}
    meta = current.obj["metadata"]
    if wanted.get("uid") and wanted["uid"] != meta["uid"]:
        why = (
            f"the UID in the precondition ({wanted['uid']}) does not match the UID in record "
            f"({meta['uid']}). The object might have been deleted and then recreated"
        )
        raise conflict(kind, current.name, why, subject=kind.kind)
    version = wanted.get("resourceVersion")
    if version and version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in "
            f"record ({meta['resourceVersion']}). The object might have been modified"
        )
        raise conflict(kind, current.name, why, subject=kind.kind)


def _grace(kind: Kind, obj: JSON, options: JSON) -> int:
    """Return the seconds a pod may take; other kinds go at once. Unbound or finished pods do too."""
    if kind.storage != "pods":
        return 0
    asked = options.get("gracePeriodSeconds")
    grace = int(asked if asked is not None else obj["spec"].get("terminationGracePeriodSeconds", 30))
    if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    return 1 if grace < 0 else grace


def _finalizers(kind: Kind, obj: JSON, options: JSON) -> list[str]:
    """Return the finalizers after the wish for the dependents is written into them."""
    held: list[str] = list(obj["metadata"].get("finalizers") or ())
    if kind.storage == CRDS and CLEANUP not in held:
        held.append(CLEANUP)
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:  # keep what an earlier request asked for
        if not kind.strategy.orphans or FOREGROUND in held or ORPHAN in held:
            return held
        policy = "Orphan"
    rest = [finalizer for finalizer in held if finalizer not in (FOREGROUND, ORPHAN)]
    added = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    return rest + added


def _namespace_waits(kind: Kind, obj: JSON) -> bool:
    return kind.storage == "namespaces" and bool((obj.get("spec") or {}).get("finalizers"))


def _marked(kind: Kind, obj: JSON, finalizers: list[str], grace: int, call: Call) -> JSON:
    meta = dict(obj["metadata"])
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    if meta.get("deletionTimestamp"):
        before = meta.get("deletionGracePeriodSeconds", 0)
        if grace < before:
            meta["deletionTimestamp"] = _shift(meta["deletionTimestamp"], grace - before)
            meta["deletionGracePeriodSeconds"] = grace
    else:
        moment = call.now + timedelta(seconds=grace)
        meta["deletionTimestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        if kind.storage not in ("namespaces", CRDS):
            meta["deletionGracePeriodSeconds"] = grace
        if meta.get("generation") and kind.storage != CRDS:
            meta["generation"] += 1
    return {**obj, "metadata": meta}


def _terminating(status: JSON, call: Call) -> JSON:
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": call.stamp,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    return status | {"conditions": [*(status.get("conditions") or ()), condition]}


def _shift(stamp: str, seconds: int) -> str:
    from datetime import datetime

    return (datetime.fromisoformat(stamp) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _answer(kind: Kind, entry: Entry) -> JSON | Entry:
    if kind.strategy.returns_deleted:
        return entry
    details: JSON = {"name": entry.name}
    if kind.group:
        details["group"] = kind.group
    return success(details | {"kind": kind.plural, "uid": entry.obj["metadata"]["uid"]})
