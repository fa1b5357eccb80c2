"""Client of the Pumice batch scheduler: SDK and command line.

    import pumice

    with pumice.Client() as client:
        job = client.submit(pumice.Job(name="train", image="trainer:1", gpus=8, workers=4))
        print(client.wait_until(job.name, "finished").phase)

Names are loaded on first use, so that ``pumice --help`` need not import an HTTP client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pumice.aio import AsyncClient
    from pumice.client import Client
    from pumice.errors import (
        BadRequest,
        Conflict,
        Forbidden,
        ManifestError,
        NotFound,
        ProtocolError,
        PumiceError,
        Rejected,
        TimedOut,
        TooLarge,
        Unavailable,
        Violation,
    )
    from pumice.manifest import Job
    from pumice.models import Change, JobEvent, JobView, NodeView, QueueView, Span, Trace, Trial
    from pumice.retry import Retry

__all__ = [
    "AsyncClient",
    "BadRequest",
    "Change",
    "Client",
    "Conflict",
    "Forbidden",
    "Job",
    "JobEvent",
    "JobView",
    "ManifestError",
    "NodeView",
    "NotFound",
    "ProtocolError",
    "PumiceError",
    "QueueView",
    "Rejected",
    "Retry",
    "Span",
    "TimedOut",
    "TooLarge",
    "Trace",
    "Trial",
    "Unavailable",
    "Violation",
]

_HOMES = {
    "pumice.aio": ("AsyncClient",),
    "pumice.client": ("Client",),
    "pumice.manifest": ("Job",),
    "pumice.models": ("Change", "JobEvent", "JobView", "NodeView", "QueueView", "Span", "Trace", "Trial"),
    "pumice.retry": ("Retry",),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), "pumice.errors")
    return getattr(import_module(home), name)
