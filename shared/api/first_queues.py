"""The queues that every cluster has, as Volcano's scheduler makes them at start."""

from __future__ import annotations

from typing import Final

from shared.api.base import JSON
from shared.api.names import DEFAULT_QUEUE, ROOT_QUEUE
from shared.api.resources import QUEUES

_SPECS: Final[dict[str, JSON]] = {
    ROOT_QUEUE: {"weight": 1, "reclaimable": False},
    DEFAULT_QUEUE: {"weight": 1, "parent": ROOT_QUEUE},
}


def first_queues() -> list[JSON]:
    """Return their manifests: made where they are missing, never changed where they are there."""
    return [
        {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "metadata": {"name": name},
            "spec": dict(spec),
        }
        for name, spec in _SPECS.items()
    ]
