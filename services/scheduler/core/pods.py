"""A pod that exists, as far as it matters here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from services.scheduler.core.shapes import Shape

ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True, eq=False)
class Pod:
    """``slot`` is that of its node, -1 when it holds no room (not bound, or ended)."""

    uid: str
    shape: Shape
    slot: int
    gang: tuple[str, str] | None
    generation: int
    queue: str
    phase: str
    releasing: bool
    gated: bool
