"""Job plugins: which there are, and what they need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from services.admission.core.violations import Violation, did_you_mean, listing
from shared.api.batch import Job

KNOWN: Final = frozenset({"env", "svc", "ssh", "tensorflow", "pytorch", "mpi", "ray", "hcclrank"})
NEED_SVC: Final = frozenset({"tensorflow", "pytorch", "mpi", "ray"})
"""Their pods find each other by the names that svc makes."""
MPI: Final = "mpi"
SSH: Final = "ssh"
SVC: Final = "svc"
_MPI_MASTER: Final = "master"


def plugin_rules(job: Job) -> Iterator[Violation]:
    """Plugins must exist; mpi needs its master task."""
    for name in job.spec.plugins:
        if name not in KNOWN:
            known = f"known are {listing(KNOWN)}{did_you_mean(name, KNOWN)}"
            yield Violation(
                "unknown-plugin", f"spec.plugins[{name}]", f'there is no job plugin "{name[:80]}"; {known}'
            )
    if MPI in job.spec.plugins:
        master = flag(job.spec.plugins[MPI], "master", _MPI_MASTER)
        tasks = [task.name for task in job.spec.tasks]
        if master not in tasks:
            yield Violation(
                "mpi-master-not-found",
                f"spec.plugins[{MPI}]",
                f'the mpi plugin\'s master is the task "{master[:80]}", which the job does not have: '
                f"name a task so or give --master={did_you_mean(master, tasks)}",
            )


def flag(arguments: list[str], name: str, default: str) -> str:
    """Return a flag's value as Go's flag package reads it: ``--name=value``, ``-name value``."""
    value = default
    for index, argument in enumerate(arguments):
        key, equals, text = argument.partition("=")
        if key.lstrip("-") != name or not key.startswith("-"):
            continue
        if equals:
            value = text
        elif index + 1 < len(arguments):
            value = arguments[index + 1]
    return value
