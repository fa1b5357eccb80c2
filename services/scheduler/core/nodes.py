"""The nodes as columns, changed by events, never rebuilt.

A node has a *slot*, the index into every column. A slot is given at the first sight of a node's name,
be it by the node or by a pod on it, and is free again when neither is left; so the order of arrival
does not matter. Amounts are int64 in base units, arrays are ``[resource, slot]`` so that one resource
of all nodes is contiguous.

Two logs let others follow at the cost of the change: ``log`` has the slot of every change of room or
rules; ``rules_log`` only of those of rules (labels, taints, readiness, capacity). ``grown`` collects slots
where something may fit that did not fit before, until the cycle takes it; ``moved`` those where room was
taken or freed for good: trials that are taken back are in ``log``, but not here.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from services.scheduler.core.answers import Answers
from services.scheduler.core.columns import BoolArray, ChangeLog, CodeArray, IntArray, LabelColumn, SlotArray
from services.scheduler.core.images import ImagesOnNodes
from services.scheduler.core.load import LoadOnNodes
from services.scheduler.core.numa import NumaOnNodes
from services.scheduler.core.resources import PODS, UNLIMITED, Amounts, Resources
from services.scheduler.core.volumes import Mounts, VolumesOnNodes
from shared.api.matching import TaintKey
from shared.api.names import REVOCABLE_ZONE
from shared.events.contracts import Device, NumaTopology

_SMALL: Final = 6
"""Up to so many nodes, scalar updates are faster than array operations (measured)."""
_FEW: Final = 16


class Nodes:
    """Columns over node slots, and the logs of their changes."""

    allocatable_rows: list[memoryview]
    used_rows: list[memoryview]
    over_row: memoryview
    """The same memory as the arrays, by resource: single numbers are read and set three times as fast."""

    def __init__(self, resources: Resources, pool: str) -> None:  # noqa: PLR0915 - a line for each column
        self.resources = resources
        self.pool = pool
        self.names: list[str] = []
        self.slots: dict[str, int] = {}
        self.holders: list[int] = []
        """Pods that refer to the slot."""
        self.labels: list[Mapping[str, str]] = []
        self.devices: list[tuple[Device, ...]] = []
        self.devices_version = 0
        """Rises when the devices of some node change; what they have is in the columns."""
        self.allocatable: IntArray = np.zeros((len(resources), 16), np.int64)
        self.used: IntArray = np.zeros((len(resources), 16), np.int64)
        self.releasing: IntArray = np.zeros((len(resources), 16), np.int64)
        """What pods hold that are leaving."""
        self.earmarked: IntArray = np.zeros((len(resources), 16), np.int64)
        """What is kept for gangs. First it is to come from what is leaving; only the rest counts as used."""
        self.kept: IntArray = np.zeros((len(resources), 16), np.int64)
        """What of the free room is kept for gangs that have waited for long; it counts as used."""
        self.exists: BoolArray = np.zeros(16, np.bool_)
        self.mine: BoolArray = np.zeros(16, np.bool_)
        """The node exists and is of our pool."""
        self.ready: BoolArray = np.zeros(16, np.bool_)
        """It is ours and ready."""
        self.unschedulable: BoolArray = np.zeros(16, np.bool_)
        self.over: BoolArray = np.zeros(16, np.bool_)
        """More is used than there is, in some resource (``lacking``): nothing is placed there."""
        self.taint_code: CodeArray = np.zeros(16, np.int32)
        self.taint_sets: list[tuple[TaintKey, ...]] = [()]
        self._taint_codes: dict[tuple[TaintKey, ...], int] = {(): 0}
        self.version: list[int] = []
        self.log = ChangeLog()
        self.rules_log = ChangeLog()
        self.grown: set[int] = set()
        self.moved: set[int] = set()
        self.capacity_version = self.room_version = 0
        """The first rises when what nodes have in all, or their rules, change: not with pods. The second does
        whenever room is taken or freed for good: not with trials that are taken back."""
        self.zones: frozenset[str] | None = None
        """The zones (label ``volcano.sh/revocable-zone``) that are open; None: they mean nothing."""
        self.volumes = VolumesOnNodes()
        self.numa = NumaOnNodes()
        self.load = LoadOnNodes()
        self.images = ImagesOnNodes()
        self.answers = Answers()
        """What an extender said of nodes."""
        self.count = 0
        self._free: list[int] = []
        self._sorted: list[str] = []
        self._unsorted: list[str] = []
        self._by_name: SlotArray = np.zeros(0, np.intp)
        self._columns: dict[str, LabelColumn] = {}
        self._view()
        self._totals: tuple[int, dict[int, int]] = -1, {}
        """Of which version of the capacity, and what ``totals`` says then."""

    # ------------------------------------------------------------------ events

    def upsert(
        self,
        name: str,
        *,
        pool: str,
        labels: Mapping[str, str],
        taints: Sequence[TaintKey],
        unschedulable: bool,
        ready: bool,
        allocatable: Mapping[str, int],
        volume_limits: Mapping[str, int],
        free_volumes: Mapping[str, int],
        images: Mapping[str, int],
        devices: tuple[Device, ...] = (),
        numa: NumaTopology | None = None,
    ) -> None:
        """Take in a node's facts; the same facts again change nothing."""
        slot = self.slot(name)
        new = not self.exists[slot]
        code = self._taint_code(tuple(sorted(taints)))
        mine = pool == self.pool
        usable = ready and mine
        rules = (
            new
            or self.mine[slot] != mine
            or self.ready[slot] != usable
            or self.unschedulable[slot] != unschedulable
            or self.taint_code[slot] != code
            or self.labels[slot] != labels
        )
        room = self._set_allocatable(slot, allocatable)
        room |= self.volumes.set_limits(slot, volume_limits, free_volumes)
        self.images.set(slot, images)
        if self.devices[slot] != devices:
            self._set_devices(slot, devices)
            rules = True
        rules |= self.numa.set(slot, numa)
        if new:
            self.exists[slot] = True
            self.count += 1
            self._unsorted.append(name)
        if rules:
            self.mine[slot] = mine
            self.ready[slot] = usable
            self.unschedulable[slot] = unschedulable
            self.taint_code[slot] = code
            self._set_labels(slot, labels)
        if rules or room:
            self.rules_log.append(slot)
            self.capacity_version += 1
            self._weigh(slot)
            self.touch(slot)
            self.grown.add(slot)

    def open(self, zones: frozenset[str] | None) -> None:
        """Let only these zones be open; nodes of those that opened or closed have other rules from now on."""
        if zones == self.zones:
            return
        column = self.label(REVOCABLE_ZONE)
        changed = None if zones is None or self.zones is None else zones ^ self.zones
        table = np.array([bool(value) and (changed is None or value in changed) for value in column.values])
        self.zones = zones
        self.note_rules(np.flatnonzero(table[column.codes] & self.exists).tolist())

    def heed_numa(self, heeded: bool) -> None:
        """Let NUMA nodes count, or not, where pods have CPUs for themselves."""
        if self.numa.heeded != heeded:
            self.numa.heeded = heeded
            self.note_rules(np.flatnonzero(self.exists).tolist())

    def note_rules(self, slots: Iterable[int]) -> None:
        """Note that nodes are for other pods than before."""
        for slot in slots:
            self.rules_log.append(slot)
            self.touch(slot)
            self.grown.add(slot)
        self.capacity_version += bool(slots)

    def remove(self, name: str) -> None:
        """Forget a node; pods on it keep the slot, and a node of that name finds them again."""
        slot = self.slots.get(name)
        if slot is None or not self.exists[slot]:
            return
        self.exists[slot] = self.mine[slot] = self.ready[slot] = False
        self.allocatable[:, slot] = 0
        self.volumes.set_limits(slot, {}, {})
        self.images.set(slot, {})
        self._set_labels(slot, {})
        self._set_devices(slot, ())
        self.numa.set(slot, None)
        self.count -= 1
        if name in self._unsorted:
            self._unsorted.remove(name)
        else:
            position = bisect_left(self._sorted, name)
            del self._sorted[position]
            self._by_name = np.delete(self._by_name, position)
        self.rules_log.append(slot)
        self.capacity_version += 1
        self._weigh(slot)
        self.touch(slot)
        self._reuse(slot)

    def hold(self, name: str) -> int:
        """Return the slot of a node that a pod refers to, and keep it until ``release``."""
        slot = self.slot(name)
        self.holders[slot] += 1
        return slot

    def release(self, slot: int) -> None:
        """Undo one ``hold``."""
        self.holders[slot] -= 1
        self._reuse(slot)

    def charge(self, slot: int, amounts: Amounts, sign: int, mounts: Mounts | None = None) -> None:
        """Add (``sign`` 1) or take off (-1) one pod's amounts and mounts by an event."""
        used, allocatable = self.used_rows, self.allocatable_rows
        over = self.over_row[slot]
        for column, amount in amounts:
            row = used[column]
            row[slot] = now = row[slot] + sign * amount
            over = over or now > allocatable[column][slot]
        if mounts is not None:
            self.volumes.mount(mounts, slot, sign)
        if over:
            self._weigh(slot)
        self.version[slot] = self.log.append(slot)
        self.moved.add(slot)
        self.room_version += 1
        if sign < 0:
            self.grown.add(slot)

    def mark_releasing(self, slot: int, amounts: Amounts, sign: int) -> None:
        """Note that a pod's room will be free soon (or not after all)."""
        self._set_aside(self.releasing, slot, amounts, sign)

    def earmark(self, slot: int, amounts: Amounts, sign: int) -> None:
        """Keep room for a gang (or no longer)."""
        self._set_aside(self.earmarked, slot, amounts, sign)

    def _set_aside(self, sums: IntArray, slot: int, amounts: Amounts, sign: int) -> None:
        """Change what is leaving or kept; what is kept and not to come from the leaving is used."""
        less = more = False
        for column, amount in amounts:
            before = max(0, self.earmarked.item(column, slot) - self.releasing.item(column, slot))
            sums[column, slot] += sign * amount
            after = max(0, self.earmarked.item(column, slot) - self.releasing.item(column, slot))
            self.used[column, slot] += after - before
            less, more = less or after < before, more or after > before
        self.room_version += 1
        if less or more:
            self._weigh(slot)
            self.touch(slot)
            self.moved.add(slot)
        if less:
            self.grown.add(slot)

    def keep(self, slots: SlotArray, kept: IntArray, *, lasting: bool) -> None:
        """Keep so much of the free room, [column, slot], instead of what was kept; ``lasting``: no trial.

        Nothing is kept in columns beyond those given.
        """
        height = kept.shape[0]
        change = kept - self.kept[:height, slots]
        touched = slots[change.any(axis=0)]
        if not touched.size:
            return
        self.kept[:height, slots] = kept
        self.used[:height, slots] += change
        self.over[touched] = self._is_over(touched)
        self._touch_all(touched.tolist())
        if lasting:
            self.move(touched.tolist())
            self.grown.update(slots[(change < 0).any(axis=0)].tolist())

    def move(self, slots: Iterable[int]) -> None:
        """Note that room was taken or freed on nodes for good."""
        self.moved.update(slots)
        self.room_version += 1

    @contextmanager
    def relieved(self, less: IntArray) -> Iterator[None]:
        """Let nodes be used by so much less, [column, slot], for as long as it takes: a trial."""
        slots = np.flatnonzero(less.any(axis=0))
        self._relieve(slots, -less[:, slots])
        try:
            yield
        finally:
            self._relieve(slots, less[:, slots])

    def _relieve(self, slots: SlotArray, change: IntArray) -> None:
        self.used[: change.shape[0], slots] += change
        self.over[slots] = self._is_over(slots)
        self._touch_all(slots.tolist())

    def lacking(self, free: IntArray) -> BoolArray:
        """Return by slot whether less than nothing is free, [column, slot], of something.

        A single device or NUMA node aside: what is used of one that is broken, or gone, keeps nobody from the
        others.
        """
        less = free < 0
        if self.resources.of_parts:
            less[self.resources.of_parts] = False
        return np.asarray(less.any(axis=0))

    def future(self, columns: Sequence[int] | slice = slice(None)) -> IntArray:
        """Return what will be free for anybody once all that is leaving has left: [column, slot]."""
        leaving: IntArray = np.maximum(self.releasing[columns] - self.earmarked[columns], 0)
        free: IntArray = self.allocatable[columns] - self.used[columns] + leaving
        return free

    # ------------------------------------------------------------------ placement

    def place(
        self, amounts: Amounts, slots: Sequence[int], counts: Sequence[int], mounts: Mounts | None = None
    ) -> None:
        """Charge ``counts[i]`` pods to ``slots[i]``; the slots are distinct and have the room."""
        if mounts is not None:
            for slot, count in zip(slots, counts, strict=True):
                self.volumes.mount(mounts, slot, count)
        if len(slots) <= _SMALL:
            for column, amount in amounts:
                row = self.used_rows[column]
                for slot, count in zip(slots, counts, strict=True):
                    row[slot] += amount * count
        else:
            where = np.array(slots, np.intp)
            many = np.array(counts, np.int64)
            for column, amount in amounts:
                self.used[column, where] += many * amount
        self._touch_all(slots)

    def take_back(
        self, amounts: Amounts, slots: Sequence[int], counts: Sequence[int], mounts: Mounts | None = None
    ) -> None:
        """Undo ``place``. What it frees was free before, so it is not growth."""
        if mounts is not None:
            for slot, count in zip(slots, counts, strict=True):
                self.volumes.mount(mounts, slot, -count)
        self.place(tuple((column, -amount) for column, amount in amounts), slots, counts)

    def touch(self, slot: int) -> None:
        """Give the slot a new version."""
        self.version[slot] = self.log.append(slot)

    def _touch_all(self, slots: Sequence[int]) -> None:
        self.log.extend(slots)
        number = self.log.end - len(slots)
        version = self.version
        for slot in slots:
            number += 1
            version[slot] = number

    # ------------------------------------------------------------------ views

    def totals(self) -> dict[int, int]:
        """Return what our ready nodes have in all, by column, without zeros."""
        if self._totals[0] != self.capacity_version:
            sums = (self.allocatable * self.ready).sum(axis=1).tolist()
            countable = self.resources.countable
            totals = {column: total for column, total in enumerate(sums) if total > 0 and countable(column)}
            self._totals = self.capacity_version, totals
        return self._totals[1]

    def by_name(self) -> SlotArray:
        """Return the slots of existing nodes in order of their names."""
        if len(self._unsorted) > _FEW:
            self._sorted = sorted((*self._sorted, *self._unsorted))
            self._by_name = np.fromiter(
                (self.slots[name] for name in self._sorted), np.intp, len(self._sorted)
            )
        else:
            for name in self._unsorted:
                position = bisect_left(self._sorted, name)
                insort(self._sorted, name)
                self._by_name = np.insert(self._by_name, position, self.slots[name])
        self._unsorted.clear()
        return self._by_name

    def label(self, key: str) -> LabelColumn:
        """Return the column of a label's values, made at first use."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn(self.exists.size)
            for slot, labels in enumerate(self.labels):
                column.set(slot, labels.get(key))
        return column

    def slot(self, name: str) -> int:
        """Return the name's slot, a new one when it has none."""
        slot = self.slots.get(name)
        if slot is not None:
            return slot
        if self._free:
            slot = self._free.pop()
            self.names[slot] = name
        else:
            slot = len(self.names)
            self.names.append(name)
            self.holders.append(0)
            self.labels.append({})
            self.devices.append(())
            self.version.append(0)
            if slot >= self.exists.size:
                self._grow(2 * self.exists.size)
        self.slots[name] = slot
        return slot

    # ------------------------------------------------------------------ inside

    def _reuse(self, slot: int) -> None:
        if self.holders[slot] or self.exists[slot]:
            return
        del self.slots[self.names[slot]]
        self.used[:, slot] = 0
        self.releasing[:, slot] = 0
        self.earmarked[:, slot] = 0
        self.kept[:, slot] = 0
        self.over[slot] = False
        self.load.forget(slot)
        self._free.append(slot)

    def _set_allocatable(self, slot: int, allocatable: Mapping[str, int]) -> bool:
        column_of = self.resources.column
        values = {column_of(name): amount for name, amount in allocatable.items()}
        values.setdefault(PODS, UNLIMITED)
        values |= self.resources.capacities
        self.fit_columns()
        fresh = np.zeros(len(self.resources), np.int64)
        for column, amount in values.items():
            fresh[column] = amount
        if np.array_equal(self.allocatable[:, slot], fresh):
            return False
        self.allocatable[:, slot] = fresh
        return True

    def _set_labels(self, slot: int, labels: Mapping[str, str]) -> None:
        self.labels[slot] = labels
        for key, column in self._columns.items():
            column.set(slot, labels.get(key))

    def _set_devices(self, slot: int, devices: tuple[Device, ...]) -> None:
        self.devices[slot] = devices
        self.devices_version += 1

    def _weigh(self, slot: int) -> None:
        self.over[slot] = self._is_over(slot)

    def _is_over(self, slots: int | SlotArray) -> BoolArray:
        return self.lacking(self.allocatable[:, slots] - self.used[:, slots])

    def _taint_code(self, taints: tuple[TaintKey, ...]) -> int:
        code = self._taint_codes.get(taints)
        if code is None:
            code = self._taint_codes[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return code

    def fit_columns(self) -> None:
        """Make room for resources that were named since."""
        missing = len(self.resources) - self.used.shape[0]
        if missing > 0:
            pad = ((0, missing), (0, 0))
            self.allocatable = np.pad(self.allocatable, pad)
            self.used = np.pad(self.used, pad)
            self.releasing = np.pad(self.releasing, pad)
            self.earmarked = np.pad(self.earmarked, pad)
            self.kept = np.pad(self.kept, pad)
            for column in range(len(self.resources) - missing, len(self.resources)):
                self.allocatable[column] = self.resources.capacities.get(column, 0)
            self._view()

    def _view(self) -> None:
        self.allocatable_rows = [memoryview(row) for row in self.allocatable]
        self.used_rows = [memoryview(row) for row in self.used]
        self.over_row = self.over.data

    def _grow(self, size: int) -> None:
        extra = size - self.exists.size
        self.allocatable = np.pad(self.allocatable, ((0, 0), (0, extra)))
        self.used = np.pad(self.used, ((0, 0), (0, extra)))
        self.releasing = np.pad(self.releasing, ((0, 0), (0, extra)))
        self.earmarked = np.pad(self.earmarked, ((0, 0), (0, extra)))
        self.kept = np.pad(self.kept, ((0, 0), (0, extra)))
        self.exists = np.pad(self.exists, (0, extra))
        self.mine = np.pad(self.mine, (0, extra))
        self.ready = np.pad(self.ready, (0, extra))
        self.unschedulable = np.pad(self.unschedulable, (0, extra))
        self.over = np.pad(self.over, (0, extra))
        self.taint_code = np.pad(self.taint_code, (0, extra))
        self.load.grow(size)
        for column in self._columns.values():
            column.codes = np.pad(column.codes, (0, extra))
        self._view()
