"""Asks on the topic ``trials`` what would become of a job, and hears the answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NoReturn

from services.gateway.adapters.problems import Problem, away
from services.gateway.core.submission import SOURCE
from shared.clock import Clock
from shared.events import contracts as c
from shared.events import topics
from shared.events.tailing import tail
from shared.events.trials import trial_record
from shared.log.port import EventLog
from shared.telemetry.telemetry import Telemetry


@dataclass(slots=True, eq=False)
class _Asked:
    """A question, and how far it is."""

    answered: asyncio.Future[c.TrialAnswered]
    missing: str = "admission"
    """Whose word is waited for."""


@dataclass(slots=True)
class Trials:
    """Questions that are open, by trial."""

    log: EventLog
    clock: Clock
    telemetry: Telemetry
    _asked: dict[str, _Asked] = field(default_factory=dict[str, _Asked])
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> NoReturn:
        """Hear answers until cancelled."""
        await tail(
            self.log,
            topics.TRIALS,
            self._hear,
            clock=self.clock,
            telemetry=self.telemetry,
            opened=self._open,
        )

    async def ask(self, question: c.TrialRequested, seconds: float) -> c.TrialAnswered:
        """Return the answer. Raises Problem when there is none in time, Unavailable, TooLarge."""
        asked = _Asked(asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(seconds):
                await self._open.wait()
                self._asked[question.trial] = asked
                await self.log.producer.send(trial_record(question, SOURCE, self.clock.now()))
                return await asked.answered
        except TimeoutError as error:
            if not self._open.is_set():
                raise away("the log is away: nobody can be asked") from error
            raise Problem(
                504, "no-answer", f"{asked.missing} did not answer within {seconds:g} s: does it run?"
            ) from error
        finally:
            self._asked.pop(question.trial, None)

    async def _hear(self, event: c.Contract) -> None:
        match event:
            case c.TrialAdmitted(trial=trial) if trial in self._asked:
                self._asked[trial].missing = "the controller"
            case c.TrialReady(trial=trial, gang=gang) if trial in self._asked:
                self._asked[trial].missing = f"the scheduler of node pool {gang.pool}"
            case c.TrialAnswered(trial=trial) if trial in self._asked:
                answered = self._asked[trial].answered
                if not answered.done():
                    answered.set_result(event)
            case _:
                pass
