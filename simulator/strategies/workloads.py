"""Deployments and their like, and disruption budgets. No controller acts on them here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from simulator.core import selectors
from simulator.core.errors import Cause, invalid, required
from simulator.core.kinds import Strategy
from simulator.strategies import pod_rules, pods
from simulator.strategies.shared_rules import keep_status, only_status

JSON = dict[str, Any]


def _first_budget(obj: JSON) -> None:
    obj["metadata"]["generation"] = 1
    obj["status"] = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}


BUDGET: Final = Strategy(
    prepare_create=_first_budget, prepare_update=keep_status, prepare_status=only_status, generation=True
)


def _default_workload(fields: JSON, strategy: JSON | None = None, strategy_field: str = "") -> Any:
    def default(obj: JSON) -> None:
        spec = obj.setdefault("spec", {})
        for name, value in fields.items():
            spec.setdefault(name, value)
        if strategy is not None:
            chosen = spec.setdefault(strategy_field, {})
            chosen.setdefault("type", "RollingUpdate")
            if chosen["type"] == "RollingUpdate":
                chosen["rollingUpdate"] = strategy | chosen.get("rollingUpdate", {})
        pods.default_template(spec["template"])

    return default


def _validate_workload(obj: JSON) -> list[Cause]:
    spec = obj["spec"]
    causes: list[Cause] = []
    selector = spec.get("selector")
    if selector is None:
        causes.append(required("spec.selector"))
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if selector is None or not selectors.from_object(selector).holds(labels):
        causes.append(
            invalid(
                "spec.template.metadata.labels", labels or {}, "`selector` does not match template `labels`"
            )
        )
    if spec.get("replicas", 0) < 0:
        causes.append(invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
    return causes + pod_rules.validate_spec(spec["template"]["spec"], "spec.template.spec")


def _workload_change(new: JSON, old: JSON) -> list[Cause]:
    causes = _validate_workload(new)
    if new["spec"].get("selector") != old["spec"].get("selector"):
        causes.append(invalid("spec.selector", new["spec"].get("selector"), "field is immutable"))
    return causes


_GENERATION: Final = "deprecated.daemonset.template.generation"


def _count_templates(new: JSON, old: JSON) -> None:
    """Keep the number of a daemon set's templates, which the older API had as a field."""
    keep_status(new, old)
    annotations = old["metadata"].get("annotations") or {}
    count = int(annotations.get(_GENERATION, "1")) + (new["spec"]["template"] != old["spec"]["template"])
    new["metadata"].setdefault("annotations", {})[_GENERATION] = str(count)


def _workload(default: Callable[[JSON], None], status: JSON | None = None) -> Strategy:
    def prepare(obj: JSON) -> None:
        obj["metadata"]["generation"] = 1
        obj["status"] = dict(status or {})

    return Strategy(
        default=default,
        prepare_create=prepare,
        validate=_validate_workload,
        prepare_update=keep_status,
        validate_update=_workload_change,
        prepare_status=only_status,
        generation=True,
    )


DEPLOYMENT: Final = _workload(
    _default_workload(
        {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
        {"maxUnavailable": "25%", "maxSurge": "25%"},
        "strategy",
    )
)


REPLICASET: Final = _workload(_default_workload({"replicas": 1}), {"replicas": 0})


STATEFULSET: Final = _workload(
    _default_workload(
        {
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "podManagementPolicy": "OrderedReady",
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
        {"partition": 0},
        "updateStrategy",
    ),
    {"replicas": 0, "availableReplicas": 0},
)


_DAEMONS: Final = _workload(
    _default_workload({"revisionHistoryLimit": 10}, {"maxUnavailable": 1, "maxSurge": 0}, "updateStrategy"),
    {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0},
)


def _first_daemons(obj: JSON) -> None:
    _DAEMONS.prepare_create(obj)
    obj["metadata"].setdefault("annotations", {})[_GENERATION] = "1"


DAEMONSET: Final = replace(_DAEMONS, prepare_create=_first_daemons, prepare_update=_count_templates)


def _default_replication(obj: JSON) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    template = spec.setdefault("template", {})
    labels = (template.get("metadata") or {}).get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
    pods.default_template(template)


def _first_replication(obj: JSON) -> None:
    obj["metadata"]["generation"] = 1
    obj["status"] = {"replicas": 0}


REPLICATION: Final = Strategy(
    default=_default_replication,
    prepare_create=_first_replication,
    prepare_update=keep_status,
    prepare_status=only_status,
    generation=True,
    orphans=True,
)
