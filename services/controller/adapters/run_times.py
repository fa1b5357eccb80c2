"""Tells on the topic ``run-times`` for how long jobs of each template run; it is also the memory of that."""

from __future__ import annotations

from typing import Final

from services.controller.adapters.publisher import SOURCE
from services.controller.core.learning import learn, ran_for, template_of
from services.controller.core.model import Wanted
from services.controller.core.plans import PhaseChange
from services.controller.core.status import Status
from shared.api.batch import JobPhase
from shared.clock import Clock
from shared.errors import ContractError
from shared.events import topics
from shared.events.codec import data_of, encode
from shared.events.contracts import TemplateRunTimes
from shared.events.envelope import Envelope
from shared.log.port import EventLog, Record, up_to_now
from shared.telemetry.telemetry import Telemetry

_MOST: Final = 2000
"""Templates that are remembered, over all queues; the one that nobody ran for the longest goes first."""

Key = tuple[str, str]


class RunTimes:
    """What was learned, by queue and template."""

    def __init__(self, log: EventLog, clock: Clock, telemetry: Telemetry) -> None:
        self._log = log
        self._clock = clock
        self._telemetry = telemetry
        self._known: dict[Key, TemplateRunTimes] = {}
        """In the order in which they were last told."""

    async def read(self) -> None:
        """Remember what was learned before. Raises Unavailable."""
        known: dict[bytes, TemplateRunTimes] = {}
        async for delivery in up_to_now(self._log, [topics.RUN_TIMES]):
            if delivery.key is None:
                continue
            known.pop(delivery.key, None)
            if delivery.value is None:
                continue
            try:
                event = data_of(delivery)
            except ContractError as error:
                self._telemetry.log.warning("run times cannot be read: %s", error)
                continue
            if isinstance(event, TemplateRunTimes):
                known[delivery.key] = event
        self._known = {(one.queue, one.template): one for one in known.values()}

    async def changed(self, wanted: Wanted, status: Status, change: PhaseChange) -> None:
        """Learn from a job that went through. Said again, it is counted once. Raises Unavailable."""
        seconds = ran_for(status, change.at) if change.phase is JobPhase.COMPLETED else None
        if seconds is None:
            return
        key = (wanted.queue, template_of(wanted))
        told = learn(self._known.get(key), wanted, change.generation, seconds, change.at)
        if told is None:
            return
        await self._log.producer.send(_record(key, told))
        self._known.pop(key, None)
        self._known[key] = told
        while len(self._known) > _MOST:
            oldest = next(iter(self._known))
            await self._log.producer.send(Record(topics.RUN_TIMES, _key(oldest), None))
            del self._known[oldest]


def _key(key: Key) -> bytes:
    return "/".join(key).encode()


def _record(key: Key, event: TemplateRunTimes) -> Record:
    envelope = Envelope(
        id=f"{event.jobs[-1]}.run-time", source=SOURCE, time=event.as_of, data=event, subject="/".join(key)
    )
    return encode(topics.RUN_TIMES, _key(key), envelope)
