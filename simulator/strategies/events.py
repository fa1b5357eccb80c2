"""Events: one stored form (core/v1) and its view as events.k8s.io/v1."""

from __future__ import annotations

from typing import Any, Final

from simulator.core.errors import Cause, invalid
from simulator.core.kinds import Strategy, View

JSON = dict[str, Any]

# core/v1 field → events.k8s.io/v1 field
_RENAMED: Final = {
    "message": "note",
    "involvedObject": "regarding",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK: Final = {new: old for old, new in _RENAMED.items()}


def _out(obj: JSON) -> JSON:
    renamed = {_RENAMED.get(key, key): value for key, value in obj.items()}
    for name in ("reportingController", "reportingInstance"):
        if not renamed.get(name):
            renamed.pop(name, None)
    return renamed | {"apiVersion": "events.k8s.io/v1"}


def _into(obj: JSON) -> JSON:
    return {_BACK.get(key, key): value for key, value in obj.items()} | {"apiVersion": "v1"}


def _validate(obj: JSON) -> list[Cause]:
    namespace = obj["involvedObject"].get("namespace", "")
    own = obj["metadata"].get("namespace", "")
    if namespace != own and not (not namespace and own in ("default", "kube-system")):
        return [invalid("involvedObject.namespace", namespace, "does not match event.namespace")]
    return []


CORE: Final = Strategy(validate=_validate, create_on_update=True)
VIEW: Final = View("events", _out, _into)
