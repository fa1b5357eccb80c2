"""The kinds that Pumice reads and writes, as the API server serves them."""

from __future__ import annotations

from typing import Final

from shared.kube.port import Resource

JOBS: Final = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
CRONJOBS: Final = Resource("batch.volcano.sh", "v1alpha1", "cronjobs", "CronJob")
PODGROUPS: Final = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
QUEUES: Final = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
COMMANDS: Final = Resource("bus.volcano.sh", "v1alpha1", "commands", "Command")
JOBFLOWS: Final = Resource("flow.volcano.sh", "v1alpha1", "jobflows", "JobFlow")
JOBTEMPLATES: Final = Resource("flow.volcano.sh", "v1alpha1", "jobtemplates", "JobTemplate")
HYPERNODES: Final = Resource("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", namespaced=False)
NUMATOPOLOGIES: Final = Resource(
    "nodeinfo.volcano.sh", "v1alpha1", "numatopologies", "Numatopology", namespaced=False
)

PODS: Final = Resource("", "v1", "pods", "Pod")
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SERVICES: Final = Resource("", "v1", "services", "Service")
CONFIGMAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
SERVICEACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
PVCS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PVS: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
STORAGECLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSINODES: Final = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
DEVICECLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
RESOURCESLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
RESOURCECLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
RESOURCECLAIMTEMPLATES: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"
)
EVENTS: Final = Resource("", "v1", "events", "Event")
LIMITRANGES: Final = Resource("", "v1", "limitranges", "LimitRange")
RESOURCEQUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota")

PRIORITYCLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
INGRESSES: Final = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
INGRESSCLASSES: Final = Resource(
    "networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False
)
NETWORKPOLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
PDBS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
VALIDATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)

ALL: Final = tuple(value for value in list(globals().values()) if isinstance(value, Resource))

WORKLOADS: Final = (
    Resource("apps", "v1", "replicasets", "ReplicaSet"),
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("apps", "v1", "daemonsets", "DaemonSet"),
    Resource("batch", "v1", "jobs", "Job"),
)
"""Makers of plain pods that say something about them (a Deployment hands its own down to its ReplicaSets).
Not in ``ALL``: nothing of them is watched or written."""
