"""What must be there before anything else: the root and default queues."""

from __future__ import annotations

from typing import Final

from services.controller.adapters.api import Api
from services.controller.adapters.views import Views
from services.controller.core.model import JSON
from shared.api import names
from shared.api import resources as r
from shared.errors import AlreadyExists

_QUEUES: Final[dict[str, JSON]] = {
    names.ROOT_QUEUE: {"weight": 1, "reclaimable": False},
    names.DEFAULT_QUEUE: {"weight": 1, "parent": names.ROOT_QUEUE},
}


async def ensure_queues(api: Api, views: Views) -> None:
    """Create the queues that Volcano's scheduler creates at start, where they are missing."""
    for name, spec in _QUEUES.items():
        if views.get(r.QUEUES, "", name) is None:
            body = {
                "apiVersion": r.QUEUES.api_version,
                "kind": r.QUEUES.kind,
                "metadata": {"name": name},
                "spec": spec,
            }
            try:
                await api.create(r.QUEUES, None, body)
            except AlreadyExists:
                await api.read(r.QUEUES, None, name)
