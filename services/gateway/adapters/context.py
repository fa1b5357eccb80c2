"""What every route needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson
from fastapi.responses import Response

from services.gateway.adapters.asking import Trials
from services.gateway.adapters.following import Follower
from services.gateway.adapters.metrics import Metrics
from services.gateway.adapters.problems import away, not_found
from services.gateway.adapters.publishing import Publisher
from services.gateway.adapters.watching import Watchers
from services.gateway.core.facts import JobRecord, Model
from services.gateway.core.incarnation import Incarnation, current
from services.gateway.core.views import View
from services.gateway.settings import GatewaySettings
from shared.clock import Clock
from shared.service import Health
from shared.telemetry.telemetry import Telemetry

_UNITS: Mapping[str, float] = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
DURATION = r"^\d+(\.\d+)?(ms|s|m|h)?$"
"""How a timeout is written: seconds, or a number with its unit."""


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of a running gateway."""

    settings: GatewaySettings
    follower: Follower
    watchers: Watchers
    publisher: Publisher
    trials: Trials
    metrics: Metrics
    clock: Clock
    ids: Callable[[], str]
    health: Health
    telemetry: Telemetry

    @property
    def model(self) -> Model:
        """The read model."""
        return self.follower.model

    def job(self, namespace: str, name: str) -> tuple[JobRecord, Incarnation]:
        """Return what a name means now. Raises Problem: 404, or 503 while the topics are still read."""
        record = self.model.jobs.get((namespace, name))
        job = current(self.model, record) if record else None
        if record is None or job is None or (job.life is None and job.submission is None):
            if not self.follower.ready.is_set():
                raise away("the gateway has just started and is still reading the topics")
            raise not_found(namespace, name)
        return record, job

    def phase(self, namespace: str, name: str) -> str:
        """Return a job's phase as it is known now; ``Deleted`` when it is gone."""
        record = self.model.jobs.get((namespace, name))
        job = current(self.model, record) if record else None
        return "Deleted" if job is None or job.deleted else job.phase

    def seconds(self, timeout: str | None) -> float:
        """Return a timeout in seconds, within the limit."""
        if timeout is None:
            return self.settings.default_wait
        number = timeout.rstrip("msh")
        return min(float(number) * _UNITS[timeout[len(number) :]], self.settings.max_wait)


def answer(view: View, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a view as the answer."""
    return Response(view.encoded(), status, headers, media_type="application/json")


def plain(content: Mapping[str, object], status: int = 200) -> Response:
    """Return plain data as the answer."""
    return Response(orjson.dumps(content), status, media_type="application/json")
