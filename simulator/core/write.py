"""The verbs create and update: defaults, admission, validation, storage, in the server's order."""

from __future__ import annotations

import hashlib
from dataclasses import replace as replace_fields
from typing import Any, Final

from simulator.core import admission, managed, names
from simulator.core.decoding import decode, place
from simulator.core.entries import Entry
from simulator.core.errors import (
    Cause,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    internal,
    invalid,
    invalid_object,
    not_found,
)
from simulator.core.kinds import Kind
from simulator.core.world import Call, Steps, World

JSON = dict[str, Any]

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SYSTEM_FIELDS: Final = (
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "uid",
)


def create(world: World, kind: Kind, namespace: str, body: Any, call: Call) -> Steps[Entry]:
    """Create an object. Raises StatusError; returns the stored entry (or, in a dry run, what it would be)."""
    obj = decode(kind, body, call)
    place(kind, obj, namespace)
    strategy = kind.strategy
    strategy.default(obj)
    meta = obj["metadata"]
    if meta.get("resourceVersion"):
        raise _create_with_version()
    if kind.namespaced:
        check_namespace(world, kind, namespace, meta.get("name", ""))
    strategy.admit(obj, world)
    obj = yield from admission.mutate(world, kind, "CREATE", obj, None, call)
    _new_metadata(world, kind, obj, call)
    strategy.prepare_create(obj)
    causes = names.metadata(kind.qualified, obj) + strategy.validate(obj) + kind.validate_schema(obj, None)
    if kind.builtin and obj["metadata"].get("finalizers"):
        causes += names.finalizers(obj)
    if causes:
        raise invalid_object(kind, obj["metadata"].get("name", ""), causes)
    yield from admission.validate(world, kind, "CREATE", obj, None, call)
    name = obj["metadata"]["name"]
    held = world.store.collection(kind.storage).get(obj["metadata"].get("namespace", ""), name)
    if held is not None:
        raise already_exists(kind, name, going=bool(held.obj["metadata"].get("deletionTimestamp")))
    if call.dry_run:
        return Entry(obj, 0, obj["metadata"].get("namespace", ""), name)
    return world.save(kind, obj, call.manager)


def _create_with_version() -> StatusError:
    return internal("resourceVersion should not be set on objects to be created")


def check_namespace(world: World, kind: Kind, namespace: str, name: str) -> None:
    """Refuse new content in a namespace that is not there (404) or is going (403)."""
    found = world.store.collection("namespaces").get("", namespace)
    if found is None:
        raise not_found(world.registry.require("", "v1", "namespaces"), namespace)
    if namespace in world.terminating:
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = Cause(
            "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
        )
        raise forbidden(kind, name, why, [cause])


def _new_metadata(world: World, kind: Kind, obj: JSON, call: Call) -> None:
    """Fill name, UID and creation time; take away what a client may not set."""
    meta: JSON = obj["metadata"]
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink"):
        meta.pop(field, None)
    meta["uid"] = call.ids()
    meta["creationTimestamp"] = call.stamp
    prefix = meta.get("generateName")
    if not meta.get("name") and prefix:
        collection = world.store.collection(kind.storage)
        meta["name"] = prefix[:58] + suffix(meta["uid"])
        for _ in range(8):
            if collection.get(meta.get("namespace", ""), meta["name"]) is None:
                break
            meta["name"] = prefix[:58] + suffix(call.ids())
    if kind.storage == "namespaces":  # the label follows a generated name
        kind.strategy.default(obj)
    if not call.applied:
        meta.pop("managedFields", None)


def suffix(seed: str) -> str:
    """Return five letters and digits as generateName appends them, from an identifier."""
    number = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest(), "big")
    letters = ""
    for _ in range(5):
        number, at = divmod(number, len(_ALPHABET))
        letters += _ALPHABET[at]
    return letters


def update(
    world: World,
    kind: Kind,
    namespace: str,
    name: str,
    body: Any,
    call: Call,
    subresource: str = "",
) -> Steps[tuple[Entry, bool]]:
    """Replace an object or its status. Returns the entry and whether it is new. Raises StatusError."""
    obj = decode(kind, body, call)
    meta = obj["metadata"]
    if meta.get("name", "") != name:
        given = meta.get("name")
        if not given:
            raise bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
    place(kind, obj, namespace)
    current = world.store.collection(kind.storage).get(namespace, name)
    if current is None:
        if kind.strategy.create_on_update and not subresource:
            meta.pop("resourceVersion", None)
            entry = yield from create(world, kind, namespace, obj, call)
            return entry, True
        raise not_found(kind, name)
    entry = yield from replace(world, kind, current, obj, call, subresource)
    return entry, False


def replace(
    world: World,
    kind: Kind,
    current: Entry,
    obj: JSON,
    call: Call,
    subresource: str = "",
    *,
    patched: bool = False,
) -> Steps[Entry]:
    """Put ``obj`` (private, decoded) in the place of ``current``. Raises StatusError.

    A UID that does not fit is a conflict, but in a patch a change of what may not change.
    """
    strategy = kind.strategy
    strategy.default(obj)
    obj = yield from admission.mutate(world, kind, "UPDATE", obj, current.obj, call, subresource)
    current = _fresh(world, kind, current)
    old = current.obj
    _check_version(kind, obj, current, patched=patched)
    uid = (
        obj["metadata"].get("uid") if patched and obj["metadata"].get("uid") != old["metadata"]["uid"] else ""
    )
    _carry_metadata(kind, obj, old)
    (strategy.prepare_status if subresource else strategy.prepare_update)(obj, old)
    if not call.applied:
        managed.track(kind, obj, old, call, subresource)
    if strategy.generation and _spec_changed(obj, old, status_counts=strategy.status_counts):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    causes = names.immutable_metadata(obj, old)
    if uid:
        causes.append(invalid("metadata.uid", uid, "field is immutable"))
    if obj["metadata"] is not old["metadata"]:
        causes += names.metadata(kind.qualified, obj)
        if kind.builtin and obj["metadata"].get("finalizers"):
            causes += names.finalizers(obj)
    if not subresource:
        causes += strategy.validate_update(obj, old)
    causes += kind.validate_schema(obj, old)
    if causes:
        raise invalid_object(kind, current.name, causes)
    yield from admission.validate(world, kind, "UPDATE", obj, old, call, subresource)
    current = _fresh(world, kind, current, old)
    return _store(world, kind, current, obj, call)


def _fresh(world: World, kind: Kind, current: Entry, expected: JSON | None = None) -> Entry:
    """Return the entry as it is now: a webhook may have let others write meanwhile."""
    now = world.store.collection(kind.storage).get(current.namespace, current.name)
    if now is None:
        raise not_found(kind, current.name)
    if expected is not None and now.obj is not expected:
        raise conflict(kind, current.name)
    return now


def _store(world: World, kind: Kind, current: Entry, obj: JSON, call: Call) -> Entry:
    meta = obj["metadata"]
    meta["resourceVersion"] = current.obj["metadata"]["resourceVersion"]
    if obj == current.obj:
        return current
    if call.dry_run:
        return Entry(obj, current.rv, current.namespace, current.name)
    if _is_done(kind, obj):
        world.erase(kind, current)  # watchers see what was stored last, the caller what it asked for
        return Entry(obj, current.rv, current.namespace, current.name, current.creator)
    return world.save(kind, obj, current.creator)


def _is_done(kind: Kind, obj: JSON) -> bool:
    """Say whether an object that is being deleted has nothing left to wait for."""
    meta = obj["metadata"]
    held = kind.storage == "namespaces" and (obj.get("spec") or {}).get("finalizers")
    waits = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds") or held
    return bool(meta.get("deletionTimestamp")) and not waits


def _check_version(kind: Kind, obj: JSON, current: Entry, *, patched: bool) -> None:
    meta, held = obj["metadata"], current.obj["metadata"]
    version = meta.get("resourceVersion", "")
    if meta.get("uid") and meta["uid"] != held["uid"] and not patched:
        raise uid_mismatch(kind, current, meta["uid"])
    if not version:
        if not kind.strategy.unconditional_update:
            cause = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid_object(replace_fields(kind, kind=kind.plural), current.name, [cause])
        return
    if not version.isdigit():
        raise internal(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if version != "0" and int(version) != current.rv:
        raise conflict(kind, current.name)


def uid_mismatch(kind: Kind, current: Entry, wanted: str) -> StatusError:
    """Return the conflict of a write that names another UID, as the storage words it."""
    return mismatch(kind, current, "UID", wanted, current.obj["metadata"]["uid"])


def mismatch(kind: Kind, current: Entry, field: str, wanted: str, held: str) -> StatusError:
    """Return the conflict of a precondition that does not hold, as the storage words it."""
    place_ = f"{current.namespace}/{current.name}" if current.namespace else current.name
    group = "" if kind.builtin else f"{kind.group}/"
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{group}{kind.plural}/{place_}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {field} in precondition: {wanted}, "
        f"{field} in object meta: {held}"
    )
    return conflict(kind, current.name, why)


def _carry_metadata(kind: Kind, obj: JSON, old: JSON) -> None:
    meta, held = obj["metadata"], old["metadata"]
    for field in _SYSTEM_FIELDS:
        meta.pop(field, None)
        if field in held:
            meta[field] = held[field]
    meta.pop("selfLink", None)
    if "generateName" not in meta and "generateName" in held and kind.builtin:
        meta["generateName"] = held["generateName"]


def _spec_changed(obj: JSON, old: JSON, *, status_counts: bool) -> bool:
    ignored = ("metadata", "kind", "apiVersion", *(() if status_counts else ("status",)))
    keys = {key for key in (*obj, *old) if key not in ignored}
    return any(obj.get(key) != old.get(key) for key in keys)
