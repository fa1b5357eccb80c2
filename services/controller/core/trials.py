"""The gang that a job would have which does not exist."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from services.controller.core.claiming import Claims, ClaimsOf
from services.controller.core.claims import claims
from services.controller.core.gangs import gang_of
from services.controller.core.holding import Held, as_report
from services.controller.core.model import JSON, Priorities, Wanted, read_group, read_job
from services.controller.core.podgroups import make_podgroup
from services.controller.core.status import Status
from shared.api import names
from shared.api.meta import format_time
from shared.events.contracts import Gang, GangRef, TrialAnswered, TrialOutcome


def imagined(job: JSON, trial: str, now: datetime) -> Wanted:
    """Return the job as if it had just been created; its UID is the trial's. Raises ValueError."""
    created = {"uid": trial, "creationTimestamp": format_time(now)}
    return read_job({**job, "metadata": {**job["metadata"], **created}})


def gang_to_be(
    wanted: Wanted,
    shapes: str,
    priorities: Priorities,
    label_keys: Collection[str],
    claims_of: ClaimsOf,
    now: datetime,
) -> Gang | None:
    """Return the gang of such a job, with what the API server makes of its pods; None when it wants none.

    ``claims_of`` says what claims come to. Those that would be made for the job are taken to get their
    volumes wherever its pods go. Raises ValueError where a template cannot be read.
    """
    to_be = {name for name, new in claims(wanted).items() if new}

    def there(namespace: str, extras: Mapping[str, Any]) -> Claims:
        named = [name for name in extras.get("claims") or () if name not in to_be]
        return claims_of(namespace, {**extras, "claims": named})

    body = make_podgroup(wanted, 0, priorities, now)
    meta = body["metadata"]
    noted = {**meta["annotations"], names.SHAPES: shapes} if shapes else meta["annotations"]
    made = {"uid": wanted.uid, "creationTimestamp": format_time(now), "annotations": noted}
    group = read_group({**body, "metadata": {**meta, **made}})
    return gang_of(wanted, Status(), group, priorities, (), label_keys, there)


def kept_out(wanted: Wanted, code: str, message: str, now: datetime) -> TrialAnswered:
    """Return the answer about a job that would wait before it is a gang."""
    gang = GangRef(namespace=wanted.namespace, name=wanted.podgroup, uid=wanted.uid)
    report = as_report(gang, wanted.queue, now, Held(code, message), now)
    named = report.model_copy(update={"job": wanted.name})
    return TrialAnswered(trial=wanted.uid, outcome=TrialOutcome.WAITS, report=named, at=now)
