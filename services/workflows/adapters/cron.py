"""The controller of cron jobs: looks at one at a time, when something changed or a start is due."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter
from pydantic import ValidationError

from services.workflows.adapters.hands import Hands
from services.workflows.core.cron import CronReason, Plan, Start, decide, started
from services.workflows.core.model import JobView, Note, difference, read_job
from shared.api import resources as r
from shared.api.cron import CronJob
from shared.errors import AlreadyExists, PumiceError, Refused
from shared.kube.port import JSON

PREFIX: Final = "cron:"
_LONGEST_WAIT: Final = 300.0
"""Seconds. The alarm counts by a clock that may stop (a machine that sleeps) while the wall clock goes on."""
_NAMESPACE_ENDS: Final = "being terminated"


class CronController:
    """Makes the jobs of cron jobs, deletes old ones, keeps statuses true."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._starts: Final = Counter(
            "pumice_workflows_cron_starts", "Jobs made by cron jobs.", registry=hands.telemetry.registry
        )

    async def handle(self, key: str) -> None:
        """Look at one cron job."""
        hands, name = self._hands, key.removeprefix(PREFIX)
        raw = hands.views.get(r.CRONJOBS, name)
        if raw is None:
            hands.told.forget(key)
            hands.told.forget(f"{key} troubles")
            return
        try:
            cron = CronJob.model_validate(raw)
        except ValidationError as error:
            hands.telemetry.log.warning("cron job cannot be read: %s", error, extra={"object": name})
            return
        plan = decide(cron, hands.views.jobs_of(cron.metadata.uid), hands.clock.now())
        hands.tell(raw, hands.told.fresh(key, plan.notes))
        troubles = await self._carry_out(cron, raw, plan)
        hands.tell(raw, hands.told.fresh(f"{key} troubles", troubles))
        if plan.again_at is not None:
            wait = (plan.again_at - hands.clock.now()).total_seconds()
            hands.add_after(key, min(wait, _LONGEST_WAIT))
        if troubles:
            raise Refused(troubles[0].message)

    async def _carry_out(self, cron: CronJob, raw: JSON, plan: Plan) -> list[Note]:
        """Delete, start, and write the status; return what the API server refused."""
        troubles = [trouble for job in plan.deletes if (trouble := await self._delete(raw, job))]
        replacing = [trouble for job in plan.replaces if (trouble := await self._delete(raw, job))]
        status, failure = plan.status, None
        if plan.start is not None and not replacing:
            try:
                made = await self._start(cron, raw, plan.start)
            except Refused as error:
                troubles.append(_refusal(plan.start, error))
            except PumiceError as error:
                failure = error
            else:
                status = status if made is None else started(plan, plan.start, made)
        if patch := difference(raw.get("status"), status):
            meta = cron.metadata
            await self._hands.api.patch(
                r.CRONJOBS, meta.namespace, meta.name, {"status": patch}, subresource="status"
            )
        if failure is not None:
            raise failure
        return [*replacing, *troubles]

    async def _start(self, cron: CronJob, raw: JSON, start: Start) -> JobView | None:
        """Make a job, or find the one that was made before; None: the name is another's."""
        hands, namespace = self._hands, cron.metadata.namespace
        try:
            job = read_job(await hands.api.create(r.JOBS, namespace, start.job))
        except AlreadyExists:
            job = read_job(await hands.api.read(r.JOBS, namespace, start.name))
            if job.owner_uid == cron.metadata.uid:
                return job
            text = f"Job {start.name} exists but is not owned by this CronJob"
            hands.tell(raw, [Note(CronReason.FOREIGN_JOB, text, warning=True)])
            return None
        self._starts.inc()
        text = f"Created job {job.name} for CronJob {namespace}/{cron.metadata.name}"
        hands.tell(raw, [Note(CronReason.SUCCESSFUL_CREATE, text)])
        return job

    async def _delete(self, raw: JSON, job: JobView) -> Note | None:
        """Delete a job; return why the API server refused to."""
        hands = self._hands
        obj = hands.views.store(r.JOBS).get((job.namespace, job.name))
        if obj is None or obj["metadata"].get("uid") != job.uid:
            return None
        try:
            await hands.api.remove(r.JOBS, obj)
        except Refused as error:
            return Note(CronReason.FAILED_DELETE, f'Error deleting job "{job.name}": {error}', warning=True)
        hands.tell(raw, [Note(CronReason.SUCCESSFUL_DELETE, f'Deleted job "{job.name}"')])
        return None


def _refusal(start: Start, error: Refused) -> Note:
    ends = _NAMESPACE_ENDS in str(error)
    reason = CronReason.NAMESPACE_TERMINATING if ends else CronReason.FAILED_CREATE
    return Note(reason, f"Failed to create job {start.name}: {error}", warning=True)
