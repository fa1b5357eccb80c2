"""The built-in kinds this server serves, each with its names and its rules."""

from __future__ import annotations

from typing import Any, Final

from simulator.columns.table import COLUMNS
from simulator.core.kinds import VERBS, Kind, Scale, Strategy, View
from simulator.core.typed import Types
from simulator.strategies import (
    cluster,
    crds,
    events,
    jobs,
    network,
    pods,
    shared_rules,
    storage,
    webhooks,
    workloads,
)
from simulator.types import load

JSON = dict[str, Any]

TYPES: Final = Types(load())

_REPLICAS: Final = Scale(".spec.replicas", ".status.replicas")


def _kind(
    group: str,
    plural: str,
    kind: str,
    short: str = "",
    strategy: Strategy = shared_rules.PLAIN,
    *,
    namespaced: bool = True,
    status: bool = False,
    scale: Scale | None = None,
    all_: bool = False,
    model: str = "",
    view: View | None = None,
) -> Kind:
    package = group.partition(".")[0] if group else "core"
    type_name = model or f"{package}/v1.{kind}"
    api_version = f"{group}/v1" if group else "v1"
    return Kind(
        group=group,
        version="v1",
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        short_names=tuple(short.split()),
        categories=("all",)
        if all_
        else ("api-extensions",)
        if "webhook" in plural or plural.startswith("customres")
        else (),
        status=status,
        scale=scale,
        verbs=tuple(verb for verb in VERBS if verb != "deletecollection")
        if plural == "namespaces"
        else VERBS,
        strategy=strategy,
        decode=lambda body: TYPES.decode(type_name, api_version, kind, body),
        type_name=type_name,
        view=view,
        fields=TYPES.fields,
        columns=COLUMNS.get(f"{plural}.{group}" if group else plural, ()),
    )


_APPS, _BATCH, _NET, _RBAC = "apps", "batch", "networking.k8s.io", "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"

KINDS: Final[tuple[Kind, ...]] = (
    _kind("", "namespaces", "Namespace", "ns", cluster.NAMESPACE, namespaced=False, status=True),
    _kind("", "pods", "Pod", "po", pods.STRATEGY, status=True, all_=True),
    _kind("", "nodes", "Node", "no", cluster.NODE, namespaced=False, status=True),
    _kind("", "services", "Service", "svc", network.SERVICE, status=True, all_=True),
    _kind("", "configmaps", "ConfigMap", "cm", storage.CONFIGMAP),
    _kind("", "secrets", "Secret", "", storage.SECRET),
    _kind("", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", storage.CLAIM, status=True),
    _kind("", "persistentvolumes", "PersistentVolume", "pv", storage.VOLUME, namespaced=False, status=True),
    _kind("", "serviceaccounts", "ServiceAccount", "sa", cluster.SERVICEACCOUNT),
    _kind("", "events", "Event", "ev", events.CORE),
    _kind("", "endpoints", "Endpoints", "ep", network.ENDPOINTS),
    _kind("", "resourcequotas", "ResourceQuota", "quota", cluster.QUOTA, status=True),
    _kind("", "limitranges", "LimitRange", "limits", cluster.LIMITRANGE),
    _kind(
        "",
        "replicationcontrollers",
        "ReplicationController",
        "rc",
        workloads.REPLICATION,
        status=True,
        scale=_REPLICAS,
        all_=True,
    ),
    _kind(
        _APPS,
        "deployments",
        "Deployment",
        "deploy",
        workloads.DEPLOYMENT,
        status=True,
        scale=_REPLICAS,
        all_=True,
    ),
    _kind(
        _APPS,
        "replicasets",
        "ReplicaSet",
        "rs",
        workloads.REPLICASET,
        status=True,
        scale=_REPLICAS,
        all_=True,
    ),
    _kind(
        _APPS,
        "statefulsets",
        "StatefulSet",
        "sts",
        workloads.STATEFULSET,
        status=True,
        scale=_REPLICAS,
        all_=True,
    ),
    _kind(_APPS, "daemonsets", "DaemonSet", "ds", workloads.DAEMONSET, status=True, all_=True),
    _kind(_BATCH, "jobs", "Job", "", jobs.JOB, status=True, all_=True),
    _kind(_BATCH, "cronjobs", "CronJob", "cj", jobs.CRONJOB, status=True, all_=True),
    _kind(_NET, "ingresses", "Ingress", "ing", network.INGRESS, status=True),
    _kind(_NET, "ingressclasses", "IngressClass", "", network.INGRESSCLASS, namespaced=False),
    _kind(_NET, "networkpolicies", "NetworkPolicy", "netpol", network.NETWORKPOLICY),
    _kind(
        "scheduling.k8s.io", "priorityclasses", "PriorityClass", "pc", cluster.PRIORITYCLASS, namespaced=False
    ),
    _kind("coordination.k8s.io", "leases", "Lease", "", shared_rules.PLAIN),
    _kind(_RBAC, "roles", "Role"),
    _kind(_RBAC, "rolebindings", "RoleBinding", "", cluster.ROLEBINDING),
    _kind(_RBAC, "clusterroles", "ClusterRole", namespaced=False),
    _kind(_RBAC, "clusterrolebindings", "ClusterRoleBinding", "", cluster.ROLEBINDING, namespaced=False),
    _kind("policy", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", workloads.BUDGET, status=True),
    _kind("storage.k8s.io", "storageclasses", "StorageClass", "sc", storage.STORAGECLASS, namespaced=False),
    _kind("storage.k8s.io", "csinodes", "CSINode", namespaced=False),
    _kind(
        _ADMISSION,
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        "",
        webhooks.MUTATING,
        namespaced=False,
    ),
    _kind(
        _ADMISSION,
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        "",
        webhooks.VALIDATING,
        namespaced=False,
    ),
    _kind(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd crds",
        crds.STRATEGY,
        namespaced=False,
        status=True,
    ),
    _kind("events.k8s.io", "events", "Event", "ev", events.CORE, view=events.VIEW),
)
