"""Telling operators what is wrong with the tree of queues and their quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from services.scheduler.adapters.metrics import Metrics
from services.scheduler.core.queuetree import Fault
from shared.telemetry.telemetry import Telemetry


class Mistakes:
    """Counts one pool's mistakes in a metric, and logs each new one."""

    def __init__(self, pool: str, metrics: Metrics, telemetry: Telemetry) -> None:
        self._pool = pool
        self._gauge = metrics.queue_faults
        self._log = telemetry.log
        self._told: Sequence[Fault] = ()

    def tell(self, faults: Sequence[Fault]) -> None:
        """Take in all that is wrong now."""
        for fault in faults:
            if fault not in self._told:
                self._log.warning("%s", fault.message, extra={"pool": self._pool, "kind": fault.code})
        counts = Counter((fault.queue, fault.code) for fault in faults)
        for queue, code in {(fault.queue, fault.code) for fault in self._told} - set(counts):
            self._gauge.remove(self._pool, queue, code)
        for (queue, code), count in counts.items():
            self._gauge.labels(self._pool, queue, code).set(count)
        self._told = faults
