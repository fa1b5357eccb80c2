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
from services.controller.adapters.run_times import RunTimes
from services.controller.adapters.trail import Trail
from services.controller.adapters.views import Views
from services.controller.core.model import JSON, GroupView
from services.controller.core.podgroups import STARTED
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
    """Events on what is placed, apart from the others, which they would crowd out."""
    trail: Trail
    run_times: RunTimes
    telemetry: Telemetry
    memories: Memories
    locks: KeyedLocks

    def tell_start(self, group: GroupView, patch: JSON, minimum: int) -> None:
        """Have an event say that a gang started, if the patch of its PodGroup does, in Volcano's words.

        A gang of one has none, so that it costs no write more than its pod, unless every pod is to have one.
        """
        starts = (patch.get("status") or {}).get("phase") in STARTED and group.phase not in STARTED
        if starts and (minimum > 1 or self.settings.scheduled_events):
            self.placements.record(group.raw, "Scheduled", "pod group is ready")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all to their end and return what they return.

    Raises the first error that is not the world's, else the first.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    if errors:
        raise next((error for error in errors if not isinstance(error, RETRIED)), errors[0])
    return [result for result in results if not isinstance(result, BaseException)]
