"""The verbs get and list: options, consistent pages, and bytes that are made once for each object."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from simulator.core import selectors
from simulator.core.entries import Accept, Entry, Expired, Page
from simulator.core.errors import (
    CONTINUE_EXPIRED,
    Cause,
    StatusError,
    bad_request,
    expired,
    forbidden_field,
    internal,
    invalid_options,
    not_found,
    unsupported,
)
from simulator.core.kinds import Kind
from simulator.core.world import World

JSON = dict[str, Any]


class Selection(NamedTuple):
    """The selectors of a request; ``accept`` is None when it selects everything."""

    labels: selectors.LabelSelector | None
    fields: selectors.FieldSelector | None

    @property
    def accept(self) -> Accept | None:
        """Return one test for an object."""
        labels, fields = self.labels, self.fields
        if labels is None:
            return fields.holds if fields is not None else None
        if fields is None:
            return lambda obj: labels.holds(obj["metadata"].get("labels"))
        return lambda obj: labels.holds(obj["metadata"].get("labels")) and fields.holds(obj)


def selection(kind: Kind, query: Mapping[str, str]) -> Selection:
    """Read ``labelSelector`` and ``fieldSelector``. Raises StatusError 400."""
    labels = selectors.parse_labels(query["labelSelector"]) if query.get("labelSelector") else None
    fields = None
    if query.get("fieldSelector"):
        fields = selectors.parse_fields(
            query["fieldSelector"], kind.qualified, kind.selectable, custom=not kind.builtin
        )
    return Selection(labels if labels and labels.terms else None, fields if fields and fields.terms else None)


def get(world: World, kind: Kind, namespace: str, name: str) -> Entry:
    """Return an object. Raises StatusError 404."""
    entry = world.store.collection(kind.storage).get(namespace, name)
    if entry is None:
        raise not_found(kind, name)
    return entry


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The parts of a list request that choose the version and the page."""

    limit: int = 0
    token: str = ""
    version: str = ""
    match: str = ""
    initial: bool = False

    @staticmethod
    def read(query: Mapping[str, str]) -> ListOptions:
        """Read them from a query. Raises StatusError."""
        limit = query.get("limit") or "0"
        if not limit.lstrip("-").isdigit():
            raise bad_request(f'strconv.ParseInt: parsing "{limit}": invalid syntax')
        options = ListOptions(
            max(0, int(limit)),
            query.get("continue", ""),
            query.get("resourceVersion", ""),
            query.get("resourceVersionMatch", ""),
            "sendInitialEvents" in query,
        )
        options.check()
        return options

    def _mismatch(self) -> Cause | None:
        field = "resourceVersionMatch"
        cause: Cause | None = None
        if not self.version:
            cause = forbidden_field(
                field, "resourceVersionMatch is forbidden unless resourceVersion is provided"
            )
        elif self.token:
            cause = forbidden_field(field, "resourceVersionMatch is forbidden when continue is provided")
        elif self.match not in ("Exact", "NotOlderThan"):
            cause = unsupported(field, self.match, ("Exact", "NotOlderThan", ""))
        elif self.match == "Exact" and self.version == "0":
            cause = forbidden_field(
                field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            )
        return cause

    def check(self) -> None:
        """Refuse combinations that have no meaning."""
        causes = [cause] if self.match and (cause := self._mismatch()) else []
        if self.initial:
            causes.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
        if causes:
            raise invalid_options("ListOptions", *causes)
        if self.version and not self.version.isdigit():
            words = f'strconv.ParseUint: parsing "{self.version}": invalid syntax'
            raise bad_request(
                f'invalid resource version: resourceVersion: Invalid value: "{self.version}": {words}'
            )


class Result(NamedTuple):
    """A page with the metadata of its list."""

    entries: list[Entry]
    metadata: JSON


def list_(world: World, kind: Kind, namespace: str | None, chosen: Selection, options: ListOptions) -> Result:
    """Return a page of a consistent list. Raises StatusError."""
    collection = world.store.collection(kind.storage)
    now = world.store.rv
    rv, after = _from(options, now)
    accept = chosen.accept
    # Version 0 is answered from the server's cache, which knows no pages.
    limit = 0 if options.version == "0" else options.limit
    if not limit and not after and rv == now and accept is not None:
        narrow = _narrowed(world, kind, namespace, chosen)
        if narrow is not None:
            entries = [entry for entry in narrow if accept(entry.obj)]
            entries.sort(key=lambda entry: (entry.namespace + "/", entry.name))
            return Result(entries, {"resourceVersion": str(now)})
    try:
        page = collection.page(namespace, rv, now, after=after, limit=limit, accept=accept)
    except Expired:
        if options.token:
            raise expired(CONTINUE_EXPIRED, _token(-1, after)) from None
        raise expired("The resourceVersion for the provided list is too old.") from None
    return Result(page.entries, _metadata(page))


def _narrowed(world: World, kind: Kind, namespace: str | None, chosen: Selection) -> list[Entry] | None:
    """Return the entries of an index that covers the selection, if one does."""
    collection = world.store.collection(kind.storage)
    found: list[Entry] | None = None
    if chosen.fields is not None:
        name = chosen.fields.exact("metadata.name")
        node = chosen.fields.exact("spec.nodeName") if kind.storage == "pods" else None
        if name is not None and namespace is not None:
            entry = collection.get(namespace, name)
            return [entry] if entry else []
        if node:
            found = collection.on_node(node)
    if found is None and chosen.labels is not None:
        term = next((t for t in chosen.labels.terms if t.op == "in" and len(t.values) == 1), None)
        if term is not None:
            found = collection.labelled(term.key, term.values[0])
    if found is None or namespace is None:
        return found
    return [entry for entry in found if entry.namespace == namespace]


def _from(options: ListOptions, now: int) -> tuple[int, str]:
    """Return the version to list at and the key to list behind."""
    if options.token:
        if options.version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        rv, after = _read_token(options.token)
        return (now if rv < 0 else rv), after
    version = int(options.version or 0)
    if version > now:
        raise _too_large(version, now)
    exact = options.match == "Exact" or (options.limit and version and not options.match)
    return (version if exact and version else now), ""


def check_version(world: World, version: str) -> None:
    """Refuse the version of a get that is no number (500) or has not come yet (504)."""
    if version and not version.isdigit():
        words = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        raise internal(f'resourceVersion: Invalid value: "{version}": {words}')
    if version and int(version) > world.store.rv:
        raise _too_large(int(version), world.store.rv)


def _too_large(version: int, now: int) -> StatusError:
    message = f"Timeout: Too large resource version: {version}, current: {now}"
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return StatusError(504, "Timeout", message, details)


def _token(rv: int, after: str) -> str:
    text = orjson.dumps({"v": "meta.k8s.io/v1", "rv": rv, "start": after + "\0"})
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        read = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(read["rv"]), str(read["start"]).removesuffix("\0")
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise bad_request("invalid continue token: continue key is not valid: invalid character") from None


def _metadata(page: Page) -> JSON:
    metadata: JSON = {"resourceVersion": str(page.rv)}
    if page.after:
        metadata["continue"] = _token(page.rv, page.after)
        if page.remaining >= 0:
            metadata["remainingItemCount"] = page.remaining
    return metadata


def head_of(kind: Kind) -> bytes:
    """Return how every stored built-in object begins; list items of built-in kinds leave it out."""
    return orjson.dumps({"kind": kind.kind, "apiVersion": kind.api_version})[:-1] + b","


def list_bytes(kind: Kind, result: Result) -> bytes:
    """Return the body of a list."""
    names: JSON = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": result.metadata}
    if not kind.builtin:
        names["metadata"] = {"continue": "", **result.metadata}
    head = orjson.dumps(names)[:-1]
    if kind.view is not None or (kind.storage_version and kind.storage_version != kind.version):
        items = [orjson.dumps(shown(kind, entry.obj)) for entry in result.entries]
    elif kind.builtin:
        cut = len(head_of(kind))
        items = [b"{" + entry.raw[cut:] for entry in result.entries]
    else:
        items = [entry.raw for entry in result.entries]
    return head + b',"items":[' + b",".join(items) + b"]}"


def shown(kind: Kind, obj: JSON) -> JSON:
    """Return a stored object as this kind shows it (another version or view)."""
    if kind.view is not None:
        return kind.view.out(obj)
    if kind.storage_version and kind.storage_version != kind.version:
        return obj | {"apiVersion": kind.api_version}
    return obj


def object_bytes(kind: Kind, entry: Entry) -> bytes:
    """Return the body of one object."""
    if kind.view is not None or (kind.storage_version and kind.storage_version != kind.version):
        return orjson.dumps(shown(kind, entry.obj))
    return entry.raw
