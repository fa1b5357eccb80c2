"""Everything under the server's address that is no resource: health, version, discovery, OpenAPI."""
# ruff: noqa: PLR2004 - the numbers are parts of a path

from __future__ import annotations

from typing import Any, Final

import orjson
from aiohttp import web

from simulator.core.errors import no_resource
from simulator.core.kinds import Registry
from simulator.web import content, discovery, openapi
from simulator.web.answers import json_answer, no_page

JSON = dict[str, Any]

_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Documents:
    """Answers what needs only the registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._openapi = openapi.Documents(registry)

    def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer a GET outside of all resources. Raises StatusError."""
        path = request.path.rstrip("/") or "/"
        if path in _HEALTH or path.startswith(tuple(f"{root}/" for root in _HEALTH)):
            return web.Response(text="ok")
        if path.startswith("/openapi/"):
            return self._openapi.answer(path) or no_page()
        accept = request.headers.get("Accept", "")
        if path in ("/api", "/apis") and "as=APIGroupDiscoveryList" in accept and "v=v2" in accept:
            body = orjson.dumps(discovery.aggregated(self._registry, core=path == "/api"))
            return web.Response(body=body, headers={"Content-Type": _AGGREGATED, "Vary": "Accept"})
        found = self._found(path, request.host)
        if found is None:
            return self._nothing(path.strip("/").split("/"))
        body, media = content.write(content.accepted(accept), orjson.dumps(found))
        return json_answer(body, media=media)

    def _found(self, path: str, host: str) -> JSON | None:  # noqa: PLR0911 - a table of paths
        registry = self._registry
        match path.strip("/").split("/"):
            case [""]:
                return {"paths": discovery.paths(registry)}
            case ["version"]:
                return dict(discovery.VERSION)
            case ["api"]:
                return discovery.api_versions(host)
            case ["apis"]:
                return discovery.api_groups(registry)
            case ["api", version]:
                return discovery.resource_list(registry, "", version)
            case ["apis", group]:
                return discovery.api_group(registry, group)
            case ["apis", group, version]:
                return discovery.resource_list(registry, group, version)
            case _:
                return None

    def _nothing(self, parts: list[str]) -> web.Response:
        """Answer for a path that is not served: as a Status where a built-in group is."""
        if len(parts) > 2:
            group = "" if parts[0] == "api" else parts[1]
            if any(kind.builtin and kind.group == group for kind in self._registry.all()):
                raise no_resource()
        return no_page()
