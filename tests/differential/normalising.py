"""What may differ between two runs against the same API server, and so between two API servers.

Each rule below names its reason. What an API server *chooses* (UIDs, versions, generated names, tokens) becomes
a token, numbered by its first appearance, so that two answers must still agree on what is the same and
what is another. What differs between the two servers on purpose is not here but in ``differences``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from tests.differential.servers import Answer

JSON = dict[str, Any]

_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_AGE: Final = re.compile(r"(?:\d+[smhd]){1,2}|<unknown>")
_VERSION_WORDS: Final = re.compile(
    r"(?P<before>record \(|precondition \(|precondition: |object meta: |ResourceVersion: |resource version: |current: )\d+"
)
_NOW: Final = "<now>"
_NEAR: Final = timedelta(hours=24)


class Normaliser:
    """Keeps the tokens of one side through one sequence."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._tokens: dict[str, dict[str, str]] = {}
        self._generated: dict[str, str] = {}
        self._prefixes: set[str] = set()

    def answer(self, answer: Answer) -> Answer:
        """Return the answer with tokens for all that a server chooses."""
        body = self.value(answer.body)
        if isinstance(body, dict) and body.get("reason") == "Invalid":
            body = _unordered(body)
        warnings = tuple(sorted(answer.warnings))
        return Answer(answer.status, body, answer.media, warnings)

    def value(self, value: Any, key: str = "") -> Any:
        """Return a value with its tokens; ``key`` is the field that holds it."""
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return _heard([self.value(one) for one in value])
        if isinstance(value, str) and value:
            return self._text(value, key)
        return value

    def _token(self, sort: str, value: str) -> str:
        known = self._tokens.setdefault(sort, {})
        return known.setdefault(value, f"<{sort} {len(known) + 1}>")

    def _object(self, value: JSON) -> JSON:
        if _is_list(value):  # its version is the store's, which other writers move (leases, controllers)
            value = _at_now(value)
        if "managedFields" in value:  # in the order of their times, which have seconds
            value = value | {"managedFields": sorted(value["managedFields"], key=_manager)}
        if (
            value.get("kind") == "APIResourceList" and "resources" in value
        ):  # in the order in which definitions were seen
            value = value | {"resources": sorted(value["resources"], key=lambda one: str(one["name"]))}
        if value.get("type") == "BOOKMARK":  # the same
            value = value | {"object": _bookmark(value["object"])}
        # In order, so that tokens are numbered alike: JSON objects have no order.
        out = {key: self.value(value[key], key) for key in sorted(value)}
        if "cells" in value:  # ages are read at different moments
            out["cells"] = [
                "<age>" if isinstance(cell, str) and _AGE.fullmatch(cell) else cell for cell in out["cells"]
            ]
        return out

    def expect(self, prefix: str) -> None:
        """Take five letters after this prefix as generated from now on."""
        self._prefixes.add(prefix)

    def _generate(self, found: re.Match[str]) -> str:
        return self._generated.setdefault(found[0], f"{found[1]}<random {len(self._generated) + 1}>")

    def _text(self, text: str, key: str) -> str:
        if key == "resourceVersion":
            return text if text in ("0", _NOW) else self._token("version", text)
        if key == "continue":  # opaque by contract
            return "<more>"
        if text == self._address:  # where the server listens
            return "<server>"
        text = _UID.sub(lambda found: self._token("uid", found[0]), text)
        text = _TIME.sub(_time, text)
        text = _VERSION_WORDS.sub(lambda found: f"{found['before']}<version>", text)
        for prefix in self._prefixes:
            text = re.sub(rf"({re.escape(prefix)})[a-z0-9]{{5}}(?![a-z0-9])", self._generate, text)
        return text


def _is_list(value: JSON) -> bool:
    return isinstance(value.get("metadata"), dict) and ("items" in value or value.get("kind") == "Table")


def _manager(entry: JSON) -> tuple[str, str, str]:
    return entry["manager"], entry["operation"], entry.get("subresource", "")


def _at_now(value: JSON) -> JSON:
    meta = value["metadata"]
    return value | {"metadata": meta | {"resourceVersion": _NOW}} if "resourceVersion" in meta else value


def _bookmark(value: JSON) -> JSON:
    value = _at_now(value)
    rows = [row | {"object": _at_now(row["object"])} for row in value.get("rows") or () if row.get("object")]
    return value | {"rows": rows} if rows else value


def _heard(events: list[Any]) -> list[Any]:
    """Leave out a bookmark right after another: they come by the clock, so that a slow watch sees more."""
    return [
        one
        for before, one in pairwise([None, *events])
        if not (_is_bookmark(before) and _is_bookmark(one) and "initial-events-end" not in str(one))
    ]


def _is_bookmark(event: Any) -> bool:
    return isinstance(event, dict) and event.get("type") == "BOOKMARK"


def _time(found: re.Match[str]) -> str:
    """Hide times of now; a time that a client gave stays."""
    moment = datetime.fromisoformat(found[0])
    return _NOW if abs(moment - datetime.now(UTC)) < _NEAR else found[0]


def _unordered(body: JSON) -> JSON:
    """Sort the causes, each once; leave them out of the message where it only repeats them.

    A custom resource's schema is walked in the random order of Go's maps, and metadata is checked by
    several layers one after the other, each of which adds its causes again.
    """
    details = body.get("details") or {}
    causes = details.get("causes") or []
    if not causes:
        return body
    once = {(one.get("field", ""), one["message"], one.get("reason", "")): one for one in causes}
    texts = {f"{field}: {message}" if field else message for field, message, _ in once}
    before, found, rest = body["message"].partition(" is invalid: ")
    left = rest
    for text in sorted(texts, key=len, reverse=True):
        left = left.replace(text, "")
    if found and not left.strip("[], "):
        body = {**body, "message": f"{before}{found}<causes>"}
    return {**body, "details": {**details, "causes": [once[mark] for mark in sorted(once)]}}
