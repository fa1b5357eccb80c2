"""Jobs for the eye: text for pipes, and for terminals the same with colour and movement.

Everything here is a function of what the client read and of ``now``; only :func:`progress` writes.
The modules with ``rich`` are loaded on first use, since plain lines need none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pumice.render.progress import progress
    from pumice.render.timeline import timeline, timeline_lines
    from pumice.render.waterfall import waterfall, waterfall_lines

__all__ = ["progress", "timeline", "timeline_lines", "waterfall", "waterfall_lines"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{name.removesuffix('_lines')}"), name)
