"""Answers each submission with ``job-admitted`` or ``job-rejected``.

At least once, with the same answer's id each time: a submission read again after a crash gives the same
event, or none when its job is known already.
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from services.admission.adapters.following import Follower
from services.admission.adapters.view import LiveView
from services.admission.core.decision import Admitted, Decision, Rejected, Repeated, decide
from services.admission.core.defaults import Defaults
from services.admission.core.violations import Violation
from shared.clock import Clock
from shared.errors import TooLarge
from shared.events import contracts as c
from shared.events import topics
from shared.events.codec import encode
from shared.events.consuming import Message
from shared.events.envelope import Envelope
from shared.log.port import EventLog
from shared.telemetry.phases import Phase, job_attributes, phase_span
from shared.telemetry.spans import JobTrace, job_trace
from shared.telemetry.telemetry import Telemetry

SOURCE: Final = "/pumice/admission"
_QUEUE_NOT_FOUND: Final = "queue-not-found"
_LOOK_AGAIN: Final = 0.05
_SHORT_LIST: Final = 20
_SHORT_TEXT: Final = 1000
"""Characters of a path or message in a list that was cut: they may quote what was submitted."""


class Submissions:
    """The handler of ``job-submitted``."""

    def __init__(
        self,
        log: EventLog,
        follower: Follower,
        defaults: Defaults,
        *,
        queue_patience: float,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._log = log
        self._follower = follower
        self._defaults = defaults
        self._queue_patience = queue_patience
        self._clock = clock
        self._telemetry = telemetry
        self._metrics = _Metrics(telemetry.registry)

    async def submitted(self, message: Message) -> None:
        """Decide about one submission and publish the answer.

        Raises ContractError for what is no job, Unavailable when the answer cannot be published, TooLarge
        when the job's name alone is too large for an answer.
        """
        envelope = message.envelope
        submission = envelope.data
        if not isinstance(submission, c.JobSubmitted):
            return
        view = await self._follower.trusted()
        decision = await self._decide(envelope.id, submission, view)
        trace = job_trace(envelope.id, envelope.traceparent, envelope.tracestate)
        now = self._clock.now()
        if isinstance(decision, Admitted):
            decision = await self._admit(envelope.id, submission, decision, trace, now)
        if isinstance(decision, Rejected):
            await self._reject(envelope.id, decision, trace, now)
        if isinstance(decision, Admitted):
            # Only now: had the answer not been published, a second try would take itself for a repetition.
            meta = decision.job.metadata
            view.expect(meta.namespace, meta.name, envelope.id, now)
        self._tell(message, decision, trace, now)

    async def _decide(self, submission: str, event: c.JobSubmitted, view: LiveView) -> Decision:
        """Decide; when an unknown queue is all that is wrong, give it a moment to appear."""
        deadline = self._clock.monotonic() + self._queue_patience
        while True:
            decision = decide(submission, event.job, view, self._defaults)
            may_change = isinstance(decision, Rejected) and all(
                violation.code == _QUEUE_NOT_FOUND for violation in decision.violations
            )
            if not may_change or self._clock.monotonic() >= deadline:
                return decision
            await self._clock.sleep(_LOOK_AGAIN)

    async def _admit(
        self, submission: str, event: c.JobSubmitted, decision: Admitted, trace: JobTrace, now: datetime
    ) -> Admitted | Rejected:
        meta = decision.job.metadata
        answer = c.JobAdmitted(
            submission=submission,
            job=decision.job.dump(),
            submitted_by=event.submitted_by,
            submitted_at=event.submitted_at,
        )
        try:
            await self._publish(
                topics.JOB_ADMITTED, (meta.namespace, meta.name), submission, answer, trace, now
            )
        except TooLarge as error:
            message = f"the job has {error.size} bytes with its defaults; the log takes {error.limit}"
            return Rejected(meta.namespace, meta.name, (Violation("too-large", "", message),))
        return decision

    async def _reject(self, submission: str, decision: Rejected, trace: JobTrace, now: datetime) -> None:
        key = (decision.namespace, decision.name)
        answer = _rejection(submission, decision, decision.violations)
        try:
            await self._publish(topics.JOB_REJECTED, key, submission, answer, trace, now)
        except TooLarge:
            answer = _rejection(submission, decision, _in_short(decision.violations))
            await self._publish(topics.JOB_REJECTED, key, submission, answer, trace, now)

    async def _publish(
        self,
        topic: str,
        job: tuple[str, str],
        submission: str,
        answer: c.JobAdmitted | c.JobRejected,
        trace: JobTrace,
        now: datetime,
    ) -> None:
        outcome = "admitted" if isinstance(answer, c.JobAdmitted) else "rejected"
        envelope = Envelope(
            id=f"{submission}.{outcome}",
            source=SOURCE,
            time=now,
            data=answer,
            subject="/".join(job),
            traceparent=trace.traceparent,
            tracestate=trace.tracestate,
        )
        await self._log.producer.send(encode(topic, topics.job_key(*job), envelope))

    def _tell(self, message: Message, decision: Decision, trace: JobTrace, now: datetime) -> None:
        """Count, log and trace what was decided."""
        facts = {"submission": message.envelope.id}
        match decision:
            case Repeated(namespace, name):
                self._metrics.decisions.labels("repeated").inc()
                facts["job"] = f"{namespace}/{name}"
                self._telemetry.log.info("a submission came again and was left alone", extra=facts)
                return
            case Admitted(job):
                namespace, name, queue = job.metadata.namespace, job.metadata.name, job.spec.queue
                error = None
                self._metrics.decisions.labels("admitted").inc()
            case Rejected(namespace, name, violations):
                queue = ""
                error = f"rejected: {', '.join(sorted({violation.code for violation in violations}))}"
                self._metrics.decisions.labels("rejected").inc()
                for violation in violations:
                    self._metrics.violations.labels(violation.code).inc()
                facts |= {"job": f"{namespace}/{name}", "violations": str(len(violations))}
                self._telemetry.log.info("a job was rejected", extra=facts)
        self._telemetry.emit(
            phase_span(
                Phase.ADMIT,
                trace.traceparent,
                message.envelope.time,
                now,
                attributes=job_attributes(namespace, name, queue=queue),
                error=error,
            )
        )


class _Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.decisions = Counter(
            "pumice_admission", "Submissions decided, by outcome.", ["outcome"], registry=registry
        )
        self.violations = Counter(
            "pumice_admission_violations", "Violations found, by code.", ["code"], registry=registry
        )


def _in_short(violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
    """Return the first violations, with as many words of each as fit for sure."""
    short = tuple(
        Violation(one.code, one.path[:_SHORT_TEXT], one.message[:_SHORT_TEXT])
        for one in violations[:_SHORT_LIST]
    )
    left_out = len(violations) - len(short)
    if not left_out:
        return short
    return (*short, Violation("too-many-violations", "", f"{left_out} more violations are left out"))


def _rejection(submission: str, decision: Rejected, violations: tuple[Violation, ...]) -> c.JobRejected:
    return c.JobRejected(
        submission=submission,
        namespace=decision.namespace,
        name=decision.name,
        violations=tuple(
            c.Violation(code=violation.code, path=violation.path, message=violation.message)
            for violation in violations
        ),
    )


def by_job(message: Message) -> Hashable:
    """Handle submissions of one job in order, whatever the key of their records."""
    submission = message.envelope.data
    meta = submission.job.get("metadata") if isinstance(submission, c.JobSubmitted) else None
    if not isinstance(meta, dict):
        return message.delivery.key
    return (str(meta.get("namespace") or "default"), str(meta.get("name") or ""))
