"""Pods in the read model: by name, by gang, and as running sums by node and by queue."""

from __future__ import annotations

from typing import Final

from services.gateway.core.facts import Model, PodFact
from shared.events.contracts import PodState, Resources

_ENDED: Final = frozenset(("Succeeded", "Failed"))


def put_pod(model: Model, state: PodState) -> None:
    """Take a pod's new state in."""
    key = (state.namespace, state.name)
    remove_pod(model, key)
    pod = PodFact(
        namespace=state.namespace,
        name=state.name,
        uid=state.uid,
        gang=state.gang,
        task=state.task,
        index=state.index,
        generation=state.generation,
        queue=state.queue,
        node=state.node,
        phase=state.phase,
        releasing=state.releasing,
        requests=_shared(model, state.shape.requests),
        started_at=state.started_at,
    )
    model.pods[key] = pod
    if pod.gang:
        model.pods_of.setdefault((pod.namespace, pod.gang), {})[pod.name] = pod
    _count(model, pod, 1)


def remove_pod(model: Model, key: tuple[str, str]) -> PodFact | None:
    """Forget a pod; return what was known of it."""
    pod = model.pods.pop(key, None)
    if pod is None:
        return None
    _count(model, pod, -1)
    if pod.gang:
        gang = (pod.namespace, pod.gang)
        members = model.pods_of.get(gang, {})
        members.pop(pod.name, None)
        if not members:
            model.pods_of.pop(gang, None)
    return pod


def _count(model: Model, pod: PodFact, sign: int) -> None:
    """Count a pod where it takes room: on its node and in its queue, from binding to its end."""
    if pod.node is None or pod.phase in _ENDED:
        return
    model.node_use.add(pod.node, pod.requests, sign)
    if pod.queue:
        model.queue_use.add(pod.queue, pod.requests, sign)


def _shared(model: Model, requests: Resources) -> Resources:
    return model.requests.setdefault(tuple(sorted(requests.items())), requests)
