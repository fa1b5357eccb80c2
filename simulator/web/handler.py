"""One request: from its path, headers and body to a verb, and from the result to an answer."""

# ruff: noqa: PLR2004 - parts of a path

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson
from aiohttp import web

from shared.clock import Clock
from simulator.core import collector, read, subresources, tables
from simulator.core.delete import delete
from simulator.core.entries import Entry
from simulator.core.errors import (
    StatusError,
    bad_request,
    method_not_allowed,
    no_resource,
    not_found,
    not_supported,
)
from simulator.core.kinds import Kind
from simulator.core.patching import patch
from simulator.core.world import Call, World
from simulator.core.write import create, update
from simulator.web import content, discovery, options
from simulator.web.answers import json_answer, no_page, warning_headers
from simulator.web.documents import Documents
from simulator.web.logs import pod_log
from simulator.web.paths import Target, resolve
from simulator.web.streams import stream
from simulator.web.webhooks import Webhooks

JSON = dict[str, Any]

_SUBRESOURCE_METHODS: Final = ("GET", "PUT", "PATCH")
_WORDS: Final = {"POST": "create", "DELETE": "delete", "PUT": "update", "PATCH": "patch", "GET": "get"}
MAX_BODY: Final = 3 * 1024 * 1024

Verb = Callable[[web.BaseRequest, Target], Awaitable[web.StreamResponse]]


class Handler:
    """Answers requests. ``settle`` is called after every write, so that what follows from it is done soon."""

    def __init__(self, world: World, clock: Clock, ids: Any, hooks: Webhooks, settle: Any) -> None:
        self.world = world
        self.clock = clock
        self.hooks = hooks
        self._ids = ids
        self._settle = settle
        self._documents = Documents(world.registry)
        self._verbs: dict[tuple[str, str], Verb] = {
            ("GET", "collection"): self._collection,
            ("POST", "collection"): self._create,
            ("DELETE", "collection"): self._delete_collection,
            ("GET", "object"): self._get,
            ("PUT", "object"): self._update,
            ("PATCH", "object"): self._patch,
            ("DELETE", "object"): self._delete,
        }

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; a refusal becomes its Status."""
        try:
            return await self._answer(request)
        except StatusError as error:
            return self._status(error)

    def _status(self, error: StatusError) -> web.Response:
        headers = [("Retry-After", "1")] if error.code in (429, 504) else None
        return json_answer(orjson.dumps(error.body), error.code, headers)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        target = resolve(self.world.registry, path)
        if target is not None:
            return await self._resource(request, target)
        if request.method == "POST" and (found := discovery.review_kind(path)):
            body = await self._body(request)
            return json_answer(orjson.dumps(subresources.review(*found, body)), 201)
        if request.method not in ("GET", "HEAD"):
            return no_page()
        return self._documents.answer(request)

    async def _resource(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        method = request.method
        if target.subresource and not (target.kind.status and target.subresource == "status"):
            return await self._subresource(request, target)
        if not target.kind.builtin and method in ("PUT", "PATCH") and not target.name:
            raise bad_request("name must be provided")
        place = "object" if target.name and (target.kind.builtin or method != "POST") else "collection"
        verb = self._verbs.get((method, place))
        if verb is None or (target.subresource and method not in _SUBRESOURCE_METHODS):
            raise self._no_method(target, method)
        return await verb(request, target)

    def _no_method(self, target: Target, method: str) -> StatusError:
        word = _WORDS.get(method)
        if target.kind.builtin or word is None:
            return method_not_allowed()
        return not_supported(target.kind, word)

    # Reads

    async def _get(self, request: web.BaseRequest, target: Target) -> web.Response:
        if request.query_string:
            read.check_version(self.world, request.query.get("resourceVersion", ""))
        entry = read.get(self.world, target.kind, target.namespace or "", target.name)
        return self._object(request, target.kind, entry)

    def _object(
        self, request: web.BaseRequest, kind: Kind, entry: Entry, code: int = 200, call: Call | None = None
    ) -> web.Response:
        form = content.accepted(request.headers.get("Accept", ""))
        if form.view == "table":
            include = request.query.get("includeObject", "")
            metadata = {"resourceVersion": str(entry.rv)}
            body = orjson.dumps(
                tables.table(kind, [read.shown(kind, entry.obj)], metadata, self._seconds(), include)
            )
        elif form.view == "metadata":
            body = orjson.dumps(tables.metadata_of(entry.obj))
        else:
            body = read.object_bytes(kind, entry)
        written, media = content.write(form, body)
        return json_answer(written, code, warning_headers(call), media)

    async def _collection(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        kind, query = target.kind, request.query
        form = content.accepted(request.headers.get("Accept", ""))
        chosen = read.selection(kind, query)
        if query.get("watch") in ("true", "1"):
            return await stream(self.world, self.clock, request, target, chosen, form)
        result = read.list_(
            self.world,
            kind,
            target.namespace if kind.namespaced else None,
            chosen,
            read.ListOptions.read(query),
        )
        if form.view == "table":
            objects = [read.shown(kind, entry.obj) for entry in result.entries]
            made = tables.table(
                kind, objects, result.metadata, self._seconds(), query.get("includeObject", "")
            )
            body = orjson.dumps(made)
        elif form.view == "metadata":
            items = [tables.metadata_of(entry.obj) for entry in result.entries]
            names = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
            body = orjson.dumps(names | {"metadata": result.metadata, "items": items or None})
        else:
            body = read.list_bytes(kind, result)
        written, media = content.write(form, body)
        return json_answer(written, media=media)

    # Writes

    def _call(self, request: web.BaseRequest) -> Call:
        return options.call(request, self.clock.now(), self._ids)

    async def _body(self, request: web.BaseRequest, kind: str = "") -> Any:
        raw = await request.read()
        return content.read_body(content.media(request), raw, kind)

    async def _create(self, request: web.BaseRequest, target: Target) -> web.Response:
        kind = target.kind
        body = await self._body(request, kind.kind)
        call = self._call(request)
        namespace = target.namespace
        if namespace is None:
            raise method_not_allowed()
        entry = await self.hooks.run(create(self.world, kind, namespace, body, call))
        self._settle()
        return self._object(request, kind, entry, 201, call)

    async def _update(self, request: web.BaseRequest, target: Target) -> web.Response:
        body = await self._body(request, target.kind.kind)
        call = self._call(request)
        steps = update(
            self.world, target.kind, target.namespace or "", target.name, body, call, target.subresource
        )
        entry, fresh = await self.hooks.run(steps)
        self._settle()
        return self._object(request, target.kind, entry, 201 if fresh else 200, call)

    async def _patch(self, request: web.BaseRequest, target: Target) -> web.Response:
        body = await request.read()
        call = self._call(request)
        media = request.content_type
        steps = patch(
            self.world,
            target.kind,
            target.namespace or "",
            target.name,
            media,
            body,
            call,
            target.subresource,
            request.query,
        )
        entry, fresh = await self.hooks.run(steps)
        self._settle()
        return self._object(request, target.kind, entry, 201 if fresh else 200, call)

    async def _delete(self, request: web.BaseRequest, target: Target) -> web.Response:
        wanted = await options.of_deletion(request)
        call = self._call(request)
        call.dry_run = bool(wanted.get("dryRun"))
        result = await self.hooks.run(
            delete(self.world, target.kind, target.namespace or "", target.name, wanted, call)
        )
        self._settle()
        if isinstance(result, Entry):
            return self._object(request, target.kind, result, 200, call)
        return json_answer(orjson.dumps(result), headers=warning_headers(call))

    async def _delete_collection(self, request: web.BaseRequest, target: Target) -> web.Response:
        kind = target.kind
        wanted = await options.of_deletion(request)
        call = self._call(request)
        call.dry_run = bool(wanted.get("dryRun"))
        chosen = read.selection(kind, request.query)
        namespace = target.namespace if kind.namespaced else None
        if "deletecollection" not in kind.verbs or (kind.namespaced and namespace is None):
            raise method_not_allowed()
        result = read.list_(self.world, kind, namespace, chosen, read.ListOptions())
        for entry in result.entries:
            try:
                await self.hooks.run(delete(self.world, kind, entry.namespace, entry.name, wanted, call))
            except StatusError as error:
                if error.code != 404:
                    raise
        self._settle()
        return json_answer(read.list_bytes(kind, result))

    # Subresources

    async def _subresource(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        kind, name, sub, method = target.kind, target.name, target.subresource, request.method
        namespace = target.namespace or ""
        pods = kind.qualified == "pods"
        if pods and sub == "log" and method == "GET":
            pod = read.get(self.world, kind, namespace, name).obj
            return await pod_log(request, pod, self.clock, self.world)
        if pods and sub in ("binding", "eviction") and method == "POST":
            body = await self._body(request)
            verb = subresources.bind if sub == "binding" else subresources.evict
            result = await self.hooks.run(verb(self.world, kind, namespace, name, body, self._call(request)))
            self._settle()
            return json_answer(orjson.dumps(result), 201)
        if sub == "scale" and kind.scale:
            return await self._scale(request, target)
        if sub == "finalize" and kind.qualified == "namespaces" and method == "PUT":
            entry = read.get(self.world, kind, "", name)
            collector.finalize_namespace(self.world, kind, entry)
            return self._object(request, kind, entry)
        if not kind.builtin:
            raise not_found(kind, name)
        known = pods and sub in ("log", "binding", "eviction")
        raise method_not_allowed() if known else no_resource()

    async def _scale(self, request: web.BaseRequest, target: Target) -> web.Response:
        kind, name, namespace = target.kind, target.name, target.namespace or ""
        entry = read.get(self.world, kind, namespace, name)
        if request.method == "GET":
            return json_answer(orjson.dumps(subresources.scale_of(kind, entry.obj)))
        if request.method not in ("PUT", "PATCH"):
            raise self._no_method(target, request.method)
        wanted = subresources.scale_of(kind, entry.obj)
        if request.method == "PUT":
            wanted = await self._body(request)
        else:
            from simulator.core import merge

            wanted = merge.merge(wanted, orjson.loads(await request.read()))
        scale = await self.hooks.run(
            subresources.rescale(self.world, kind, namespace, name, wanted, self._call(request))
        )
        self._settle()
        return json_answer(orjson.dumps(scale))

    def _seconds(self) -> float:
        return self.clock.now().timestamp()
