"""The columns of every built-in kind, as ``kubectl get`` shows them (headers without descriptions)."""

from __future__ import annotations

from typing import Any, Final

from simulator.columns.cells import (
    AGE,
    NONE,
    WIDE_TEMPLATE,
    Cell,
    at,
    count_of,
    field,
    labels_of,
    number,
    selector_of,
    since,
    text,
)
from simulator.columns.cluster import BINDING, EVENTS, NODES, created, quota
from simulator.columns.network import SERVICES, endpoints, ingress_address, ingress_hosts
from simulator.columns.pods import PODS
from simulator.core.custom import duration
from simulator.core.kinds import Column

JSON = dict[str, Any]


def _ratio(have: tuple[str, ...], want: tuple[str, ...], default: int = 0) -> Cell:
    return lambda obj, _now: (
        f"{at(obj, *have) or 0}/{at(obj, *want) if at(obj, *want) is not None else default}"
    )


def _modes(*path: str) -> Cell:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return lambda obj, _now: ",".join(str(short.get(mode, mode)) for mode in at(obj, *path) or ())


def _job_duration(obj: JSON, now: float) -> str:
    start, end = at(obj, "status", "startTime"), at(obj, "status", "completionTime")
    if not start:
        return ""
    from datetime import datetime

    until = datetime.fromisoformat(end).timestamp() if end else now
    return duration(int(until - datetime.fromisoformat(start).timestamp()))


def _job_status(obj: JSON, _now: float) -> str:
    held = {c["type"] for c in at(obj, "status", "conditions") or () if c.get("status") == "True"}
    for kind, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if kind in held:
            return word
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in held:
            return kind
    return "Running"


_REPLICAS: Final = (
    number("Desired", field("spec", "replicas", default=0)),
    number("Current", field("status", "replicas", default=0)),
    number("Ready", field("status", "readyReplicas", default=0)),
    AGE,
    *WIDE_TEMPLATE,
)


COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "pods": PODS,
    "nodes": NODES,
    "services": SERVICES,
    "events": EVENTS,
    "events.events.k8s.io": EVENTS,
    "namespaces": (text("Status", field("status", "phase")), AGE),
    "configmaps": (
        text("Data", lambda obj, _now: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())),
        AGE,
    ),
    "secrets": (text("Type", field("type")), text("Data", count_of("data")), AGE),
    "serviceaccounts": (AGE,),
    "endpoints": (text("Endpoints", endpoints), AGE),
    "limitranges": (Column("Created At", created, "date"),),
    "resourcequotas": (text("Request", quota("requests")), text("Limit", quota("limits")), AGE),
    "replicationcontrollers": (*_REPLICAS, text("Selector", selector_of("spec", "selector"), 1)),
    "replicasets.apps": (*_REPLICAS, text("Selector", selector_of("spec", "selector"), 1)),
    "deployments.apps": (
        text("Ready", _ratio(("status", "readyReplicas"), ("spec", "replicas"))),
        text("Up-to-date", field("status", "updatedReplicas", default=0)),
        text("Available", field("status", "availableReplicas", default=0)),
        AGE,
        *WIDE_TEMPLATE,
        text("Selector", selector_of("spec", "selector"), 1),
    ),
    "statefulsets.apps": (
        text("Ready", _ratio(("status", "readyReplicas"), ("spec", "replicas"))),
        AGE,
        *WIDE_TEMPLATE,
    ),
    "daemonsets.apps": (
        number("Desired", field("status", "desiredNumberScheduled", default=0)),
        number("Current", field("status", "currentNumberScheduled", default=0)),
        number("Ready", field("status", "numberReady", default=0)),
        number("Up-to-date", field("status", "updatedNumberScheduled", default=0)),
        number("Available", field("status", "numberAvailable", default=0)),
        text(
            "Node Selector", lambda obj, _now: labels_of(at(obj, "spec", "template", "spec", "nodeSelector"))
        ),
        AGE,
        *WIDE_TEMPLATE,
        text("Selector", selector_of("spec", "selector"), 1),
    ),
    "jobs.batch": (
        text("Status", _job_status),
        text("Completions", _ratio(("status", "succeeded"), ("spec", "completions"), 1)),
        text("Duration", _job_duration),
        AGE,
        *WIDE_TEMPLATE,
        text("Selector", selector_of("spec", "selector"), 1),
    ),
    "cronjobs.batch": (
        text("Schedule", field("spec", "schedule")),
        text("Timezone", field("spec", "timeZone", default=NONE)),
        Column("Suspend", lambda obj, _now: str(bool(at(obj, "spec", "suspend"))), "boolean"),
        number("Active", count_of("status", "active")),
        text(
            "Last Schedule",
            lambda obj, now: since(t, now) if (t := at(obj, "status", "lastScheduleTime")) else NONE,
        ),
        AGE,
        *WIDE_TEMPLATE,
        text("Selector", selector_of("spec", "jobTemplate", "spec", "selector"), 1),
    ),
    "persistentvolumeclaims": (
        text("Status", field("status", "phase")),
        text("Volume", field("spec", "volumeName")),
        text("Capacity", field("status", "capacity", "storage")),
        text("Access Modes", _modes("status", "accessModes")),
        text("StorageClass", field("spec", "storageClassName")),
        text("VolumeAttributesClass", field("spec", "volumeAttributesClassName", default="<unset>")),
        AGE,
        text("VolumeMode", field("spec", "volumeMode"), 1),
    ),
    "persistentvolumes": (
        text("Capacity", field("spec", "capacity", "storage")),
        text("Access Modes", _modes("spec", "accessModes")),
        text("Reclaim Policy", field("spec", "persistentVolumeReclaimPolicy")),
        text("Status", field("status", "phase")),
        text(
            "Claim",
            lambda obj, _now: f"{c['namespace']}/{c['name']}" if (c := at(obj, "spec", "claimRef")) else "",
        ),
        text("StorageClass", field("spec", "storageClassName")),
        text("VolumeAttributesClass", field("spec", "volumeAttributesClassName", default="<unset>")),
        text("Reason", field("status", "reason")),
        AGE,
        text("VolumeMode", field("spec", "volumeMode"), 1),
    ),
    "ingresses.networking.k8s.io": (
        text("Class", field("spec", "ingressClassName", default=NONE)),
        text("Hosts", ingress_hosts),
        text("Address", ingress_address),
        text("Ports", lambda obj, _now: "80, 443" if obj["spec"].get("tls") else "80"),
        AGE,
    ),
    "ingressclasses.networking.k8s.io": (
        text("Controller", field("spec", "controller")),
        text(
            "Parameters",
            lambda obj, _now: (
                f"{p.get('kind')}.{p.get('apiGroup')}/{p.get('name')}"
                if (p := at(obj, "spec", "parameters"))
                else NONE
            ),
        ),
        AGE,
    ),
    "networkpolicies.networking.k8s.io": (text("Pod-Selector", selector_of("spec", "podSelector")), AGE),
    "priorityclasses.scheduling.k8s.io": (
        number("Value", field("value", default=0)),
        Column("Global-Default", field("globalDefault", default=False), "boolean"),
        AGE,
        text("PreemptionPolicy", field("preemptionPolicy")),
    ),
    "leases.coordination.k8s.io": (text("Holder", field("spec", "holderIdentity")), AGE),
    "roles.rbac.authorization.k8s.io": (Column("Created At", created, "date"),),
    "clusterroles.rbac.authorization.k8s.io": (Column("Created At", created, "date"),),
    "rolebindings.rbac.authorization.k8s.io": BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": BINDING,
    "poddisruptionbudgets.policy": (
        text("Min Available", lambda obj, now: str(field("spec", "minAvailable", default="N/A")(obj, now))),
        text(
            "Max Unavailable", lambda obj, now: str(field("spec", "maxUnavailable", default="N/A")(obj, now))
        ),
        number("Allowed Disruptions", field("status", "disruptionsAllowed", default=0)),
        AGE,
    ),
    "storageclasses.storage.k8s.io": (
        text("Provisioner", field("provisioner")),
        text("ReclaimPolicy", field("reclaimPolicy")),
        text("VolumeBindingMode", field("volumeBindingMode")),
        Column("AllowVolumeExpansion", field("allowVolumeExpansion", default=False), "string"),
        AGE,
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (
        number("Webhooks", count_of("webhooks")),
        AGE,
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (
        number("Webhooks", count_of("webhooks")),
        AGE,
    ),
    "customresourcedefinitions.apiextensions.k8s.io": (Column("Created At", created, "date"),),
}
