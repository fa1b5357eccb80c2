"""What must be there before anything else: the root and default queues."""

from __future__ import annotations

from services.controller.adapters.api import Api
from services.controller.adapters.views import Views
from shared.api import resources as r
from shared.api.first_queues import first_queues
from shared.errors import AlreadyExists


async def ensure_queues(api: Api, views: Views) -> None:
    """Create the first queues where they are missing."""
    for queue in first_queues():
        name = queue["metadata"]["name"]
        if views.get(r.QUEUES, "", name) is None:
            try:
                await api.create(r.QUEUES, None, queue)
            except AlreadyExists:
                await api.read(r.QUEUES, None, name)
