"""What exists, from ``cluster-state``: jobs, podgroups, pods, nodes, queues; and what is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from services.gateway.core.facts import GangKey, JobKey, Model, PodFact
from services.gateway.core.pods import pod_fact, put_pod, remove_pod
from services.gateway.core.records import NOTHING, Changes, gang_of, job_record, life_of, owned_gang, owner_of
from shared.events import contracts as c


def _job_state(model: Model, event: c.JobState) -> Changes:
    key = (event.namespace, event.name)
    record = job_record(model, key, event.changed_at)
    if record.state is not None and record.state.uid != event.uid:
        record.past.add(record.state.uid)
    record.state = event
    record.past.discard(event.uid)
    life = life_of(model, record, event.uid)
    life.submission = event.submission or life.submission
    life.traceparent = event.traceparent or life.traceparent
    life.created_at = event.created_at
    life.last_state = event
    if event.podgroup:
        owned_gang(model, (event.namespace, event.podgroup), key)
    return frozenset((key,))


def _podgroup_state(model: Model, event: c.PodGroupState) -> Changes:
    gang = gang_of(model, (event.namespace, event.name))
    gang.exists = True
    if event.gang is not None:
        gang.ready[event.gang.generation] = event.gang.ready_since
        if event.gang.job:
            gang.owner = (event.namespace, event.gang.job)
    return owner_of(gang)


def _pod_state(model: Model, event: c.PodState) -> Changes:
    return pod_seen(model, pod_fact(event))


def pod_seen(model: Model, pod: PodFact) -> Changes:
    """Take a pod's new state in."""
    put_pod(model, pod)
    return _gang_changed(model, pod.namespace, pod.gang)


def _node_state(model: Model, event: c.NodeState) -> Changes:
    model.nodes[event.name] = event
    return NOTHING


def _queue_state(model: Model, event: c.QueueState) -> Changes:
    model.queues[event.name] = event
    return NOTHING


def _gang_changed(model: Model, namespace: str, name: str | None) -> Changes:
    gang = model.gangs.get((namespace, name)) if name else None
    return owner_of(gang) if gang else NOTHING


def _job_gone(model: Model, key: JobKey) -> Changes:
    record = model.jobs.get(key)
    if record is None or record.state is None:
        return NOTHING
    record.past.add(record.state.uid)
    record.state = None
    return frozenset((key,))


def _pod_gone(model: Model, key: tuple[str, str]) -> Changes:
    pod = remove_pod(model, key)
    return _gang_changed(model, pod.namespace, pod.gang) if pod else NOTHING


def _podgroup_gone(model: Model, key: GangKey) -> Changes:
    gang = model.gangs.get(key)
    if gang is None:
        return NOTHING
    gang.exists = False
    return owner_of(gang)


def _node_gone(model: Model, key: tuple[str, str]) -> Changes:
    model.nodes.pop(key[1], None)
    return NOTHING


def _queue_gone(model: Model, key: tuple[str, str]) -> Changes:
    model.queues.pop(key[1], None)
    return NOTHING


STATES: Final[Mapping[type[c.Contract], Callable[[Model, Any], Changes]]] = {
    c.JobState: _job_state,
    c.PodGroupState: _podgroup_state,
    c.PodState: _pod_state,
    c.NodeState: _node_state,
    c.QueueState: _queue_state,
}
"""What to do with each kind of state."""

GONE: Final[Mapping[str, Callable[[Model, tuple[str, str]], Changes]]] = {
    "job": _job_gone,
    "pod": _pod_gone,
    "podgroup": _podgroup_gone,
    "node": _node_gone,
    "queue": _queue_gone,
}
"""What to do when a record of ``cluster-state`` is a tombstone, by the key's kind."""
