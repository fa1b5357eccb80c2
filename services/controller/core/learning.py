"""For how long jobs run, learned from those that went through.

Jobs of one queue are alike when they are of one *template*: the one that they name by annotation, else what
their names have in common (``generateName``; ``train-17`` and ``train-18`` are ``train-#``). Only the latest
run times are kept: what a team runs changes.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from services.controller.core.model import Wanted
from services.controller.core.status import Status
from shared.api import names
from shared.api.batch import JobPhase
from shared.events.contracts import TemplateRunTimes

KEPT: Final = 32
"""Run times of a template: enough for the ninetieth of a hundred, and few enough to follow a change."""
_NUMBER: Final = re.compile(r"\d+")
_LONGEST: Final = 253


def template_of(wanted: Wanted) -> str:
    """Return the template of a job."""
    named = wanted.annotations.get(names.TEMPLATE) or wanted.raw.get("metadata", {}).get("generateName")
    return (named or _NUMBER.sub("#", wanted.name))[:_LONGEST]


def ran_for(status: Status, ended: datetime) -> float | None:
    """Return for how many seconds a job ran since it last began to; None when it never did."""
    begun = status.entered(JobPhase.RUNNING)
    return None if begun is None else max(0.0, (ended - begun).total_seconds())


def learn(
    known: TemplateRunTimes | None, wanted: Wanted, generation: int, seconds: float, now: datetime
) -> TemplateRunTimes | None:
    """Return what is known of a template with one job more; None when that job was counted before."""
    job = f"{wanted.uid}/{generation}"
    if known is None:
        known = TemplateRunTimes(queue=wanted.queue, template=template_of(wanted), as_of=now)
    if job in known.jobs:
        return None
    seconds = round(seconds, 3)
    update = {
        "seconds": (*known.seconds, seconds)[-KEPT:],
        "jobs": (*known.jobs, job)[-KEPT:],
        "as_of": max(now, known.as_of),
    }
    return known.model_copy(update=update)
