"""Volumes on nodes: how many of a driver a node takes, which are free on it, and who mounts which.

A volume that several pods of a node mount counts once there, so these are no columns of the node table, in
which every pod counts: for each volume it is kept how many pods mount it on which node, and a volume takes
its place with the first of them and gives it back with the last. What nobody mounts leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from services.scheduler.core.columns import IntArray, SlotArray
from services.scheduler.core.resources import UNLIMITED
from shared.events.contracts import Mount

_DRIVER: Final = "driver"
_FREE: Final = "free"
Kind = tuple[str, str]
"""What volumes are counted by: a driver's places, or free volumes of a kind."""


@dataclass(frozen=True, slots=True)
class Mounts:
    """What the pods of one shape mount, as far as it counts. Volumes are known by name."""

    shared: tuple[tuple[str, tuple[Kind, ...]], ...]
    """Volumes that all of them mount, and what each counts in."""
    own: tuple[tuple[Kind, int], ...]
    """How many volumes of a kind each pod has for itself."""

    @property
    def kinds(self) -> dict[Kind, tuple[list[str], int]]:
        """What is counted: the shared volumes, and how many more for each pod."""
        found: dict[Kind, tuple[list[str], int]] = {}
        for volume, kinds in self.shared:
            for kind in kinds:
                found.setdefault(kind, ([], 0))[0].append(volume)
        for kind, count in self.own:
            found[kind] = found.get(kind, ([], 0))[0], count
        return found


def mounts_key(mounts: Iterable[Mount]) -> Hashable:
    """Return what tells shapes apart by what they mount."""
    return tuple(sorted((one.volume, one.driver, one.free, one.exclusive) for one in mounts)) or None


def read_mounts(mounts: Sequence[Mount]) -> Mounts | None:
    """Return what counts of a pod's mounts; None for nothing."""
    shared = {one.volume: tuple(_kinds(one)) for one in sorted(mounts, key=lambda one: one.volume)}
    own: dict[Kind, int] = {}
    for one in mounts:
        for kind in () if one.volume else _kinds(one):
            own[kind] = own.get(kind, 0) + 1
    shared.pop("", None)
    return Mounts(tuple(shared.items()), tuple(sorted(own.items()))) if shared or own else None


def _kinds(mount: Mount) -> Iterable[Kind]:
    if mount.driver:
        yield _DRIVER, mount.driver
    if mount.free:
        yield _FREE, mount.free


@dataclass(slots=True)
class _Count:
    """Of one kind, by slot: how many there may be, and how many there are."""

    limits: IntArray
    used: IntArray
    otherwise: int
    """The limit of nodes that name none."""

    def fit(self, size: int) -> None:
        extra = size - self.limits.size
        if extra > 0:
            self.limits = np.pad(self.limits, (0, extra), constant_values=self.otherwise)
            self.used = np.pad(self.used, (0, extra))


class VolumesOnNodes:
    """The volumes of all nodes."""

    def __init__(self) -> None:
        self._counts: dict[Kind, _Count] = {}
        self._named: dict[int, dict[Kind, int]] = {}
        """By slot: the limits that its node names."""
        self._on: dict[str, dict[int, int]] = {}
        """How many pods mount a volume, by slot."""

    def set_limits(self, slot: int, drivers: Mapping[str, int], free: Mapping[str, int]) -> bool:
        """Take in what a node says; False when that is nothing new."""
        named = {(_DRIVER, name): limit for name, limit in drivers.items()}
        named |= {(_FREE, name): limit for name, limit in free.items()}
        before = self._named.get(slot, {})
        if named == before:
            return False
        for kind in before.keys() - named.keys():
            self._counts[kind].limits[slot] = self._counts[kind].otherwise
        for kind, limit in named.items():
            self._count(kind, slot + 1).limits[slot] = limit
        if named:
            self._named[slot] = named
        else:
            del self._named[slot]
        return True

    def mount(self, mounts: Mounts, slot: int, pods: int) -> None:
        """Let so many pods more (or, below 0, less) mount their volumes on a node."""
        for volume, kinds in mounts.shared:
            on = self._on.setdefault(volume, {})
            before = on.get(slot, 0)
            after = before + pods
            if after:
                on[slot] = after
            else:
                on.pop(slot, None)
                if not on:
                    del self._on[volume]
            if step := (after > 0) - (before > 0):
                for kind in kinds:
                    self._count(kind, slot + 1).used[slot] += step
        for kind, count in mounts.own:
            self._count(kind, slot + 1).used[slot] += count * pods

    def is_mounted(self, volume: str) -> bool:
        """Whether some pod that has a node mounts a volume."""
        return volume in self._on

    def used_on(self, slot: int) -> dict[Kind, int]:
        """Return how many volumes of each kind pods of a node mount, without zeros."""
        counts = ((kind, count.used) for kind, count in self._counts.items() if slot < count.used.size)
        return {kind: used.item(slot) for kind, used in counts if used[slot]}

    def fits(self, mounts: Mounts, slots: SlotArray, *, empty: bool = False) -> IntArray:
        """Return how many pods find place for their volumes on each node (``empty``: if none were there)."""
        fits = np.full(slots.size, UNLIMITED, np.int64)
        for kind, (volumes, own) in mounts.kinds.items():
            count = self._count(kind, int(slots.max(initial=-1)) + 1)
            room = count.limits[slots] - (0 if empty else count.used[slots])
            lacking = np.full(slots.size, len(volumes), np.int64)
            for volume in () if empty else volumes:
                lacking -= np.isin(slots, list(self._on.get(volume, ())))
            room -= lacking
            fits[(room < 0) & ((lacking > 0) | bool(own))] = 0
            if own:
                np.minimum(fits, np.maximum(room, 0) // own, out=fits)
        return fits

    def _count(self, kind: Kind, size: int) -> _Count:
        count = self._counts.get(kind)
        if count is None:
            otherwise = UNLIMITED if kind[0] == _DRIVER else 0
            count = self._counts[kind] = _Count(np.zeros(0, np.int64), np.zeros(0, np.int64), otherwise)
        count.fit(size)
        return count
