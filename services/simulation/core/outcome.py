"""The outcome of a scenario, as it is printed with ``-o json``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from services.simulation.core.history import Evicted, GangRecord, History


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened until ``end`` (seconds since the beginning), and how queues fared."""

    history: History
    queues: dict[str, Any]
    end: float

    def as_json(self) -> dict[str, Any]:
        """Return it as data; see docs/simulate.md for each field."""
        history = self.history
        return {
            "bindings": dict(sorted(history.bindings.items())),
            "evicted": [_evicted(one) for one in history.evicted],
            "gangs": {name: _gang(record) for name, record in sorted(history.gangs.items())},
            "queues": self.queues,
            "events": history.events,
        }


def _evicted(one: Evicted) -> dict[str, Any]:
    return {"pod": one.pod, "at": one.at, "for": one.beneficiary, "reason": one.reason}


def _gang(record: GangRecord) -> dict[str, Any]:
    return {name: value for name, value in asdict(record).items() if name != "queue"}
