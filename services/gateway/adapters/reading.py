"""From a record of the log to what the fold takes in.

Most records are states of pods, and most of a pod's state is a shape of which the views need the requests
alone. These records are read without validation: their one writer is the controller.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import orjson

from services.gateway.core.facts import Arrival, PodFact
from shared.events import topics
from shared.events.codec import decode, written_at
from shared.events.contracts import PodState
from shared.log.port import Delivery

_POD_TYPE: Final = ("ce_type", PodState.TYPE.encode())
_POD_KEY: Final = b"pod/"


def read_record(delivery: Delivery) -> Arrival:
    """Return a record as the fold takes it. Raises ContractError when it cannot be read."""
    at = written_at(delivery)
    pod = _pod(delivery.value) if delivery.value is not None and _is_pod(delivery) else None
    envelope = decode(delivery) if delivery.value is not None and pod is None else None
    return Arrival(delivery.topic, delivery.partition, delivery.offset, at, delivery.key, envelope, pod)


def _is_pod(delivery: Delivery) -> bool:
    of_pod = delivery.topic == topics.CLUSTER_STATE and (delivery.key or b"").startswith(_POD_KEY)
    return of_pod and _POD_TYPE in delivery.headers


def _pod(value: bytes) -> PodFact | None:
    """Return what is kept of a pod's state; None when it is not as it should be: ``decode`` says why."""
    try:
        return _fact(orjson.loads(value))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _fact(raw: dict[str, Any]) -> PodFact:
    """Return the pod in a PodState's JSON; absent fields have their default."""
    started = raw.get("startedAt")
    return PodFact(
        namespace=raw["namespace"],
        name=raw["name"],
        uid=raw["uid"],
        gang=raw.get("gang"),
        task=raw.get("task", ""),
        index=raw.get("index", 0),
        generation=raw.get("generation", 0),
        queue=raw.get("queue", ""),
        node=raw.get("node"),
        phase=raw.get("phase", "Pending"),
        releasing=raw.get("releasing", False),
        requests=raw["shape"].get("requests", {}),
        started_at=datetime.fromisoformat(started) if started else None,
    )
