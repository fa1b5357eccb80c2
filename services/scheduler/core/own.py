"""Plugins that are not Volcano's, at the places of the core where they are asked (votes are in ``votes``).

What they answer is checked each time: a wrong answer is an error of the plugin, and never one of ours.
Where no plugin is configured there is nothing here to be passed through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from services.scheduler.core.columns import BoolArray, FloatArray, SlotArray
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.policy import Policy
from services.scheduler.core.rules import Limit
from services.scheduler.core.shapes import Shape
from services.scheduler.core.terms import Term
from shared.events.contracts import Gang
from shared.plugins import Bools, Floats, GangView, Ints, Plugin, PodShape, overrides

_NUMBERS: Final = "fiu"


class PluginError(Exception):
    """A plugin without which nothing is to be decided gave a wrong answer; the message names it."""


@dataclass(frozen=True, slots=True)
class Own:
    """A plugin as it is configured, and equal to any that is configured so: it answers the same."""

    name: str
    arguments: str
    """As JSON, keys sorted."""
    on_error: Literal["skip", "fatal"]
    plugin: Plugin = field(repr=False, compare=False)
    failures: Counter[str] = field(default_factory=Counter[str], repr=False, compare=False)
    """Errors that were skipped, in words, since whoever tells of them took them."""

    def says(self, method: str) -> bool:
        """Whether it has something to say by a method."""
        return overrides(self.plugin, method)

    def ask(
        self,
        method: str,
        count: int,
        *about: object,
        flags: bool = False,
        bounds: tuple[float, float] | None = None,
    ) -> npt.NDArray[Any] | None:
        """Return its answer: ``count`` flags or numbers (in ``bounds``); None when it is wrong and skipped.

        Raises PluginError when it is wrong and not to be skipped.
        """
        try:
            answer = np.asarray(getattr(self.plugin, method)(*about))
            problem = _wrong(answer, count, bounds, flags=flags)
        except Exception as error:  # noqa: BLE001 - whatever it raises is its trouble
            answer, problem = None, f"raised {type(error).__name__}: {error}"
        if not problem:
            return answer
        words = f"plugin {self.name}: {method}: {' '.join(problem.split())}"
        if self.on_error == "fatal":
            raise PluginError(words)
        self.failures[words] += 1
        return None


def _wrong(answer: npt.NDArray[Any], count: int, bounds: tuple[float, float] | None, *, flags: bool) -> str:
    if answer.shape != (count,):
        return f"answered with shape {answer.shape}, asked about {count}"
    kind = answer.dtype.kind
    if (kind != "b") if flags else (kind not in _NUMBERS):
        return f"answered with {answer.dtype}, {'bool' if flags else 'numbers'} were asked for"
    if not flags and not np.isfinite(answer).all():
        return "answered with a number that is none"
    if bounds is not None and ((answer < bounds[0]) | (answer > bounds[1])).any():
        return f"answered with a number that is not from {bounds[0]:g} to {bounds[1]:g}"
    return ""


# ---------------------------------------------------------------------- where they are asked


@dataclass(frozen=True, slots=True)
class OwnLimit:
    """Makes the limit of a plugin's ``feasible`` for a shape."""

    own: Own

    def __call__(self, shape: Shape, nodes: Nodes) -> Limit:
        """Return the test of nodes."""
        asked = _shape(shape, nodes)

        def limit(slots: SlotArray) -> BoolArray:
            answer = self.own.ask("feasible", slots.size, asked, _Nodes(nodes, slots), flags=True)
            return np.ones(slots.size, np.bool_) if answer is None else answer

        return limit


@dataclass(frozen=True, slots=True)
class OwnScores:
    """Makes the term of a plugin's ``scores`` for a shape."""

    own: Own

    def __call__(self, shape: Shape, nodes: Nodes) -> Term:
        """Return the term."""
        return _OwnTerm(self.own, shape, nodes)


class _OwnTerm(Term):
    def __init__(self, own: Own, shape: Shape, nodes: Nodes) -> None:
        self._own = own
        self._nodes = nodes
        self._shape = _shape(shape, nodes)
        self.rising = own.plugin.rising

    def many(self, slots: SlotArray) -> FloatArray:
        answer = self._own.ask("scores", slots.size, self._shape, _Nodes(self._nodes, slots))
        return np.zeros(slots.size) if answer is None else answer.astype(np.float64)


@dataclass(frozen=True, slots=True)
class OwnOrder:
    """A plugin's ``order`` of gangs."""

    own: Own

    def __call__(self, gang: Gang) -> float:
        """Return a gang's place: the least comes first."""
        answer = self.own.ask("order", 1, [gang_view(gang)])
        return 0.0 if answer is None else float(answer[0])


def limits_of(policy: Policy) -> dict[str, OwnLimit]:
    """Return the limits that a policy's own plugins set, by their names."""
    return {own.name: OwnLimit(own) for own in policy.own if own.says("feasible")}


# ---------------------------------------------------------------------- what they see


def _shape(shape: Shape, nodes: Nodes) -> PodShape:
    names = nodes.resources.names
    requests = {names[column]: amount for column, amount in shape.requested}
    return PodShape(MappingProxyType(requests), MappingProxyType(shape.rules.selector))


def gang_view(gang: Gang) -> GangView:
    """Return a gang as a plugin sees it."""
    total: Counter[str] = Counter()
    for task in gang.tasks:
        for name, amount in task.shape.requests.items():
            total[name] += amount * len(task.members)
    return GangView(
        gang.namespace,
        gang.name,
        gang.queue,
        gang.priority,
        gang.priority_class,
        gang.created_at,
        gang.ready_since,
        sum(len(task.members) for task in gang.tasks),
        gang.min_member,
        MappingProxyType(dict(total)),
    )


class _Nodes:
    """Some nodes as a plugin sees them: copies of their columns, which are not to be written."""

    def __init__(self, nodes: Nodes, slots: SlotArray) -> None:
        self._nodes = nodes
        self._slots = slots

    def __len__(self) -> int:
        return int(self._slots.size)

    @property
    def names(self) -> Sequence[str]:
        names = self._nodes.names
        return [names[slot] for slot in self._slots.tolist()]

    def allocatable(self, resource: str) -> Ints:
        return self._column(self._nodes.allocatable, resource)

    def used(self, resource: str) -> Ints:
        return self._column(self._nodes.used, resource)

    def where(self, label: str, test: Callable[[str | None], bool]) -> Bools:
        column = self._nodes.label(label)
        table = np.array([bool(test(value)) for value in column.values], np.bool_)
        return kept(table[column.codes[self._slots]])

    def numbers(self, label: str, default: float) -> Floats:
        column = self._nodes.label(label)
        table = np.array([_number(value, default) for value in column.values])
        return kept(table[column.codes[self._slots]])

    def _column(self, rows: Ints, resource: str) -> Ints:
        names = self._nodes.resources.names
        column = names.index(resource) if resource in names else rows.shape[0]
        return kept(rows[column][self._slots] if column < rows.shape[0] else np.zeros(len(self), np.int64))


def _number(value: str | None, default: float) -> float:
    try:
        found = float(value or "")
    except ValueError:
        return default
    return found if np.isfinite(found) else default


def kept(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array that is not to be written."""
    array.setflags(write=False)
    return array
