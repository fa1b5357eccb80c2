"""Jobs for the eye: text for pipes, and for terminals the same with colour and movement.

Everything here is a function of what the client read and of ``now``; only :func:`progress` writes.
The modules with ``rich`` are loaded on first use, since plain lines need none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pumice.render.live import progress
    from pumice.render.timelines import timeline, timeline_lines
    from pumice.render.waterfalls import waterfall, waterfall_lines

_HOMES = {
    "progress": "live",
    "timeline": "timelines",
    "timeline_lines": "timelines",
    "waterfall": "waterfalls",
    "waterfall_lines": "waterfalls",
}
__all__ = ["progress", "timeline", "timeline_lines", "waterfall", "waterfall_lines"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
