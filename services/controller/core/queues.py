"""Queues: their states, what moves them, and how a parent's state reaches its children.

States
======
Only an Open queue takes new jobs. Closing one that is in use makes it Closing; it is Closed when the last of
its podgroups is gone or Completed (Volcano waits until the completed ones are deleted, too). Unknown is what
somebody else wrote and nobody here understands: only a command leads out of it.

A queue below one that is closing or closed is closed with it and marked ``volcano.sh/closed-by-parent``; what
carries the mark is opened again with its parent, what was closed by a command is not. Nothing is remembered:
each queue is compared with its parent whenever one of them changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from services.controller.core.model import JSON
from shared.api import names
from shared.api.scheduling import QueueState


class QueueTrigger(StrEnum):
    """What moves a queue: commands (Volcano's action names), then findings."""

    OPEN = "OpenQueue"
    CLOSE = "CloseQueue"

    NEW = "it has no state yet"
    PARENT_CLOSED = "its parent is closed"
    PARENT_OPENED = "its parent is open again"
    EMPTIED = "no podgroup in use"


COMMANDS: Final = frozenset({QueueTrigger.OPEN, QueueTrigger.CLOSE})

TRANSITIONS: Final[Mapping[QueueState | None, Mapping[QueueTrigger, QueueState]]] = MappingProxyType(
    {
        None: {QueueTrigger.NEW: QueueState.OPEN},
        QueueState.OPEN: {
            QueueTrigger.CLOSE: QueueState.CLOSING,
            QueueTrigger.PARENT_CLOSED: QueueState.CLOSING,
        },
        QueueState.CLOSING: {
            QueueTrigger.OPEN: QueueState.OPEN,
            QueueTrigger.PARENT_OPENED: QueueState.OPEN,
            QueueTrigger.EMPTIED: QueueState.CLOSED,
        },
        QueueState.CLOSED: {
            QueueTrigger.OPEN: QueueState.OPEN,
            QueueTrigger.PARENT_OPENED: QueueState.OPEN,
        },
        QueueState.UNKNOWN: {
            QueueTrigger.OPEN: QueueState.OPEN,
            QueueTrigger.CLOSE: QueueState.CLOSING,
        },
    }
)
"""What each trigger does in each state (None: none yet); what is not here changes nothing."""

_SHUT: Final = frozenset({QueueState.CLOSING, QueueState.CLOSED})
_STATES: Final = {state.value: state for state in QueueState}
_MARKED: Final = "true"
_UNMARKED: Final = "false"


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue as it is stored; ``state`` None: it has none yet."""

    name: str
    uid: str
    state: QueueState | None
    parent: str = ""
    """As written; empty: the root, for all but the root itself."""
    mark: str = ""
    """``volcano.sh/closed-by-parent`` as written."""

    @property
    def marked(self) -> bool:
        """Whether its parent closed it."""
        return self.mark == _MARKED


@dataclass(frozen=True, slots=True)
class QueueNote:
    """A Kubernetes event on the queue; the reason is Volcano's: the command's name."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """What a queue becomes; None: it stays."""

    state: QueueState | None = None
    mark: str | None = None
    parent: str | None = None
    notes: tuple[QueueNote, ...] = ()


def read_queue(raw: JSON) -> QueueView:
    """Read a queue; a state that nobody knows is Unknown."""
    meta = raw["metadata"]
    state: str = (raw.get("status") or {}).get("state") or ""
    return QueueView(
        name=meta["name"],
        uid=meta["uid"],
        state=_STATES.get(state, QueueState.UNKNOWN) if state else None,
        parent=(raw.get("spec") or {}).get("parent") or "",
        mark=(meta.get("annotations") or {}).get(names.CLOSED_BY_PARENT, ""),
    )


def parent_of(raw: JSON) -> str:
    """Return the name of the queue above; empty for the root."""
    if raw["metadata"]["name"] == names.ROOT_QUEUE:
        return ""
    return (raw.get("spec") or {}).get("parent") or names.ROOT_QUEUE


def plan_queue(
    queue: QueueView, parent: QueueView | None, in_use: int, command: QueueTrigger | None = None
) -> QueuePlan:
    """Decide what a queue becomes.

    ``in_use`` counts its podgroups that are not Completed. ``parent`` is None for the root, and for a queue
    whose parent is not there: then nothing comes from above.
    """
    moving = _Moving(queue)
    moving.take(QueueTrigger.NEW)
    if command is not None:
        moving.obey(command, parent)
    elif parent is not None and parent.state in _SHUT and moving.take(QueueTrigger.PARENT_CLOSED):
        moving.mark = _MARKED
    elif (
        parent is not None
        and parent.state is QueueState.OPEN
        and queue.marked
        and moving.take(QueueTrigger.PARENT_OPENED)
    ):
        moving.mark = _UNMARKED
    if not in_use:
        moving.take(QueueTrigger.EMPTIED)
    return moving.plan()


class _Moving:
    """A queue on its way through the transitions of one plan."""

    def __init__(self, queue: QueueView) -> None:
        self._before = queue
        self.state = queue.state
        self.mark = queue.mark
        self._notes: list[QueueNote] = []

    def take(self, trigger: QueueTrigger) -> bool:
        """Follow a trigger; say whether it meant something."""
        after = TRANSITIONS[self.state].get(trigger)
        if after is None:
            return False
        self.state = after
        return True

    def obey(self, command: QueueTrigger, parent: QueueView | None) -> None:
        """Follow a command; one that cannot be obeyed says why, one that changes nothing says nothing."""
        refusal = self._refusal(command, parent)
        if refusal:
            self._notes.append(QueueNote(command, refusal, warning=True))
            return
        if self.mark:
            # A close by command outlasts the parent's opening, also of a queue that its parent closed.
            self.mark = _UNMARKED
        if self.take(command):
            verb = "Open" if command is QueueTrigger.OPEN else "Close"
            self._notes.append(QueueNote(command, f"{verb} queue succeed"))

    def _refusal(self, command: QueueTrigger, parent: QueueView | None) -> str:
        name = self._before.name
        if command is QueueTrigger.CLOSE and name == names.ROOT_QUEUE:
            return "Close queue failed: the root queue holds all others and cannot be closed"
        if command is QueueTrigger.OPEN and parent is not None and parent.state in _SHUT:
            return (
                f"Open queue failed: the queue above {name}, {parent.name}, is {str(parent.state).lower()}:"
                " open that one first"
            )
        return ""

    def plan(self) -> QueuePlan:
        before = self._before
        found = QueuePlan(notes=tuple(self._notes))
        if self.state is not before.state:
            found = replace(found, state=self.state)
        if self.mark != before.mark:
            found = replace(found, mark=self.mark)
        if not before.parent and before.name != names.ROOT_QUEUE:
            found = replace(found, parent=names.ROOT_QUEUE)
        return found
