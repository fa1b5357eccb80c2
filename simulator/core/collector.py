"""What controllers do after a write: garbage collection by owners, emptying of namespaces.

Works through the queues of :class:`~simulator.core.world.World`, a bounded number of objects a step.
"""

from __future__ import annotations

from typing import Any

from simulator.core.delete import delete
from simulator.core.entries import Entry
from simulator.core.errors import StatusError
from simulator.core.kinds import Kind
from simulator.core.world import CLEANUP, CRDS, FOREGROUND, ORPHAN, Call, Steps, World
from simulator.core.write import replace

JSON = dict[str, Any]
Key = tuple[str, str, str]


def collect(world: World, call: Call, budget: int = 200) -> Steps[bool]:
    """Do a bounded part of the work that is due. Returns whether more is due."""
    while budget > 0 and (world.gone or world.suspects):
        if world.gone:
            uid = world.gone.popleft()
            for key in world.store.dependents(uid):
                budget -= 1
                yield from _orphaned(world, key, call)
        else:
            key = next(iter(world.suspects))
            del world.suspects[key]
            budget -= yield from _suspect(world, key, call)
    return bool(world.gone or world.suspects)


def _suspect(world: World, key: Key, call: Call) -> Steps[int]:
    entry = world.store.collection(key[0]).get(key[1], key[2])
    kind = world.registry.stored(key[0])
    if entry is None or kind is None:
        return 1
    meta = entry.obj["metadata"]
    if meta.get("deletionTimestamp"):
        if key[0] == "namespaces":
            return (yield from _empty(world, kind, entry, call))
        if key[0] == CRDS:
            return (yield from _undefine(world, kind, entry, call))
        if ORPHAN in (meta.get("finalizers") or ()):
            return (yield from _release(world, kind, entry, call))
        if FOREGROUND in (meta.get("finalizers") or ()):
            return (yield from _foreground(world, kind, entry, call))
    yield from _orphaned(world, key, call)
    return 1


def _held(world: World, dependent: Entry, reference: JSON) -> bool:
    """Say whether an owner is there: same UID, and in the dependent's namespace or in none."""
    owner = world.store.uids.get(reference["uid"])
    return owner is not None and owner[1] in ("", dependent.namespace)


def _orphaned(world: World, key: Key, call: Call) -> Steps[None]:
    """Delete an object all of whose owners are gone; else take the references to gone owners off."""
    entry = world.store.collection(key[0]).get(key[1], key[2])
    kind = world.registry.stored(key[0])
    if entry is None or kind is None:
        return
    references = entry.obj["metadata"].get("ownerReferences") or []
    solid = [reference for reference in references if _held(world, entry, reference)]
    if not references or len(solid) == len(references):
        return
    if solid:
        yield from _rewrite(world, kind, entry, {"ownerReferences": solid}, call)
        return
    finalizers = entry.obj["metadata"].get("finalizers") or ()
    policy = "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
    yield from _delete(world, kind, entry, policy, call)


def _delete(world: World, kind: Kind, entry: Entry, policy: str | None, call: Call) -> Steps[None]:
    options: JSON = {"preconditions": {"uid": entry.obj["metadata"]["uid"]}}
    if policy:
        options["propagationPolicy"] = policy
    try:
        yield from delete(world, kind, entry.namespace, entry.name, options, call)
    except (
        StatusError
    ):  # a webhook refuses, or somebody was faster: the real collector retries, then gives up
        return


def _rewrite(world: World, kind: Kind, entry: Entry, changes: JSON, call: Call) -> Steps[None]:
    meta = {k: v for k, v in (entry.obj["metadata"] | changes).items() if v not in ([], None)}
    try:
        yield from replace(world, kind, entry, {**entry.obj, "metadata": meta}, call)
    except StatusError:
        return


def _without(entry: Entry, finalizer: str) -> JSON:
    return {"finalizers": [f for f in entry.obj["metadata"].get("finalizers") or () if f != finalizer]}


def _release(world: World, kind: Kind, entry: Entry, call: Call) -> Steps[int]:
    """Orphan: dependents lose their reference, then the owner goes."""
    uid = entry.obj["metadata"]["uid"]
    done = 1
    for key in world.store.dependents(uid):
        done += 1
        dependent = world.store.collection(key[0]).get(key[1], key[2])
        dependent_kind = world.registry.stored(key[0])
        if dependent is not None and dependent_kind is not None:
            rest = [r for r in dependent.obj["metadata"]["ownerReferences"] if r["uid"] != uid]
            yield from _rewrite(world, dependent_kind, dependent, {"ownerReferences": rest}, call)
    yield from _rewrite(world, kind, entry, _without(entry, ORPHAN), call)
    return done


def _foreground(world: World, kind: Kind, entry: Entry, call: Call) -> Steps[int]:
    """Foreground: dependents go first; the owner waits for those that block it."""
    uid = entry.obj["metadata"]["uid"]
    blocked = False
    done = 1
    for key in world.store.dependents(uid):
        done += 1
        dependent = world.store.collection(key[0]).get(key[1], key[2])
        dependent_kind = world.registry.stored(key[0])
        if dependent is None or dependent_kind is None:
            continue
        meta = dependent.obj["metadata"]
        if not meta.get("deletionTimestamp"):
            others = [r for r in meta["ownerReferences"] if r["uid"] != uid and _held(world, dependent, r)]
            if others:
                yield from _rewrite(world, dependent_kind, dependent, {"ownerReferences": others}, call)
                continue
            policy = "Foreground" if world.store.dependents(meta["uid"]) else "Background"
            yield from _delete(world, dependent_kind, dependent, policy, call)
        left = world.store.collection(key[0]).get(key[1], key[2])
        if left is not None:
            references = left.obj["metadata"].get("ownerReferences") or ()
            blocked = blocked or any(r["uid"] == uid and r.get("blockOwnerDeletion") for r in references)
    if not blocked:
        yield from _rewrite(world, kind, entry, _without(entry, FOREGROUND), call)
    return done


def _empty(world: World, kind: Kind, entry: Entry, call: Call) -> Steps[int]:
    """Delete everything in a namespace that is going; let it go when it is empty."""
    done = 1
    if entry.name not in world.swept:
        done += yield from _sweep(world, entry.name, call)
    left = any(collection.spaces.get(entry.name) for collection in world.store.collections())
    current = world.store.collection("namespaces").get("", entry.name)
    if not left and current is not None:
        finalize_namespace(world, kind, current)
    return done


def _sweep(world: World, namespace: str, call: Call) -> Steps[int]:
    """Delete what is in a namespace, once: nothing new comes while it goes."""
    done = 0
    refused = False
    for collection in world.store.collections():
        kind = world.registry.stored(collection.resource)
        if kind is None or not kind.namespaced:
            continue
        for content in list(collection.entries(namespace)):
            done += 1
            if not content.obj["metadata"].get("deletionTimestamp"):
                yield from _delete(world, kind, content, "Background", call)
            left = collection.get(content.namespace, content.name)
            refused = refused or (left is not None and not left.obj["metadata"].get("deletionTimestamp"))
    if not refused:
        world.swept.add(namespace)
    return done


def _undefine(world: World, kind: Kind, entry: Entry, call: Call) -> Steps[int]:
    """Delete every object of a custom kind that is going; let the definition go when none is left."""
    collection = world.store.collection(entry.name)
    content_kind = world.registry.stored(entry.name)
    done = 1
    for content in list(collection.entries()):
        if content_kind is not None and not content.obj["metadata"].get("deletionTimestamp"):
            done += 1
            yield from _delete(world, content_kind, content, "Background", call)
    if not collection.count:
        current = world.store.collection(CRDS).get("", entry.name)
        if current is not None:
            yield from _rewrite(world, kind, current, _without(current, CLEANUP), call)
    return done


def finalize_namespace(world: World, kind: Kind, entry: Entry) -> None:
    """Take the finalizer ``kubernetes`` off a namespace; it goes when none is left."""
    finalizers = [f for f in (entry.obj.get("spec") or {}).get("finalizers", ()) if f != "kubernetes"]
    spec = {"finalizers": finalizers} if finalizers else {}
    obj = {**entry.obj, "spec": spec}
    if finalizers or entry.obj["metadata"].get("finalizers"):
        if obj != entry.obj:
            world.save(kind, obj, entry.creator)
        return
    world.erase(kind, entry)
