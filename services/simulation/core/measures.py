"""What queues have, deserve and their shares, over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from services.scheduler.core.model import Model
from services.scheduler.core.resources import PODS


@dataclass(slots=True)
class Course:
    """A quantity over time: it holds from one note to the next."""

    end: float = 0.0
    peak: float = 0.0
    _area: float = 0.0
    _since: float = 0.0

    def note(self, at: float, value: float) -> None:
        """Note a value from a time on (seconds, never going back)."""
        self._area += self.end * (at - self._since)
        self._since, self.end, self.peak = at, value, max(self.peak, value)

    def mean(self, until: float) -> float:
        """Return the mean from the beginning until a time."""
        return (self._area + self.end * (until - self._since)) / until if until > 0 else self.end

    def as_json(self, until: float) -> dict[str, float]:
        """Return the value at the end, the largest and the mean."""
        numbers = {"end": self.end, "peak": self.peak, "mean": self.mean(until)}
        return {name: round(value, 6) for name, value in numbers.items()}


@dataclass(slots=True)
class _Queue:
    allocated: dict[str, Course] = field(default_factory=dict[str, Course])
    deserved: dict[str, Course] = field(default_factory=dict[str, Course])
    share: Course = field(default_factory=Course)


class Measures:
    """Follows all queues."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._queues: dict[str, _Queue] = {}

    def note(self, at: float) -> None:
        """Note how things are from now on."""
        model = self._model
        names = model.resources.names
        shares = model.shares()
        for name, queue in model.queues.by_name.items():
            course = self._queues.get(name)
            if course is None:
                if not queue.known:
                    continue
                course = self._queues[name] = _Queue()
            held = {names[column]: float(queue.uses(column)) for column in queue.held if column != PODS}
            due = {
                names[column]: part
                for column, part in shares.deserved(queue).items()
                if column != PODS and isfinite(part)
            }
            _note(course.allocated, at, held)
            _note(course.deserved, at, due)
            course.share.note(at, shares.share(queue))

    def as_json(self, until: float) -> dict[str, Any]:
        """Return each queue's courses; amounts in base units (CPU in milli-CPU)."""
        return {
            name: {
                "allocated": {one: course.as_json(until) for one, course in queue.allocated.items()},
                "deserved": {one: course.as_json(until) for one, course in queue.deserved.items()},
                "share": queue.share.as_json(until),
            }
            for name, queue in sorted(self._queues.items())
        }


def _note(courses: dict[str, Course], at: float, values: Mapping[str, float]) -> None:
    for name in values:
        courses.setdefault(name, Course())
    for name, course in courses.items():
        course.note(at, values.get(name, 0.0))
