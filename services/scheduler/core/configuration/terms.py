"""The words of a configuration file: what each is, which values it takes, and whether we do what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from services.scheduler.core.configuration.values import BOOLEAN, Kind


class Stand(Enum):
    """How we stand to a word of Volcano's."""

    DONE = "supported"
    """It does what it does in Volcano."""
    ALWAYS = "always on"
    """Done whether it is named or not; it cannot be switched off."""
    NEEDLESS = "no effect"
    """Accepted. It steers how Volcano gets to its result, and we get there in another way."""
    LACKING = "accepted, not done"
    """Not done (yet), and no reason to refuse the files that everybody has: it is told at each reading."""
    REFUSED = "refused"
    """We do not do it (yet): a file that asks for it is not taken."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a plugin or action.

    A name that ends in a dot is the beginning of names: the rest of each is a key (a resource, a zone).
    """

    name: str
    kind: Kind
    default: object
    """What holds when it is not named, as Volcano has it and as it would be written; None: nothing."""
    says: str
    stand: Stand = Stand.DONE
    harmless: tuple[object, ...] = ()
    """Values that are taken although the argument is not done, or always is: they ask for what we do."""
    why: str = ""
    """Why it is not as in Volcano."""

    @property
    def is_prefix(self) -> bool:
        """Whether it stands for many names."""
        return self.name.endswith(".")

    @property
    def unnamed(self) -> object:
        """The value when it is not named."""
        if self.is_prefix:
            return {}
        return None if self.default is None else self.kind.read(self.default)

    @property
    def shown(self) -> str:
        """The name for readers."""
        return f"{self.name}<key>" if self.is_prefix else self.name


def flag(
    name: str,
    says: str,
    *,
    default: bool,
    stand: Stand = Stand.DONE,
    harmless: tuple[object, ...] = (),
    why: str = "",
) -> Argument:
    """Return an argument that is true or false."""
    return Argument(name, BOOLEAN, default, says, stand, harmless, why)


@dataclass(frozen=True, slots=True)
class Vote:
    """A switch of a plugin that has the function which it switches."""

    stand: Stand = Stand.DONE
    why: str = ""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin of Volcano's. ``votes``: the switches for what it does; others change nothing in it."""

    name: str
    says: str
    stand: Stand = Stand.DONE
    why: str = ""
    votes: Mapping[str, Vote] = field(default_factory=dict[str, Vote])
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """An action of Volcano's."""

    name: str
    says: str
    stand: Stand = Stand.DONE
    why: str = ""
    arguments: tuple[Argument, ...] = ()


SWITCHES: Mapping[str, bool] = {
    "enableJobOrder": True,
    "enableHierarchy": False,
    "enableJobReady": True,
    "enableJobPipelined": True,
    "enableTaskOrder": True,
    "enablePreemptable": True,
    "enableReclaimable": True,
    "enablePreemptive": True,
    "enableQueueOrder": True,
    "enabledClusterOrder": False,
    "enablePredicate": True,
    "enableBestNode": True,
    "enableNodeOrder": True,
    "enableTargetJob": True,
    "enableReservedNodes": True,
    "enableJobEnqueued": True,
    "enabledVictim": True,
    "enableJobStarving": True,
    "enabledOverused": True,
    "enabledAllocatable": True,
    "enabledHyperNodeOrder": True,
    "enabledSubJobReady": True,
    "enabledSubJobPipelined": True,
    "enabledSubJobOrder": True,
    "enabledHyperNodeGradient": True,
}
"""Every switch, and what holds when it is not named. The spelling is Volcano's."""
