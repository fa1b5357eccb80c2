"""What each service may do in Kubernetes, and why: the least with which it works.

The gateway and the scheduler speak to the log only and are let do nothing. Permissions on ``…/finalizers``
are for clusters that check who may block an owner's deletion (OwnerReferencesPermissionEnforcement).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shared.api import resources as r
from shared.api.base import JSON
from shared.kube.port import Resource

API: Final = "rbac.authorization.k8s.io"
_READ: Final = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Grant:
    """Verbs on resources of one API group. ``names`` limits them to objects of these names."""

    resources: tuple[Resource, ...]
    verbs: tuple[str, ...]
    why: str
    subresource: str = ""
    names: tuple[str, ...] = ()

    def rules(self) -> list[JSON]:
        """Return a role's rules, one for each API group: a rule grants its resources in all its groups."""
        suffix = f"/{self.subresource}" if self.subresource else ""
        names = {"resourceNames": list(self.names)} if self.names else {}
        return [
            {
                "apiGroups": [group],
                "resources": [f"{one.plural}{suffix}" for one in self.resources if one.group == group],
                "verbs": list(self.verbs),
                **names,
            }
            for group in dict.fromkeys(one.group for one in self.resources)
        ]


@dataclass(frozen=True, slots=True)
class Account:
    """A service's account: what it may do in the whole cluster, and in its own namespace."""

    service: str
    cluster: tuple[Grant, ...] = ()
    own_namespace: tuple[Grant, ...] = ()

    @property
    def name(self) -> str:
        """Name of the service account and its roles."""
        return f"pumice-{self.service}"


def accounts(*, webhook_configuration: str, webhook_secret: str) -> tuple[Account, ...]:
    """Return the accounts of all services."""
    return (
        Account("gateway"),
        Account("scheduler"),
        Account("admission", *_admission(webhook_configuration, webhook_secret)),
        Account("controller", _CONTROLLER),
        Account("workflows", _WORKFLOWS),
    )


_CONTROLLER: Final = (
    Grant((r.LIMITRANGES, r.RESOURCEQUOTAS), _READ, "asking again about pods that they hold"),
    Grant((r.NAMESPACES,), ("get",), "which cluster this is", names=("kube-system",)),
    Grant((r.JOBS,), (*_READ, "create", "patch", "delete"), "jobs from the log, scaling, time to live"),
    Grant((r.JOBS,), ("patch",), "phases and counts", "status"),
    Grant((r.JOBS,), ("update",), "owner of pods and of what jobs need beside them", "finalizers"),
    Grant((r.PODGROUPS,), (*_READ, "create", "patch", "delete"), "gangs (their status is no subresource)"),
    Grant((r.QUEUES,), (*_READ, "create", "patch"), "the first queues, closing with a parent"),
    Grant((r.QUEUES,), ("patch",), "states", "status"),
    Grant((r.COMMANDS,), (*_READ, "delete"), "a command is deleted before it is obeyed"),
    Grant((r.PODS,), (*_READ, "create", "patch", "delete"), "members of gangs"),
    Grant((r.PODS,), ("create",), "carrying decisions out", "binding"),
    Grant((r.PODS,), ("patch",), "PodScheduled of pods that wait", "status"),
    Grant(r.WORKLOADS, ("get",), "what the owner of plain pods says about their gang"),
    Grant(
        (r.NODES, r.NUMATOPOLOGIES, r.PRIORITYCLASSES, r.HYPERNODES, r.PDBS),
        _READ,
        "what the scheduler decides by",
    ),
    Grant(
        (r.SERVICES, r.CONFIGMAPS, r.SECRETS, r.NETWORKPOLICIES, r.INGRESSES),
        (*_READ, "create", "patch", "delete"),
        "what jobs need beside their pods (watched by label: what somebody deletes is made again); "
        "the scheduler's policy",
    ),
    Grant((r.PVCS,), (*_READ, "create", "patch"), "claims of jobs; they go with their job"),
    Grant((r.PVS,), (*_READ, "patch"), "where volumes are reached from; a free one is kept for a claim"),
    Grant((r.STORAGECLASSES, r.CSINODES), _READ, "how claims get volumes, how many a node takes"),
    Grant(
        (r.DEVICECLASSES, r.RESOURCESLICES, r.RESOURCECLAIMTEMPLATES),
        _READ,
        "devices that can be claimed, where the API server serves them",
    ),
    Grant((r.RESOURCECLAIMS,), (*_READ, "patch"), "a claim that has devices is protected"),
    Grant((r.RESOURCECLAIMS,), ("patch",), "which devices a claim gets, and for which pods", "status"),
    Grant((r.RESOURCECLAIMS,), ("patch",), "the same, as Kubernetes 1.36 asks for it", "binding"),
    Grant((r.INGRESSCLASSES,), ("get",), "whether a class is there"),
    Grant((r.EVENTS,), ("create", "patch"), "what happened to a job"),
)

_WORKFLOWS: Final = (
    Grant((r.JOBFLOWS, r.JOBTEMPLATES, r.CRONJOBS, r.HYPERNODES), _READ, "what is to be started"),
    Grant((r.JOBFLOWS, r.JOBTEMPLATES, r.CRONJOBS, r.HYPERNODES), ("patch",), "states", "status"),
    Grant((r.JOBFLOWS, r.CRONJOBS), ("update",), "owner of jobs", "finalizers"),
    Grant((r.JOBS,), (*_READ, "create", "delete"), "the jobs of flows and schedules"),
    Grant((r.PODS,), ("list",), "pods that a flow's probes ask"),
    Grant((r.HYPERNODES,), ("create", "patch", "delete"), "found by labels"),
    Grant((r.NODES, r.CONFIGMAPS), _READ, "labels of nodes, and which of them make a topology"),
    Grant((r.EVENTS,), ("create",), "what happened to a flow"),
)


def _admission(configuration: str, secret: str) -> tuple[tuple[Grant, ...], tuple[Grant, ...]]:
    hooks = (r.MUTATING_WEBHOOKS, r.VALIDATING_WEBHOOKS)
    cluster = (
        Grant((r.QUEUES, r.NAMESPACES), _READ, "what the rules ask about"),
        Grant(hooks, (*_READ, "update"), "keeping caBundle right", names=(configuration,)),
    )
    own = (
        Grant((r.SECRETS,), ("create",), "the webhooks' certificate"),
        Grant((r.SECRETS,), (*_READ, "update"), "the webhooks' certificate", names=(secret,)),
    )
    return cluster, own


def user_of(service: str, namespace: str) -> str:
    """Return a service's name as the API server says it."""
    return f"system:serviceaccount:{namespace}:pumice-{service}"


def manifests(account: Account, namespace: str, labels: dict[str, str]) -> list[JSON]:
    """Return a service account, its roles and their bindings."""
    made = [_object("v1", "ServiceAccount", account.name, labels, namespace=namespace)]
    subject = {"kind": "ServiceAccount", "name": account.name, "namespace": namespace}
    for kind, grants, where in (
        ("ClusterRole", account.cluster, None),
        ("Role", account.own_namespace, namespace),
    ):
        if grants:
            role = _object(f"{API}/v1", kind, account.name, labels, namespace=where)
            binding = _object(f"{API}/v1", f"{kind}Binding", account.name, labels, namespace=where)
            made.append({**role, "rules": [rule for grant in grants for rule in grant.rules()]})
            reference = {"apiGroup": API, "kind": kind, "name": account.name}
            made.append({**binding, "roleRef": reference, "subjects": [subject]})
    return made


def user_roles(labels: dict[str, str]) -> list[JSON]:
    """Return roles that add our kinds to Kubernetes' own view, edit and admin."""
    kinds = (r.JOBS, r.PODGROUPS, r.COMMANDS, r.JOBFLOWS, r.JOBTEMPLATES, r.CRONJOBS)
    read = Grant(kinds, _READ, "looking").rules()
    write = Grant(kinds, ("create", "update", "patch", "delete"), "working").rules()
    made = []
    for name, rules, into in (("view", read, ("view",)), ("edit", [*read, *write], ("edit", "admin"))):
        aggregate = {f"{API}/aggregate-to-{role}": "true" for role in into}
        role = _object(f"{API}/v1", "ClusterRole", f"pumice-{name}", labels | aggregate)
        made.append({**role, "rules": rules})
    return made


def _object(
    api_version: str, kind: str, name: str, labels: dict[str, str], *, namespace: str | None = None
) -> JSON:
    metadata: JSON = {"name": name, "labels": labels}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
