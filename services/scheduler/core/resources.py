"""Resource names as column numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared.api.names import DEVICE_CLASS

CPU: Final = 0
MEMORY: Final = 1
PODS: Final = 2

UNLIMITED: Final = 1 << 40
"""Room for pods on a node that does not say how many it takes."""

_KIBI: Final = 1024
_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")

_HIDDEN: Final = "\0"
_DEVICE: Final = "device/"
_NUMA: Final = "numa/"

Amounts = tuple[tuple[int, int], ...]
"""(column, amount in base units), by column, without zeros."""


class Resources:
    """Numbers resource names in order of appearance; cpu, memory and pods come first."""

    def __init__(self) -> None:
        self.names: list[str] = ["cpu", "memory", "pods"]
        self._columns = {name: column for column, name in enumerate(self.names)}
        self.capacities: dict[int, int] = {}
        """Of hidden columns, which every node has: how much of it."""
        self.devices = 0
        """Most devices with parts that a node has, or a pod was said to be on."""
        self.numa: dict[int, int] = {}
        """The columns of CPUs that pods have for themselves, by the number of the NUMA node."""
        self.of_parts: list[int] = []
        """The columns of what single devices and NUMA nodes have."""

    def __len__(self) -> int:
        return len(self.names)

    def column(self, name: str) -> int:
        """Return the name's column, a new one when it was not seen before."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = len(self.names)
            self.names.append(name)
            if name.startswith(_DEVICE):
                self.devices = max(self.devices, int(name.split("/")[1]) + 1)
                self.of_parts.append(column)
            elif name.startswith(_NUMA):
                self.numa[int(name.removeprefix(_NUMA))] = column
                self.of_parts.append(column)
        return column

    def hidden(self, name: str, capacity: int = UNLIMITED) -> int:
        """Return the column of what is counted on nodes and is no resource; each node has so much."""
        column = self.column(f"{_HIDDEN}{name}")
        self.capacities.setdefault(column, capacity)
        return column

    def countable(self, column: int) -> bool:
        """Whether amounts of nodes are summed up and shared out among queues.

        Not what parts of a node have, what is hidden, and which devices of a class a claim selects: the class
        itself is counted.
        """
        name = self.names[column]
        selected = name.startswith(DEVICE_CLASS) and "/" in name.removeprefix(DEVICE_CLASS)
        return not (column in self.capacities or name.startswith((_DEVICE, _NUMA)) or selected)

    def amounts(self, quantities: Mapping[str, int]) -> Amounts:
        """Return positive quantities by column."""
        return tuple(sorted((self.column(name), amount) for name, amount in quantities.items() if amount > 0))

    def describe(self, column: int, amount: int) -> str:
        """Return an amount as people read it: ``8 nvidia.com/gpu``, ``1.5 cpu``, ``64Gi memory``."""
        name = self.names[column]
        if name.startswith(_HIDDEN):
            return "host " + name.removeprefix(_HIDDEN).replace("/", " ")
        if column == CPU:
            return f"{amount / 1000:g} cpu"
        if column == MEMORY or name.endswith("storage") or name.startswith("hugepages-"):
            return f"{binary(amount)} {name}"
        return f"{amount} {name}"


def device_name(at: int, part: int) -> str:
    """Return the name of the column for a part (compute, memory, places) of the device at an index."""
    return f"{_DEVICE}{at}/{part}"


def numa_name(number: int) -> str:
    """Return the name of the column for CPUs of the NUMA node of a number."""
    return f"{_NUMA}{number}"


def binary(amount: int) -> str:
    """Return bytes with the largest binary suffix that leaves at most two decimals."""
    size, step = float(amount), 0
    while abs(size) >= _KIBI and step < len(_SUFFIXES) - 1:
        size /= _KIBI
        step += 1
    return f"{round(size, 2):g}{_SUFFIXES[step]}"
