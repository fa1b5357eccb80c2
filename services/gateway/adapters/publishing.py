"""From requests to the log."""

from __future__ import annotations

import asyncio
from datetime import datetime

from services.gateway.adapters.metrics import Metrics
from services.gateway.core.facts import JobKey, Model
from services.gateway.core.submission import SOURCE, Prepared
from shared.errors import Conflict, TooLarge, Unavailable
from shared.events import topics
from shared.events.codec import encode
from shared.events.contracts import CommandJob, CommandPool, CommandQueue
from shared.events.envelope import Envelope
from shared.log.port import EventLog, Record


class Publisher:
    """Appends submissions and commands; waits for the log no longer than ``patience`` seconds."""

    def __init__(self, log: EventLog, model: Model, *, patience: float, metrics: Metrics) -> None:
        self._log = log
        self._model = model
        self._patience = patience
        self._metrics = metrics
        self._sending: dict[str, str] = {}

    async def submit(self, prepared: Prepared) -> bool:
        """Append a submission unless its id is known already; return whether it is new.

        Raises Conflict (the id was used for another job), TooLarge, Unavailable.
        """
        submission = prepared.envelope.id
        known = self._model.submission(submission)
        before = known.digest if known and known.digest else self._sending.get(submission)
        if before is not None and before != prepared.digest:
            raise Conflict("this Idempotency-Key was used for another job")
        if known is not None and known.digest:
            self._metrics.submissions.labels("repeated").inc()
            return False
        self._sending[submission] = prepared.digest
        try:
            key = topics.job_key(*prepared.key)
            await self._append(encode(topics.JOB_SUBMITTED, key, prepared.envelope))
        except TooLarge:
            self._metrics.submissions.labels("too-large").inc()
            raise
        except Unavailable:
            self._metrics.submissions.labels("unavailable").inc()
            raise
        finally:
            self._sending.pop(submission, None)
        self._metrics.submissions.labels("accepted").inc()
        return True

    async def command(self, id: str, now: datetime, command: CommandJob, traceparent: str | None) -> None:  # noqa: A002
        """Append a command. Raises Unavailable."""
        key: JobKey = (command.namespace, command.name)
        envelope = Envelope(
            id=id, source=SOURCE, time=now, data=command, subject="/".join(key), traceparent=traceparent
        )
        await self._append(encode(topics.JOB_COMMANDS, topics.job_key(*key), envelope))
        self._metrics.commands.labels(command.action.value).inc()

    async def queue_command(self, id: str, now: datetime, command: CommandQueue) -> None:  # noqa: A002
        """Append a command to a queue. Raises Unavailable."""
        envelope = Envelope(id=id, source=SOURCE, time=now, data=command, subject=command.name)
        await self._append(encode(topics.QUEUE_COMMANDS, command.name.encode(), envelope))
        self._metrics.commands.labels(f"{command.action.value}-queue").inc()

    async def pool_command(self, id: str, now: datetime, command: CommandPool) -> None:  # noqa: A002
        """Append a command to a node pool's scheduler. Raises Unavailable."""
        envelope = Envelope(id=id, source=SOURCE, time=now, data=command, subject=command.pool)
        await self._append(encode(topics.POOL_COMMANDS, command.pool.encode(), envelope))
        self._metrics.commands.labels(f"{command.action.value}-pool").inc()

    async def _append(self, record: Record) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await self._log.producer.send(record)
        except TimeoutError as error:
            raise Unavailable(
                f"the log did not answer within {self._patience:g} s: whether it has the message is not known"
            ) from error
