"""What is wrong with a job: for new ones, one function behind the topic and behind the webhook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from services.admission.core.damage import standing
from services.admission.core.defaults import Defaults, apply_defaults, derived_numbers
from services.admission.core.jobs import validate_job
from services.admission.core.reach import host_path_rules
from services.admission.core.reading import salvage_job
from services.admission.core.schema import metadata_rules, schema_rules
from services.admission.core.view import QueueView
from services.admission.core.violations import Violation
from shared.api.base import JSON
from shared.api.batch import Job


class Judged(NamedTuple):
    """A job with its defaults, and everything that is wrong with it."""

    job: Job
    violations: tuple[Violation, ...]


def judge_new_job(obj: JSON, view: QueueView, settings: Defaults) -> Judged:
    """Read a job, give it its defaults and judge it.

    Raises:
        ContractError: the object is not a job at all, or is nested too deeply.
    """
    read = salvage_job(obj)
    job = apply_defaults(read.object, settings)
    derived = derived_numbers(read.object)
    found = standing(
        _rules(read.object, job, view, settings), {violation.path for violation in read.violations}
    )
    broken = [violation for violation in found if violation.path not in derived]
    return Judged(job, (*read.violations, *broken))


def judge_changed_job(old: Job, new: Job, view: QueueView, settings: Defaults) -> list[Violation]:
    """Judge what a job is changed to.

    Both are read with their defaults: applying a manifest again replaces the list of tasks by one that lacks
    them, and is no change.
    """
    derived = derived_numbers(new)
    found = validate_job(apply_defaults(new, settings), view, apply_defaults(old, settings))
    return [violation for violation in found if violation.path not in derived]


def _rules(written: Job, job: Job, view: QueueView, settings: Defaults) -> list[Violation]:
    found = list(_first_of_each_path(metadata_rules(job.metadata), validate_job(job, view)))
    found += host_path_rules(job, settings.host_paths)
    paths = {one.path for one in found}
    return [*found, *(one for one in schema_rules(Job, written.dump()) if one.path not in paths)]


def _first_of_each_path(first: Iterable[Violation], second: Iterable[Violation]) -> Iterator[Violation]:
    """Yield all of the first, and of the second what is about other fields."""
    paths: set[str] = set()
    for violation in first:
        paths.add(violation.path)
        yield violation
    yield from (violation for violation in second if violation.path not in paths)
