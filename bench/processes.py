"""What processes cost: CPU time and memory, as Linux tells them in /proc."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from shared.errors import StartupError

_PROC: Final = Path("/proc")
_KIB_OF_MIB: Final = 1024


class Memory(NamedTuple):
    """A process's resident memory in MiB: now, and the most that it ever was."""

    now: float
    most: float


def check_proc() -> None:
    """Raise StartupError where there is no /proc."""
    if not (_PROC / "self" / "stat").exists():
        raise StartupError("what a process costs is read from /proc, which only Linux has")


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the CPU time that each process has taken so far; in steps of 10 ms."""
    return {name: _cpu(pid) for name, pid in pids.items()}


def _cpu(pid: int) -> float:
    # The second field is the command in brackets, which may hold anything; the 14th and 15th are wanted.
    fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> Memory:
    """Return a process's memory."""
    lines = (_PROC / str(pid) / "status").read_text().splitlines()
    fields = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return Memory(int(fields["VmRSS"][0]) / _KIB_OF_MIB, int(fields["VmHWM"][0]) / _KIB_OF_MIB)
