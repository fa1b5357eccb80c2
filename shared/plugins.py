"""What a scheduler plugin is: the one module that a plugin imports.

A plugin is an object made from the ``arguments`` that the scheduler's configuration names; its maker (a
class will do) is an entry point of the group ``pumice.scheduler_plugins``. It overrides those methods of
:class:`Plugin` that it has something to say by. ``examples/plugins`` is a whole one.

Every method is asked about many things at once and answers with one array, in the same order. The
scheduler keeps answers until something changes that they may follow from, and it decides alike after a
restart, so an answer must follow from what is given and from ``arguments`` alone: not from the time, chance,
calls before, or which other nodes were asked about with it. It is awaited: no files, no network.

An answer with another length, of another type, or with a number that is none (NaN, infinite) is an error,
as is anything that is raised. What becomes of errors the configuration says (``onError``): ``skip`` goes
on as if the plugin had nothing to say, ``fatal`` decides nothing until the plugin is mended.

The version of all this is ``API``: it rises when a plugin that worked would not work any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

API: Final = 1
GROUP: Final = "pumice.scheduler_plugins"

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Texts = npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class PodShape:
    """What pods of one template ask for. Amounts are in base units (milli-CPU, bytes, counts)."""

    requests: Mapping[str, int]
    node_selector: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GangView:
    """A gang that waits. ``pods`` is the number of its members, ``minimum`` how many must run."""

    namespace: str
    name: str
    queue: str
    priority: int
    priority_class: str
    created_at: datetime
    ready_since: datetime
    pods: int
    minimum: int
    requests: Mapping[str, int]
    """Of all its members together."""


class NodesView(Protocol):
    """Some nodes, as columns: every array has an entry for each node and is not to be written."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """Return their names."""
        ...

    def allocatable(self, resource: str) -> Ints:
        """Return what each has of a resource; zeros for one that is unknown."""
        ...

    def used(self, resource: str) -> Ints:
        """Return what pods hold on each, decisions in flight included. Not for ``feasible``."""
        ...

    def where(self, label: str, test: Callable[[str | None], bool]) -> Bools:
        """Test each node's value of a label, None where it has none; each value is tested once."""
        ...

    def numbers(self, label: str, default: float) -> Floats:
        """Return each node's value of a label as a number, ``default`` where it is none."""
        ...


class PodsView(Protocol):
    """Some pods on nodes, as columns: every array has an entry for each pod and is not to be written.

    Their labels and annotations are not among the facts that a scheduler has.
    """

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    @property
    def namespaces(self) -> Texts:
        """Return their namespaces."""
        ...

    @property
    def names(self) -> Texts:
        """Return their names."""
        ...

    @property
    def gangs(self) -> Texts:
        """Return the names of their gangs (PodGroups); empty: it has none."""
        ...

    @property
    def queues(self) -> Texts:
        """Return their queues; empty: it has none."""
        ...

    @property
    def nodes(self) -> Texts:
        """Return the names of their nodes."""
        ...

    @property
    def priorities(self) -> Ints:
        """Return of each its priority or its gang's, whichever is the higher."""
        ...

    @property
    def bound_at(self) -> Floats:
        """Return when each was bound (POSIX seconds)."""
        ...

    def requests(self, resource: str) -> Ints:
        """Return what each holds of a resource; zeros for one that is unknown."""
        ...


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue as its Queue object says it is. Amounts are in base units; None: it names none."""

    name: str
    parent: str
    """Empty: it is below the root."""
    weight: int
    priority: int
    reclaimable: bool
    deserved: Mapping[str, int] | None
    capability: Mapping[str, int] | None
    guarantee: Mapping[str, int] | None
    created_at: datetime | None


class Plugin:
    """Override what you have something to say by."""

    rising: bool = False
    """A pod on a node never lowers the node's ``scores``: then whole nodes are filled at a time, otherwise
    scores are asked for anew after each pod."""

    def feasible(self, shape: PodShape, nodes: NodesView) -> Bools:
        """Say which nodes pods of a shape may run on.

        Asked again of a node when its labels, taints or capacity change: what is used must not matter.
        """
        raise NotImplementedError

    def scores(self, shape: PodShape, nodes: NodesView) -> Floats:
        """Say how good each node is for one more pod of a shape; more is better.

        It is added to the other scores, which are 0 to 100 times their weights.
        """
        raise NotImplementedError

    def order(self, gangs: Sequence[GangView]) -> Floats:
        """Say in which order gangs of a queue come: the least first."""
        raise NotImplementedError

    def preemptable(self, gang: GangView, pods: PodsView) -> Bools:
        """Say which pods of lower priority in its own queue may be evicted for a gang.

        It is a vote: those that vote in the same tier of the configuration must all agree, and the first tier
        that leaves anybody decides. A gang that may not shrink goes whole: one pod that must stay keeps it.
        Of gangs of a queue that need the same it is asked for the first in order.
        """
        raise NotImplementedError

    def reclaimable(self, gang: GangView, pods: PodsView) -> Bools:
        """Say which pods of other queues, which hold more than they deserve, may be evicted for a gang.

        A vote as in :meth:`preemptable`. A plugin that has only one of both abstains from the other.
        """
        raise NotImplementedError

    def shares(self, queues: Sequence[QueueView]) -> Floats:
        """Say how much more or less than named each queue gets: 1 is what its object says.

        Its weight and its ``deserved`` are taken so many times (0.001 to 1000); what it is guaranteed, and
        what it may hold at most, stay.
        """
        raise NotImplementedError


Maker = Callable[[Mapping[str, object]], Plugin]
"""Makes a plugin of its arguments. Raises ValueError, in words for the operator, when they are wrong."""


def overrides(plugin: Plugin, method: str) -> bool:
    """Say whether a plugin has something to say by a method."""
    return getattr(type(plugin), method) is not getattr(Plugin, method)
