"""Says of jobs that are tried out which gang they would have. Only the API server is asked, by dry run."""

from __future__ import annotations

from typing import Final

from services.controller.adapters.dry_runs import DryRuns
from services.controller.adapters.hands import Hands
from services.controller.core import checks
from services.controller.core.plans import World
from services.controller.core.status import Status
from services.controller.core.trials import gang_to_be, imagined, kept_out
from shared.api import resources as r
from shared.events.contracts import Contract, TrialAdmitted, TrialAnswered, TrialReady
from shared.events.trials import trial_record
from shared.log.port import EventLog

_SOURCE: Final = "/pumice/controller"


class Trials:
    """The handler of ``TrialAdmitted``."""

    def __init__(self, log: EventLog, hands: Hands, dry_runs: DryRuns) -> None:
        self._log = log
        self._hands = hands
        self._dry_runs = dry_runs

    async def handle(self, event: Contract) -> None:
        """Say which gang a job would have, or why it would have none yet. Raises what the world answers."""
        if isinstance(event, TrialAdmitted):
            answer = await self._gang(event)
            await self._log.producer.send(trial_record(answer, _SOURCE, self._hands.clock.now()))

    async def _gang(self, event: TrialAdmitted) -> TrialReady | TrialAnswered:
        views, now = self._hands.views, self._hands.clock.now()
        wanted = imagined(event.job, event.trial, now)
        priorities, schedulers = views.priorities, self._hands.settings.scheduler_names
        problem = checks.problem(wanted, views.store(r.QUEUES), schedulers, priorities)
        if problem is not None:
            return kept_out(wanted, "cannot-be-run", problem, now)
        verdict = await self._dry_runs.ask(World(wanted, Status(), None, (), priorities=priorities))
        if verdict.refused:
            return kept_out(wanted, "pods-refused", verdict.refused, now)
        keys, volumes = views.label_keys.known, views.claims_of
        gang = gang_to_be(wanted, verdict.shapes, priorities, keys, volumes, now)
        if gang is None:
            return kept_out(wanted, "no-pods", "it wants no pods", now)
        return TrialReady(trial=event.trial, gang=gang)
