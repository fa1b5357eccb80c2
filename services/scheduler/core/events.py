"""A decision of the core as the event that says it."""

from __future__ import annotations

from services.scheduler.core.decisions import Decision
from services.scheduler.core.numa import numa_cpus
from shared.events.contracts import Binding, GangDecided, GangRef


def event_of(
    decision: Decision, pool: str, cycle: int, cycle_traceparent: str | None, policy: str = ""
) -> GangDecided:
    """Return the event of a core decision. It was made by us, so it is not validated again."""
    return GangDecided.model_construct(
        decision=decision.number,
        pool=pool,
        gang=GangRef.model_construct(
            namespace=decision.namespace, name=decision.name, uid=decision.uid, generation=decision.generation
        ),
        enqueue=decision.enqueue,
        bindings=tuple(
            Binding.model_construct(
                pod=pod,
                task=task,
                node=node,
                uid=uid,
                devices=decision.devices.get(pod, ()),
                numa=numa_cpus(decision.cells.get(pod, ())),
            )
            for pod, task, node, uid in decision.rows
        ),
        minimum=decision.minimum,
        evictions=decision.evictions,
        reservations=decision.reservations,
        cycle=cycle,
        cycle_traceparent=cycle_traceparent,
        policy=policy,
        decided_at=decision.decided_at,
    )
