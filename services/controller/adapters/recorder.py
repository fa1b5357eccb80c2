"""Kubernetes events about jobs."""

from __future__ import annotations

from services.controller.core.model import Wanted
from services.controller.core.plans import Note
from shared.kube.events import EventRecorder


class Recorder(EventRecorder):
    """Writes what the job controller notes."""

    def note(self, wanted: Wanted, note: Note) -> None:
        """Have an event about a job written soon."""
        self.record(wanted.raw, note.reason.value, note.message, warning=note.warning)
