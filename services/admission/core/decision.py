"""The decision about one submission: admitted with its defaults, rejected with every reason, or repeated."""

from __future__ import annotations

from dataclasses import dataclass

from services.admission.core.defaults import Defaults
from services.admission.core.judging import judge_new_job
from services.admission.core.view import ClusterView, JobInfo
from services.admission.core.violations import Violation
from shared.api.base import JSON
from shared.api.batch import Job


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
    job, found = judge_new_job(obj, view, settings)
    namespace, name = job.metadata.namespace, job.metadata.name
    known = view.job(namespace, name)
    if view.was_admitted(submission) or (known is not None and known.submission == submission):
        return Repeated(namespace, name)
    violations = found if known is None else (*found, _exists(known, namespace, name))
    return Rejected(namespace, name, violations) if violations else Admitted(job)


def _exists(known: JobInfo, namespace: str, name: str) -> Violation:
    if known.deleting:
        state, advice = "is being deleted", "try again when it is gone, or choose another name"
    elif known.uid:
        state, advice = "exists", "choose another name or delete it first"
    else:
        state, advice = "was submitted just before", "choose another name"
    message = f'a job "{name}" {state} in namespace "{namespace}": {advice}'
    return Violation("already-exists", "metadata.name", message)
