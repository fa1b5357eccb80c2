"""What those who answer trials have in common: the records."""

from __future__ import annotations

from datetime import datetime

from shared.events import topics
from shared.events.codec import encode
from shared.events.contracts import TrialAdmitted, TrialAnswered, TrialReady, TrialRequested
from shared.events.envelope import Envelope
from shared.log.port import Record

Trial = TrialRequested | TrialAdmitted | TrialReady | TrialAnswered


def trial_record(event: Trial, source: str, now: datetime) -> Record:
    """Return the record of a step of a trial. Who answers again gives the same id."""
    step = type(event).TYPE.split(".")[-2]
    identifier = f"{event.trial}.{step}"
    envelope = Envelope(id=identifier, source=source, time=now, data=event, subject=event.trial)
    return encode(topics.TRIALS, event.trial.encode(), envelope)
