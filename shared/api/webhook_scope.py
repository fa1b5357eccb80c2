"""Which requests each webhook is asked about: conditions in CEL that the API server evaluates.

An update of what no rule reads (labels, finalizers, status) is left out, so that those who clean up are never
stopped; so is a pod that does not say that it is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.api.names import (
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    QUEUE_ALLOCATION_GATE,
    RESOURCE_GROUP,
)


def conditions(
    schedulers: Sequence[str],
    pod_annotations: Sequence[str],
    pod_namespaces: Sequence[str],
    trusted_users: Sequence[str],
) -> Mapping[str, Sequence[str]]:
    """Return by path what must all hold; a path that is missing is asked about everything.

    The arguments are those of :func:`shared.api.webhooks.webhook_configurations`.
    """
    changed = "object.spec != oldObject.spec"
    judged = [f"!(request.userInfo.username in {_list(trusted_users)})"] if trusted_users else []
    return {
        "/jobs/mutate": judged,
        "/jobs/validate": [_changes(changed), *judged],
        "/queues/validate": [_changes(f"{changed} || {_annotations_differ()}")],
        "/podgroups/mutate": ["!has(object.spec.queue) || object.spec.queue in ['', 'default']"],
        "/pods/mutate": [_asks([RESOURCE_GROUP, QUEUE_ALLOCATION_GATE, *pod_annotations], pod_namespaces)],
        "/pods/validate": [
            f"object.spec.schedulerName in {_list(schedulers)}",
            _has_any([JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE]),
        ],
        "/hypernodes/validate": [_changes(changed)],
        "/jobflows/validate": [_changes(changed)],
        "/cronjobs/validate": [_changes(changed)],
    }


def _changes(condition: str) -> str:
    return f"request.operation != 'UPDATE' || {condition}"


def _annotations_differ() -> str:
    sides = [
        f"(has({side}.metadata.annotations) ? {side}.metadata.annotations : {{}})"
        for side in ("object", "oldObject")
    ]
    return " != ".join(sides)


def _asks(annotations: Sequence[str], namespaces: Sequence[str]) -> str:
    asks = _has_any(annotations)
    return f"{asks} || request.namespace in {_list(namespaces)}" if namespaces else asks


def _has_any(annotations: Sequence[str]) -> str:
    any_of = " || ".join(f"{_quoted(name)} in object.metadata.annotations" for name in annotations)
    return f"(has(object.metadata.annotations) && ({any_of}))"


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(_quoted(value) for value in values)}]"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
