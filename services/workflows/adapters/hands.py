"""What the controllers of this service share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from services.workflows.adapters.api import Api
from services.workflows.adapters.views import Views
from services.workflows.core.model import Note
from services.workflows.settings import WorkflowsSettings
from shared.clock import Clock
from shared.kube.events import EventRecorder
from shared.kube.port import JSON
from shared.telemetry.telemetry import Telemetry


@dataclass(slots=True)
class Told:
    """What was said about each object, so that a state that lasts is said once."""

    _by_key: dict[str, frozenset[Note]] = field(default_factory=dict[str, frozenset[Note]])

    def fresh(self, key: str, notes: Iterable[Note]) -> list[Note]:
        """Return those that the look before did not have."""
        said, now = self._by_key.get(key, frozenset()), list(dict.fromkeys(notes))
        if now:
            self._by_key[key] = frozenset(now)
        else:
            self.forget(key)
        return [note for note in now if note not in said]

    def forget(self, key: str) -> None:
        """Drop what was said about an object that is gone."""
        self._by_key.pop(key, None)


@dataclass(frozen=True, slots=True)
class Hands:
    """The tools of the controllers. ``add_after(key, seconds)`` has an object looked at again."""

    settings: WorkflowsSettings
    clock: Clock
    views: Views
    api: Api
    recorder: EventRecorder
    telemetry: Telemetry
    add_after: Callable[[str, float], None]
    told: Told = field(default_factory=Told)

    def tell(self, about: JSON, notes: Iterable[Note]) -> None:
        """Write events about an object."""
        for note in notes:
            self.recorder.record(about, note.reason, note.message, warning=note.warning)
