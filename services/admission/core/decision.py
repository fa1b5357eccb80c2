"""The decision about one submission: admitted with its defaults, rejected with every reason, or repeated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from services.admission.core.defaults import Defaults, apply_defaults, derived_numbers
from services.admission.core.jobs import validate_job
from services.admission.core.reading import salvage
from services.admission.core.schema import metadata_rules, schema_rules
from services.admission.core.view import ClusterView, JobInfo
from services.admission.core.violations import Violation
from shared.api.base import JSON
from shared.api.batch import Job

_CONSEQUENCES: Final = frozenset(
    {
        "cyclic-dependency",
        "duplicate",
        "duplicate-task-name",
        "invalid-task-name",
        "min-available-above-replicas",
        "mpi-master-not-found",
        "no-tasks",
        "not-found",
        "partition-min-available-mismatch",
        "partition-size-mismatch",
        "policy-without-trigger",
        "task-min-available-above-replicas",
        "unknown-dependency",
        "volume-without-claim",
    }
)
"""Mistakes that may only seem so because another field has a wrong type."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The job with its defaults; it may be created."""

    job: Job


@dataclass(frozen=True, slots=True)
class Rejected:
    """Every reason why the job may not be created."""

    namespace: str
    name: str
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """This very submission has been admitted already."""

    namespace: str
    name: str


Decision = Admitted | Rejected | Repeated


def decide(submission: str, obj: JSON, view: ClusterView, settings: Defaults) -> Decision:
    """Decide about the submission with this id.

    Two submissions of one name at the same time may both pass, on two members of the group; the
    controller, which creates the job, has the last word.

    Raises:
        ContractError: the object is not a job at all.
    """
    read = salvage(obj)
    job = apply_defaults(read.job, settings)
    namespace, name = job.metadata.namespace, job.metadata.name
    known = view.job(namespace, name)
    if view.was_admitted(submission) or (known is not None and known.submission == submission):
        return Repeated(namespace, name)
    derived = derived_numbers(read.job)
    damaged = {violation.path for violation in read.violations}
    broken = [
        violation for violation in _rules(read.job, job, view, damaged) if violation.path not in derived
    ]
    violations = [*read.violations, *broken]
    if known is not None:
        violations.append(_exists(known, namespace, name))
    return Rejected(namespace, name, tuple(violations)) if violations else Admitted(job)


def _rules(written: Job, job: Job, view: ClusterView, damaged: set[str]) -> Iterator[Violation]:
    found = list(_first_of_each_path(metadata_rules(job.metadata), validate_job(job, view)))
    paths = {one.path for one in found}
    found += [one for one in schema_rules(written.dump()) if one.path not in paths]
    for violation in found:
        is_consequence = violation.code in _CONSEQUENCES or _under(violation.path, damaged)
        if not (damaged and is_consequence):
            yield violation


def _first_of_each_path(first: Iterable[Violation], second: Iterable[Violation]) -> Iterator[Violation]:
    """Yield all of the first, and of the second what is about other fields."""
    paths: set[str] = set()
    for violation in first:
        paths.add(violation.path)
        yield violation
    yield from (violation for violation in second if violation.path not in paths)


def _under(path: str, damaged: set[str]) -> bool:
    return any(path == root or path.startswith((f"{root}.", f"{root}[")) for root in damaged)


def _exists(known: JobInfo, namespace: str, name: str) -> Violation:
    if known.deleting:
        state, advice = "is being deleted", "try again when it is gone, or choose another name"
    elif known.uid:
        state, advice = "exists", "choose another name or delete it first"
    else:
        state, advice = "was submitted just before", "choose another name"
    message = f'a job "{name}" {state} in namespace "{namespace}": {advice}'
    return Violation("already-exists", "metadata.name", message)
