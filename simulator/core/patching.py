"""The verb patch: four kinds of patches on the object as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
import yaml

from simulator.core import apply, declared, merge, strategic
from simulator.core.decoding import decode, place
from simulator.core.entries import Entry
from simulator.core.errors import (
    StatusError,
    bad_request,
    conflict,
    forbidden_field,
    invalid_options,
    not_found,
    required,
    unreadable_patch,
    unsupported_media_type,
)
from simulator.core.kinds import Kind
from simulator.core.world import Call, Steps, World
from simulator.core.write import create, replace

JSON = dict[str, Any]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_RETRIES: Final = 5


def patch(
    world: World,
    kind: Kind,
    namespace: str,
    name: str,
    media: str,
    body: bytes,
    call: Call,
    subresource: str = "",
    query: Mapping[str, str] | None = None,
) -> Steps[tuple[Entry, bool]]:
    """Patch an object or its status. Returns the entry and whether it is new. Raises StatusError."""
    accepted = [JSON_PATCH, MERGE_PATCH, *([STRATEGIC_PATCH] if kind.builtin else []), APPLY_PATCH]
    if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH):
        raise unsupported_media_type()
    if media not in accepted:
        raise unsupported_media_type(accepted)
    if media == APPLY_PATCH:
        return (yield from _apply(world, kind, namespace, name, body, call, subresource, query or {}))
    if "force" in (query or {}):
        raise invalid_options(
            "PatchOptions", forbidden_field("force", "may not be specified for non-apply patch")
        )
    read = _read(media, body)
    for attempt in range(_RETRIES):
        current = world.store.collection(kind.storage).get(namespace, name)
        if current is None:
            raise not_found(kind, name)
        obj = _patched(kind, current, media, read, call)
        version = obj["metadata"].get("resourceVersion", "")
        pinned = bool(version) and version != current.obj["metadata"]["resourceVersion"]
        if pinned:
            raise conflict(kind, name)
        obj["metadata"]["resourceVersion"] = current.obj["metadata"]["resourceVersion"]
        _same_name(obj, namespace, name, kind)
        try:
            return (yield from replace(world, kind, current, obj, call, subresource, patched=True)), False
        except StatusError as error:  # another write came between while a webhook was asked
            if (
                error.code != 409  # noqa: PLR2004
                or attempt == _RETRIES - 1
                or current is world.store.collection(kind.storage).get(namespace, name)
            ):
                raise
    raise conflict(kind, name)


def _read(media: str, body: bytes) -> Any:
    try:
        read = orjson.loads(body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if media != JSON_PATCH and not isinstance(read, dict):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    return read


def _patched(kind: Kind, current: Entry, media: str, read: Any, call: Call) -> JSON:
    source = current.obj
    if kind.view is not None:
        source = kind.view.out(source)
    if media == JSON_PATCH:
        changed = merge.json_patch(source, read)
    elif media == MERGE_PATCH:
        changed = merge.merge(source, read)
    else:
        changed = strategic.merge(kind.fields, kind.type_name, source, read)
    if not isinstance(changed.get("metadata"), dict):
        raise bad_request("metadata must be an object")
    try:
        return decode(kind, changed, call, patched=True)
    except StatusError as error:
        if media == STRATEGIC_PATCH or (not kind.builtin and call.validation != "Strict"):
            raise
        words = error.message.partition(f" cannot be handled as a {kind.kind}: ")
        raise unreadable_patch(orjson.dumps(changed).decode(), words[2] or words[0]) from None


def _same_name(obj: JSON, namespace: str, name: str, kind: Kind) -> None:
    given = obj["metadata"].get("name")
    if given != name:
        raise bad_request(
            f"the name of the object ({given or ''}) does not match the name on the URL ({name})"
        )
    place(kind, obj, namespace)


def _manager_required() -> StatusError:
    cause = required("fieldManager", "is required for apply patch")
    return invalid_options("PatchOptions", cause)


def _apply(
    world: World,
    kind: Kind,
    namespace: str,
    name: str,
    body: bytes,
    call: Call,
    subresource: str,
    query: Mapping[str, str],
) -> Steps[tuple[Entry, bool]]:
    wanted = _configuration(body)
    if not query.get("fieldManager"):
        raise _manager_required()
    call.applied = True
    given = wanted.get("metadata")
    meta: JSON = given if isinstance(given, dict) else {}
    _same_name({"metadata": {"name": name, **meta}}, namespace, name, kind)
    if meta.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    if (wanted["kind"], wanted["apiVersion"]) == (kind.kind, kind.api_version):
        declared.check(kind, wanted)
    else:
        decode(kind, wanted, call)  # says what does not fit
    raw = _as_given(kind, wanted, namespace, name)
    current = world.store.collection(kind.storage).get(namespace, name)
    if current is None:
        if subresource:
            raise not_found(kind, name)
        if meta.get("uid"):
            provided = f"the provided object specified uid {meta['uid']}"
            raise conflict(kind, name, f"uid mismatch: {provided}, and no existing object was found")
        return (yield from create(world, kind, namespace, apply.created(kind, raw, call), call)), True
    held = current.obj["metadata"]["resourceVersion"]
    if meta.get("resourceVersion", held) != held:
        raise conflict(kind, name)
    merged = apply.applied(kind, current, raw, call, subresource, force=query.get("force") in ("true", "1"))
    decoded = decode(kind, merged, call, patched=True)
    decoded["metadata"]["resourceVersion"] = held
    return (yield from replace(world, kind, current, decoded, call, subresource)), False


def _configuration(body: bytes) -> JSON:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        wanted = yaml.load(body, Loader=loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    if isinstance(wanted, dict) and wanted.get("kind") and wanted.get("apiVersion"):
        return wanted
    found = wanted if isinstance(wanted, dict) else {}
    kind, version = found.get("kind") or "", found.get("apiVersion") or ""
    raise bad_request(f"invalid object type: /{version}, Kind={kind}")


def _as_given(kind: Kind, wanted: JSON, namespace: str, name: str) -> JSON:
    """Return what is applied, as given (decoding adds values that nobody asked for), under its full name."""
    meta = {**(wanted.get("metadata") or {}), "name": name}
    meta.pop("resourceVersion", None)
    if kind.namespaced:
        meta["namespace"] = namespace
    return {key: value for key, value in wanted.items() if value is not None} | {"metadata": meta}
