"""All dependents of one job: which it should have in its phase, and which may fail without stopping it."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.controller.core.claims import claim_objects, missing_claim
from services.controller.core.dependents import NEEDED, Dependent, Trouble
from services.controller.core.exposing import Outside, expose_objects, urls
from services.controller.core.model import Wanted
from services.controller.core.plugins import registry
from services.controller.core.plugins.arguments import PluginError
from shared.api import names
from shared.api.batch import JobPhase, JobReason


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a job should have. Its pods do not work without the ``needed`` ones; ``exposed`` are extras."""

    needed: tuple[Dependent, ...] = ()
    exposed: tuple[Dependent, ...] = ()
    urls: dict[str, str] = field(default_factory=dict[str, str])
    exposing_fails: str = ""
    """Why nothing is exposed although the job asks for it."""


def belongings(job: Wanted, phase: JobPhase | None, outside: Outside) -> Belongings:
    """Return what a job should have in a phase."""
    claims = tuple(claim_objects(job))
    if phase not in NEEDED:
        return Belongings(claims)
    needed = (*claims, *registry.objects(job))
    try:
        exposed, found = tuple(expose_objects(job, outside)), urls(job, outside)
    except ValueError as error:
        return Belongings(needed, exposing_fails=str(error))
    taken = {one.id for one in needed} & {one.id for one in exposed}
    if taken:
        return Belongings(needed, exposing_fails=f"{min(taken)[1]} is another service of the job")
    return Belongings(needed, exposed, found)


def has_any(job: Wanted) -> bool:
    """Say whether a job has, or had, anything besides pods."""
    spec = job.spec
    exposes = names.EXPOSE in job.annotations or names.URLS in job.annotations
    return bool(spec.get("plugins") or spec.get("volumes") or exposes)


def trouble(job: Wanted, claims: frozenset[str]) -> Trouble | None:
    """Say why a job cannot have what it needs; ``claims`` are the claims of its namespace that it names."""
    try:
        registry.check(job)
    except PluginError as error:
        return Trouble(JobReason.PLUGIN_ERROR, str(error))
    return missing_claim(job, claims.__contains__)
