"""Pods in the read model: by name, by gang, and as running sums by node and by queue."""

from __future__ import annotations

from typing import Final

from services.gateway.core.facts import Model, PodFact
from shared.events.contracts import PodState, Resources

_ENDED: Final = frozenset(("Succeeded", "Failed"))


def pod_fact(state: PodState) -> PodFact:
    """Return what is kept of a pod's state."""
    return PodFact(
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
        requests=state.shape.requests,
        started_at=state.started_at,
    )


def put_pod(model: Model, pod: PodFact) -> None:
    """Take a pod's new state in."""
    key = (pod.namespace, pod.name)
    before = model.pods.get(key)
    pod.requests = _shared(model, pod.requests)
    if before is not None and _room(before) == _room(pod) and before.gang == pod.gang:
        model.pods[key] = pod  # most changes are of the phase: sums stay as they are
    else:
        remove_pod(model, key)
        model.pods[key] = pod
        _count(model, pod, 1)
    if pod.gang:
        model.pods_of.setdefault((pod.namespace, pod.gang), {})[pod.name] = pod


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


def _room(pod: PodFact) -> tuple[str | None, str, int]:
    """Return where a pod takes room and how much; equal requests are one object."""
    node = None if pod.phase in _ENDED else pod.node
    return node, pod.queue, id(pod.requests)


def _count(model: Model, pod: PodFact, sign: int) -> None:
    """Count a pod where it takes room: on its node and in its queue, from binding to its end."""
    if pod.node is None or pod.phase in _ENDED:
        return
    model.node_use.add(pod.node, pod.requests, sign)
    if pod.queue:
        model.queue_use.add(pod.queue, pod.requests, sign)


def _shared(model: Model, requests: Resources) -> Resources:
    return model.requests.setdefault(tuple(sorted(requests.items())), requests)
