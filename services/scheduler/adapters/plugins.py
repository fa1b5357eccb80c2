"""Telling of the errors of plugins."""

from __future__ import annotations

from typing import Final

from services.scheduler.adapters.metrics import Metrics
from services.scheduler.core.policy import Policy
from shared.telemetry.telemetry import Telemetry

_SILENCE_SECONDS: Final = 60.0


class PluginErrors:
    """Counts errors of plugins that were skipped, and logs one of each plugin a minute."""

    def __init__(self, pool: str, telemetry: Telemetry, metrics: Metrics) -> None:
        self._pool = pool
        self._log = telemetry.log
        self._metrics = metrics
        self._told: dict[str, float] = {}

    def tell(self, policy: Policy, now: float) -> None:
        """Take the errors since the last call; ``now`` is monotonic, in seconds."""
        for own in policy.own:
            if not own.failures:
                continue
            words, count = own.failures.most_common(1)[0][0], own.failures.total()
            own.failures.clear()
            self._metrics.plugin_errors.labels(self._pool, own.name).inc(count)
            if now - self._told.get(own.name, -_SILENCE_SECONDS) >= _SILENCE_SECONDS:
                self._told[own.name] = now
                self._log.error("%s (skipped)", words, extra={"pool": self._pool, "times": count})
