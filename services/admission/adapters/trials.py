"""Says of jobs that are tried out whether they would be admitted. Nothing of it is remembered."""

from __future__ import annotations

from services.admission.adapters.following import Follower
from services.admission.adapters.submissions import SOURCE
from services.admission.core.decision import Admitted, Rejected, decide
from services.admission.core.defaults import Defaults
from shared.clock import Clock
from shared.errors import ContractError
from shared.events import contracts as c
from shared.events.trials import trial_record
from shared.log.port import EventLog


class Trials:
    """The handler of ``TrialRequested``."""

    def __init__(self, log: EventLog, follower: Follower, defaults: Defaults, clock: Clock) -> None:
        self._log = log
        self._follower = follower
        self._defaults = defaults
        self._clock = clock

    async def handle(self, event: c.Contract) -> None:
        """Judge a job as one that is submitted. Raises Unavailable and TooLarge of the answer."""
        if isinstance(event, c.TrialRequested):
            answer = await self._judge(event)
            now = self._clock.now()
            await self._log.producer.send(trial_record(answer, SOURCE, now))

    async def _judge(self, event: c.TrialRequested) -> c.TrialAdmitted | c.TrialAnswered:
        view = await self._follower.trusted()
        try:
            decision = decide(f"trial/{event.trial}", event.job, view, self._defaults)
        except ContractError as error:
            return self._rejected(event.trial, (c.Violation(code=error.reason, path="", message=str(error)),))
        if isinstance(decision, Admitted):
            return c.TrialAdmitted(trial=event.trial, job=decision.job.dump())
        found = decision.violations if isinstance(decision, Rejected) else ()
        return self._rejected(
            event.trial,
            tuple(c.Violation(code=one.code, path=one.path, message=one.message) for one in found),
        )

    def _rejected(self, trial: str, violations: tuple[c.Violation, ...]) -> c.TrialAnswered:
        return c.TrialAnswered(
            trial=trial, outcome=c.TrialOutcome.REJECTED, violations=violations, at=self._clock.now()
        )
