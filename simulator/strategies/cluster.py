"""Namespaces, nodes, priorities, limits, quotas and roles."""

from __future__ import annotations

from typing import Any, Final

from simulator.core import names
from simulator.core.errors import Cause, invalid, unsupported
from simulator.core.kinds import Strategy
from simulator.strategies.shared_rules import keep_status, only_status

JSON = dict[str, Any]


def _namespace_labels(obj: JSON) -> None:
    if name := obj["metadata"].get("name"):
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _new_namespace(obj: JSON) -> None:
    obj["status"] = {"phase": "Active"}
    finalizers = (obj.get("spec") or {}).get("finalizers", [])
    obj["spec"] = {"finalizers": [*finalizers, *(["kubernetes"] if "kubernetes" not in finalizers else [])]}


def _namespace_update(new: JSON, old: JSON) -> None:
    new["spec"], new["status"] = old["spec"], old["status"]


NAMESPACE: Final = Strategy(
    default=_namespace_labels,
    prepare_create=_new_namespace,
    prepare_update=_namespace_update,
    prepare_status=only_status,
)


def _default_node(obj: JSON) -> None:
    status = obj["status"]
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _node_update(new: JSON, old: JSON) -> None:
    new["status"] = old["status"]
    if "podCIDR" not in new["spec"] and "podCIDR" in old["spec"]:
        new["spec"] |= {k: old["spec"][k] for k in ("podCIDR", "podCIDRs") if k in old["spec"]}


def _validate_node(obj: JSON) -> list[Cause]:
    causes: list[Cause] = []
    for at, taint in enumerate(obj["spec"].get("taints") or ()):
        field = f"spec.taints[{at}]"
        if why := names.qualified_name(taint.get("key", "")):
            causes.append(invalid(f"{field}.key", taint.get("key", ""), why))
        if taint.get("effect") not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            causes.append(
                unsupported(
                    f"{field}.effect",
                    taint.get("effect", ""),
                    ("NoSchedule", "PreferNoSchedule", "NoExecute"),
                )
            )
    return causes


NODE: Final = Strategy(
    default=_default_node,
    validate=_validate_node,
    prepare_update=_node_update,
    validate_update=lambda new, _old: _validate_node(new),
    prepare_status=only_status,
)


def _default_priority(obj: JSON) -> None:
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _validate_priority(obj: JSON) -> list[Cause]:
    name = obj["metadata"].get("name", "")
    if name.startswith("system-") and name not in ("system-cluster-critical", "system-node-critical"):
        words = "priority class names with 'system-' prefix are reserved for system use only. error: "
        return [Cause("FieldValueForbidden", f"Forbidden: {words}", "metadata.name")]
    if obj["value"] > 1_000_000_000 and not name.startswith("system-"):  # noqa: PLR2004
        return [
            Cause(
                "FieldValueForbidden",
                "Forbidden: maximum allowed value of a user defined priority is 1000000000",
                "value",
            )
        ]
    return []


def _priority_change(new: JSON, old: JSON) -> list[Cause]:
    causes: list[Cause] = []
    if new["value"] != old["value"]:
        causes.append(Cause("FieldValueForbidden", "Forbidden: may not be changed in an update.", "value"))
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        causes.append(invalid("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable"))
    return causes


PRIORITYCLASS: Final = Strategy(
    default=_default_priority,
    prepare_create=lambda obj: obj["metadata"].update(generation=1),
    validate=_validate_priority,
    validate_update=_priority_change,
    generation=True,
)


def _default_limits(obj: JSON) -> None:
    for item in obj.get("spec", {}).get("limits") or ():
        if item.get("type") == "Container":
            item["default"] = item.get("max", {}) | item.get("default", {})
            item["defaultRequest"] = item.get("min", {}) | item["default"] | item.get("defaultRequest", {})
            for part in ("default", "defaultRequest"):
                if not item[part]:
                    del item[part]


LIMITRANGE: Final = Strategy(default=_default_limits)


QUOTA: Final = Strategy(
    prepare_create=lambda obj: obj.update(status={}),
    prepare_update=keep_status,
    prepare_status=only_status,
    returns_deleted=True,
)


SERVICEACCOUNT: Final = Strategy(returns_deleted=True)


def _default_binding(obj: JSON) -> None:
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


ROLEBINDING: Final = Strategy(default=_default_binding)
