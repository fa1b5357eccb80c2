"""What plugins that are not Volcano's say of pods that may be evicted, and of queues' shares.

Asked for each gang that evicts, and of a queue when its object changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from services.scheduler.core.columns import BoolArray, SlotArray
from services.scheduler.core.own import Own, gang_view, kept
from shared.events.contracts import Gang, QueueState
from shared.plugins import Floats, Ints, QueueView, Texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from services.scheduler.core.model import Model
    from services.scheduler.core.pods import Pod

_BOUNDS: Final = (0.001, 1000.0)


@dataclass(frozen=True, slots=True)
class OwnVote:
    """A plugin's vote on who may be evicted."""

    own: Own
    method: Literal["preemptable", "reclaimable"]

    def __call__(self, model: Model, gang: Gang, rows: SlotArray) -> BoolArray | None:
        """Return which rows of the pods may go for a gang; None: it has nothing to say."""
        pods = _Pods(model, rows)
        return self.own.ask(self.method, rows.size, gang_view(gang), pods, flags=True)


@dataclass(frozen=True, slots=True)
class OwnShares:
    """What a plugin says of queues' shares."""

    own: Own

    def __call__(self, queues: Sequence[QueueState]) -> Floats:
        """Return how many times its weight, and what it names as ``deserved``, each queue gets."""
        answer = self.own.ask("shares", len(queues), [_queue(one) for one in queues], bounds=_BOUNDS)
        return np.ones(len(queues)) if answer is None else answer.astype(np.float64)


def _queue(state: QueueState) -> QueueView:
    return QueueView(
        state.name,
        state.parent,
        max(1, state.weight),
        state.priority,
        state.reclaimable,
        None if state.deserved is None else MappingProxyType(dict(state.deserved)),
        None if state.capability is None else MappingProxyType(dict(state.capability)),
        None if state.guarantee is None else MappingProxyType(dict(state.guarantee)),
        state.created_at,
    )


class _Pods:
    """Rows of pods as a plugin sees them: copies, each made when it is looked at."""

    def __init__(self, model: Model, rows: SlotArray) -> None:
        self._model = model
        self._rows = rows

    def __len__(self) -> int:
        return int(self._rows.size)

    @property
    def namespaces(self) -> Texts:
        keys = self._model.victims.keys
        return _texts([keys[row][0] for row in self._rows.tolist()])

    @property
    def names(self) -> Texts:
        keys = self._model.victims.keys
        return _texts([keys[row][1] for row in self._rows.tolist()])

    @property
    def gangs(self) -> Texts:
        return _texts(self._each(lambda pod: "" if pod.gang is None else pod.gang[1]))

    @property
    def queues(self) -> Texts:
        return _texts(self._each(lambda pod: pod.queue))

    @property
    def nodes(self) -> Texts:
        names = self._model.nodes.names
        return _texts([names[slot] for slot in self._model.victims.slot[self._rows].tolist()])

    @property
    def priorities(self) -> Ints:
        return kept(self._model.victims.rank[self._rows])

    @property
    def bound_at(self) -> Floats:
        return kept(self._model.victims.scheduled[self._rows])

    def requests(self, resource: str) -> Ints:
        names = self._model.resources.names
        column = names.index(resource) if resource in names else -1
        shapes = self._model.shapes.by_number
        table = np.array([dict(shape.amounts).get(column, 0) for shape in shapes], np.int64)
        return kept(table[self._model.victims.shape[self._rows]])

    def _each(self, text: Callable[[Pod], str]) -> list[str]:
        pods = self._model.victims.pods
        return ["" if (pod := pods[row]) is None else text(pod) for row in self._rows.tolist()]


def _texts(values: list[str]) -> npt.NDArray[Any]:
    return kept(np.array(values, np.str_))
