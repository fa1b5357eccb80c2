"""Serves the OpenAPI v3 index and documents; made when asked for, kept until the kinds change."""

from __future__ import annotations

import hashlib

import orjson
from aiohttp import web

from simulator.builtin import TYPES
from simulator.core import openapi
from simulator.core.kinds import Kind, Registry
from simulator.web.discovery import VERSION


class Documents:
    """The documents of all groups and versions."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: dict[str, bytes] = {}
        self._generation = -1

    def answer(self, path: str) -> web.Response | None:
        """Return the index (``/openapi/v3``), a document below it, or None."""
        if self._generation != self._registry.generation:
            self._made = {}
            self._generation = self._registry.generation
        if path == "/openapi/v3":
            return self._json(self._index())
        name = path.removeprefix("/openapi/v3/")
        kinds = self._groups().get(name)
        if kinds is None:
            return None
        return self._json(self._document(name, kinds))

    def _groups(self) -> dict[str, list[Kind]]:
        groups: dict[str, list[Kind]] = {}
        for kind in self._registry.all():
            name = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
            groups.setdefault(name, []).append(kind)
        return groups

    def _document(self, name: str, kinds: list[Kind]) -> bytes:
        if name not in self._made:
            self._made[name] = orjson.dumps(openapi.document(kinds, TYPES.structs, VERSION["gitVersion"]))
        return self._made[name]

    def _index(self) -> bytes:
        paths = {}
        for name, kinds in self._groups().items():
            mark = hashlib.sha256(self._document(name, kinds)).hexdigest()[:32]
            paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={mark}"}
        return orjson.dumps({"paths": paths})

    def _json(self, body: bytes) -> web.Response:
        return web.Response(body=body, content_type="application/json")
