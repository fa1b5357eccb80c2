"""What is wrong with queues is counted while it is wrong, and logged once."""

from __future__ import annotations

from services.scheduler.adapters.metrics import Metrics
from services.scheduler.adapters.mistakes import Mistakes
from services.scheduler.core.queuetree import Fault
from shared.telemetry.telemetry import Telemetry

LOOP = Fault("a", "parents-loop", "the queues above a form a loop: a below b below a")
QUOTA = Fault(
    "b", "deserved-above-capability", "queue b deserves 5 cpu, more than the 4 cpu that it may hold"
)


def test_a_mistake_is_counted_until_it_is_mended_and_logged_once(caplog) -> None:
    telemetry = Telemetry("scheduler")
    telemetry.log.propagate = True
    mistakes = Mistakes("default", Metrics(telemetry.registry), telemetry)

    def counted(fault: Fault) -> float | None:
        labels = {"pool": "default", "queue": fault.queue, "kind": fault.code}
        return telemetry.registry.get_sample_value("pumice_scheduler_queue_faults", labels)

    mistakes.tell([LOOP, QUOTA])
    mistakes.tell([LOOP, QUOTA, QUOTA])
    assert (counted(LOOP), counted(QUOTA)) == (1, 2)
    mistakes.tell([QUOTA])
    assert (counted(LOOP), counted(QUOTA)) == (None, 1)
    assert [record.getMessage() for record in caplog.records] == [LOOP.message, QUOTA.message]
