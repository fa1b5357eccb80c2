"""What the controller tells on the topics, apart from ``cluster-state``."""

from __future__ import annotations

from typing import Final

from services.controller.core.model import Wanted
from services.controller.core.plans import PhaseChange
from shared.api import names
from shared.clock import Clock
from shared.errors import TooLarge
from shared.events import topics
from shared.events.codec import encode
from shared.events.contracts import (
    Contract,
    DecisionApplied,
    Gang,
    GangReady,
    JobPhaseChanged,
    JobRejected,
    Violation,
)
from shared.events.envelope import Envelope
from shared.log.port import EventLog, Record
from shared.telemetry.spans import hashed_id

SOURCE: Final = "/pumice/controller"
_MOST_WORDS: Final = 4000
"""Characters of a message by somebody else: it must fit into a record."""
_FAILURES_IN_WORDS: Final = 20


class Publisher:
    """Sends events with ids that depend on what they say: said again after a crash, they are the same."""

    def __init__(self, log: EventLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock

    async def phases(self, wanted: Wanted, changes: list[tuple[str, PhaseChange]]) -> None:
        """Publish changes of phase, each with its event id."""
        key = topics.job_key(wanted.namespace, wanted.name)
        records = [
            self._record(topics.JOB_LIFECYCLE, key, event_id, _phase_changed(wanted, change), wanted)
            for event_id, change in changes
        ]
        await self._log.producer.send_many(records)

    async def ready(self, wanted: Wanted, gang: Gang, event_id: str) -> None:
        """Publish that a gang can be scheduled."""
        record = self._record(
            topics.PODGROUP_READY, gang.pool.encode(), event_id, GangReady(gang=gang), wanted
        )
        await self._log.producer.send(record)

    async def plain_ready(self, gang: Gang) -> None:
        """Publish that a gang of plain pods can be scheduled; how it grows is told on ``cluster-state``."""
        envelope = self._envelope(
            ready_id(gang, "plain"), GangReady(gang=gang), f"{gang.namespace}/{gang.name}"
        )
        await self._log.producer.send(encode(topics.PODGROUP_READY, gang.pool.encode(), envelope))

    async def applied(self, result: DecisionApplied, traceparent: str | None) -> None:
        """Publish what became of a decision."""
        try:
            await self._applied(result, traceparent)
        except TooLarge:
            await self._applied(_in_short(result), traceparent)

    async def _applied(self, result: DecisionApplied, traceparent: str | None) -> None:
        envelope = self._envelope(f"applied-{result.decision}", result, result.gang.name, traceparent)
        await self._log.producer.send(encode(topics.BIND_RESULTS, result.pool.encode(), envelope))

    async def rejected(
        self, submission: str, job: tuple[str, str], violation: Violation, trace: tuple[str, str]
    ) -> None:
        """Publish that a job will not be created."""
        namespace, name = job
        violation = violation.model_copy(update={"message": violation.message[:_MOST_WORDS]})
        event = JobRejected(submission=submission, namespace=namespace, name=name, violations=(violation,))
        envelope = self._envelope(
            f"rejected-{submission}", event, f"{namespace}/{name}", trace[0], trace[1] or None
        )
        await self._log.producer.send(encode(topics.JOB_REJECTED, topics.job_key(namespace, name), envelope))

    def _record(self, topic: str, key: bytes, event_id: str, event: Contract, wanted: Wanted) -> Record:
        annotations = wanted.annotations
        envelope = self._envelope(
            event_id,
            event,
            f"{wanted.namespace}/{wanted.name}",
            annotations.get(names.TRACEPARENT),
            annotations.get(names.TRACESTATE),
        )
        return encode(topic, key, envelope)

    def _envelope(
        self,
        event_id: str,
        event: Contract,
        subject: str,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> Envelope[Contract]:
        return Envelope(
            id=event_id,
            source=SOURCE,
            time=self._clock.now(),
            data=event,
            subject=subject,
            traceparent=traceparent,
            tracestate=tracestate,
        )


def _phase_changed(wanted: Wanted, change: PhaseChange) -> JobPhaseChanged:
    return JobPhaseChanged(
        namespace=wanted.namespace,
        name=wanted.name,
        uid=wanted.uid,
        generation=change.generation,
        previous=change.previous.value if change.previous else "",
        phase=change.phase.value,
        reason=change.reason,
        message=change.message[:_MOST_WORDS],
        at=change.at,
        queue=wanted.queue,
        submission=wanted.annotations.get(names.SUBMISSION_ID),
        retry_count=change.retries,
        pods=change.counts,
    )


def _in_short(result: DecisionApplied) -> DecisionApplied:
    """Return a result without what is told by the states of pods, or again and again."""
    failures = tuple(
        one.model_copy(update={"message": one.message[:_MOST_WORDS] if number < _FAILURES_IN_WORDS else ""})
        for number, one in enumerate(result.failures)
    )
    message = result.message[:_MOST_WORDS]
    return result.model_copy(update={"bound": (), "failures": failures, "message": message})


def change_ids(uid: str, base: tuple[str, str, int], changes: tuple[PhaseChange, ...]) -> list[str]:
    """Return the event ids of changes that follow each other from ``base``.

    ``base`` is the phase, its time and the generation in the stored status: whoever plans again from
    there after a crash gives the same ids.
    """
    return [
        hashed_id(16, "phase-changed", uid, *base, number, change.phase.value)
        for number, change in enumerate(changes)
    ]


def ready_id(gang: Gang, content: str) -> str:
    """Return the event id of a GangReady."""
    return hashed_id(16, "gang-ready", gang.uid, gang.generation, content)
