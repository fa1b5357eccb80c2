"""OpenAPI documents for clients."""
from __future__ import annotations
from aiohttp import web
from simulator.core.kinds import Registry
class Documents:
    """OpenAPI."""
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
    def answer(self, request: web.BaseRequest, path: str) -> web.Response | None:
        """Answer."""
        return None
