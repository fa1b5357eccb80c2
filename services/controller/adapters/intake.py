"""What comes in about jobs: admitted ones, commands (topic and objects), the scheduler's reports."""

from __future__ import annotations

from typing import Final

from services.controller.adapters.groups import GroupController
from services.controller.adapters.hands import Hands
from services.controller.adapters.jobs import JobController
from services.controller.adapters.views import job_key
from services.controller.core.commands import MOST_WORDS, order_of, scaled
from services.controller.core.lifecycle import Trigger
from services.controller.core.model import JSON
from services.controller.core.policies import Order
from shared.api import names
from shared.api import resources as r
from shared.api.meta import format_time
from shared.errors import AlreadyExists, Conflict, ContractError, NotFound, Refused
from shared.events import topics
from shared.events.codec import data_of
from shared.events.consuming import Message
from shared.events.contracts import CommandJob, GangReport, JobAction, JobAdmitted, Violation
from shared.kube.port import Patch
from shared.log.port import EventLog
from shared.telemetry.spans import job_trace

_OBJECT_TOO_LARGE: Final = 413


class Intake:
    """Turns messages into objects and orders."""

    def __init__(self, hands: Hands, jobs: JobController, groups: GroupController) -> None:
        self._hands = hands
        self._jobs = jobs
        self._groups = groups

    async def admitted(self, message: Message) -> None:
        """Create an admitted job; a second delivery of its submission finds it there."""
        event = message.envelope.data
        if not isinstance(event, JobAdmitted):
            return
        job = self._stamped(event, message)
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        try:
            created = await self._hands.api.create(r.JOBS, namespace, job)
        except AlreadyExists:
            there = await self._hands.api.read(r.JOBS, namespace, name)
            annotations = there["metadata"].get("annotations") or {}
            if annotations.get(names.SUBMISSION_ID) != event.submission:
                text = f"a job {namespace}/{name} exists already"
                await self._reject(
                    message, event, job, Violation(code="already-exists", path="", message=text)
                )
            return
        except NotFound:
            text = f"there is no namespace {namespace}"
            violation = Violation(code="namespace-not-found", path="metadata.namespace", message=text)
            await self._reject(message, event, job, violation)
            return
        except Refused as error:
            code = "too-large" if error.status == _OBJECT_TOO_LARGE else "refused-by-api-server"
            await self._reject(message, event, job, Violation(code=code, path="", message=str(error)))
            return
        memory = self._hands.memories.of(job_key(namespace, name), created["metadata"]["uid"])
        memory.admitted_at = message.envelope.time

    def _stamped(self, event: JobAdmitted, message: Message) -> JSON:
        """Return the job with our annotations: whose submission it is, and its trace."""
        job = {name: part for name, part in event.job.items() if name != "status"}
        metadata = job["metadata"] = dict(job.get("metadata") or {})
        metadata.setdefault("namespace", "default")
        if not metadata.get("name"):
            raise ContractError("invalid-data", "an admitted job without a name")
        envelope = message.envelope
        trace = job_trace(event.submission, envelope.traceparent, envelope.tracestate)
        annotations = dict(metadata.get("annotations") or {})
        annotations |= {
            names.SUBMISSION_ID: event.submission,
            names.TRACEPARENT: trace.traceparent,
            names.TRACESTATE: trace.tracestate,
            names.SUBMITTED_AT: format_time(event.submitted_at or envelope.time, micro=True),
        }
        if event.submitted_by:
            annotations[names.SUBMITTED_BY] = event.submitted_by
        metadata["annotations"] = annotations
        return job

    async def _reject(self, message: Message, event: JobAdmitted, job: JSON, why: Violation) -> None:
        meta, envelope = job["metadata"], message.envelope
        trace = (envelope.traceparent or "", envelope.tracestate or "")
        await self._hands.publisher.rejected(event.submission, (meta["namespace"], meta["name"]), why, trace)

    async def command(self, message: Message) -> None:
        """Carry out a command that came by topic."""
        event = message.envelope.data
        if not isinstance(event, CommandJob):
            return
        key = job_key(event.namespace, event.name)
        if event.action is JobAction.DELETE:
            await self._delete(event)
        elif event.action is JobAction.SCALE:
            await self._scale(event)
        else:
            order = order_of(event, message.envelope.id)
            if not await self._jobs.obey(key, order, event.uid):
                self._hands.telemetry.log.info("a command found no such job", extra={"job": key})

    async def _delete(self, event: CommandJob) -> None:
        try:
            await self._hands.api.delete(r.JOBS, event.namespace, event.name, uid=event.uid)
        except Conflict:
            there = await self._hands.api.read(r.JOBS, event.namespace, event.name)
            if event.uid in (None, there["metadata"]["uid"]):
                raise
            # Another job of that name: the one that was meant is gone.

    async def _scale(self, event: CommandJob) -> None:
        key = job_key(event.namespace, event.name)
        wanted = self._hands.views.wanted(key)
        if wanted is None or (event.uid and wanted.uid != event.uid):
            return
        patch = scaled(wanted, event.replicas)
        if not patch:
            return
        try:
            await self._hands.api.patch(r.JOBS, event.namespace, event.name, patch, kind=Patch.JSON)
        except (NotFound, Refused) as error:
            self._hands.telemetry.log.warning("a job was not scaled: %s", error, extra={"job": key})

    async def command_object(self, command: JSON) -> None:
        """Obey a Command object about a job; done again, nothing is done twice."""
        meta, target = command["metadata"], command["target"]
        text = command.get("message") or command.get("reason") or "by a Command object"
        order = Order(Trigger(command["action"]), "CommandIssued", text[:MOST_WORDS], command=meta["uid"])
        await self._jobs.obey(job_key(meta["namespace"], target["name"]), order, target.get("uid") or None)

    async def reports(self, log: EventLog) -> None:
        """Follow the scheduler's reports until cancelled: the PodGroup says why its gang waits."""
        reader = await log.read([topics.SCHEDULING_REPORTS])
        try:
            while True:
                for delivery in await reader.poll():
                    if delivery.value is None:
                        continue
                    try:
                        report = data_of(delivery)
                    except ContractError as error:
                        self._hands.telemetry.log.warning("a report cannot be read: %s", error)
                        continue
                    if isinstance(report, GangReport):
                        self._take_report(report)
        finally:
            await reader.close()

    def _take_report(self, report: GangReport) -> None:
        if report.job is None:
            self._groups.take_report(report)
            return
        key = job_key(report.gang.namespace, report.job)
        wanted = self._hands.views.wanted(key)
        if wanted is not None and wanted.podgroup == report.gang.name:
            self._jobs.take_report(key, wanted, report)
