"""What the job controller and the applier share: their tools, and doing several things at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from services.controller.adapters.api import Api
from services.controller.adapters.memory import Memories
from services.controller.adapters.observer import Observer
from services.controller.adapters.publisher import Publisher
from services.controller.adapters.recorder import Recorder
from services.controller.adapters.trail import Trail
from services.controller.adapters.views import Views
from services.controller.settings import ControllerSettings
from shared.clock import Clock
from shared.keyed import RETRIED, KeyedLocks
from shared.kube.events import EventRecorder
from shared.telemetry.telemetry import Telemetry

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hands:
    """What the job controller and the applier work with."""

    settings: ControllerSettings
    clock: Clock
    views: Views
    api: Api
    observer: Observer
    publisher: Publisher
    recorder: Recorder
    placements: EventRecorder
    """Events on pods, apart from the others, which they would crowd out."""
    trail: Trail
    telemetry: Telemetry
    memories: Memories
    locks: KeyedLocks


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all to their end and return what they return.

    Raises the first error that is not the world's, else the first.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    if errors:
        raise next((error for error in errors if not isinstance(error, RETRIED)), errors[0])
    return [result for result in results if not isinstance(result, BaseException)]
