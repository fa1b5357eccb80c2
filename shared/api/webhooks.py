"""The configurations that make an API server ask admission: one mutating, one validating.

``python -m shared.api.webhooks --url https://host:port | kubectl apply -f -`` installs them.

Scope and failure policy follow one rule: while admission is down, nothing stops that is not ours. Our kinds
fail closed, as Volcano's do, except for changes that no rule looks at; a pod is asked about only when it
says that it is ours, and a pod that is only to be checked is let through (decision 0015).
"""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import yaml

from shared.api.base import JSON
from shared.api.names import DEFAULT_SCHEDULER
from shared.api.resources import (
    CRONJOBS,
    HYPERNODES,
    JOBFLOWS,
    JOBS,
    MUTATING_WEBHOOKS,
    PODGROUPS,
    PODS,
    QUEUES,
    VALIDATING_WEBHOOKS,
)
from shared.api.webhook_scope import conditions
from shared.kube.port import Resource

CONFIGURATION: Final = "pumice"
"""Name of both configurations."""
MAX_TIMEOUT: Final = 30
"""Seconds; the API server takes no longer timeout."""
Operation = Literal["CREATE", "UPDATE", "DELETE"]


@dataclass(frozen=True, slots=True)
class Hook:
    """One path of the webhook server: Volcano's path, and the requests that are sent there."""

    path: str
    resource: Resource
    operations: tuple[Operation, ...]
    by_default: bool = True
    """Whether it is on unless told otherwise."""
    fail_open: bool = False
    """Whether requests pass while nobody answers."""

    @property
    def mutating(self) -> bool:
        """Whether it changes objects, or only says yes or no."""
        return self.path.endswith("/mutate")

    @property
    def name(self) -> str:
        """The webhook's name: a domain with three parts at least."""
        plural, verb = self.path.strip("/").split("/")
        return f"{verb}.{plural}.pumice.dev"


HOOKS: Final = (
    Hook("/jobs/mutate", JOBS, ("CREATE",)),
    Hook("/jobs/validate", JOBS, ("CREATE", "UPDATE")),
    Hook("/queues/mutate", QUEUES, ("CREATE",)),
    Hook("/queues/validate", QUEUES, ("CREATE", "UPDATE", "DELETE")),
    Hook("/podgroups/mutate", PODGROUPS, ("CREATE",)),
    # Off as in Volcano: a job that was admitted must get its group, also when its queue was closed since.
    Hook("/podgroups/validate", PODGROUPS, ("CREATE",), by_default=False),
    Hook("/pods/mutate", PODS, ("CREATE",)),
    Hook("/pods/validate", PODS, ("CREATE",), fail_open=True),
    Hook("/hypernodes/validate", HYPERNODES, ("CREATE", "UPDATE")),
    Hook("/jobflows/validate", JOBFLOWS, ("CREATE", "UPDATE")),
    Hook("/cronjobs/validate", CRONJOBS, ("CREATE", "UPDATE")),
)
PATHS: Final = tuple(hook.path for hook in HOOKS)
DEFAULT_PATHS: Final = tuple(hook.path for hook in HOOKS if hook.by_default)


@dataclass(frozen=True, slots=True)
class ByService:
    """The webhook server behind a Service of the cluster."""

    namespace: str
    name: str
    port: int = 443

    def client_config(self, path: str) -> JSON:
        """Return where a path is."""
        service = {"namespace": self.namespace, "name": self.name, "port": self.port, "path": path}
        return {"service": service}


@dataclass(frozen=True, slots=True)
class ByUrl:
    """The webhook server outside the cluster, at ``https://host:port``."""

    url: str

    def client_config(self, path: str) -> JSON:
        """Return where a path is."""
        return {"url": f"{self.url.rstrip('/')}{path}"}


def webhook_configurations(
    server: ByService | ByUrl,
    *,
    paths: Sequence[str] = DEFAULT_PATHS,
    ca_bundle: bytes = b"",
    schedulers: Sequence[str] = (DEFAULT_SCHEDULER,),
    exempt_namespaces: Sequence[str] = ("kube-system",),
    pod_annotations: Sequence[str] = (),
    pod_namespaces: Sequence[str] = (),
    trusted_users: Sequence[str] = (),
    timeout: int = 10,
    name: str = CONFIGURATION,
    labels: dict[str, str] | None = None,
) -> list[JSON]:
    """Return the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

    Args:
        server: where the webhook server is.
        paths: which of ``PATHS`` to configure; the same as admission's setting ``webhook_paths``.
        ca_bundle: PEM of the authority that signed the server's certificate; empty when admission makes its
            certificate itself (it fills the bundle in) or cert-manager injects it.
        schedulers: ``schedulerName`` of pods that are ours.
        exempt_namespaces: namespaces whose objects are never asked about; add the one that Pumice runs in.
        pod_annotations: further annotations by which pods ask for a resource group.
        pod_namespaces: namespaces that are a resource group.
        trusted_users: users whose jobs were judged before: the controller's service account, which creates
            what came by the topic.
        timeout: seconds that the API server waits for an answer, 1 to 30.
        name: of both configurations.
        labels: of both configurations.

    Raises:
        ValueError: an unknown path, or a timeout that the API server refuses.
    """
    unknown = sorted(set(paths) - set(PATHS))
    if unknown:
        raise ValueError(f"no webhook has the path {', '.join(unknown)}; known: {', '.join(PATHS)}")
    if not 1 <= timeout <= MAX_TIMEOUT:
        raise ValueError(f"timeout must be 1 to {MAX_TIMEOUT} seconds, not {timeout}")
    scope = conditions(schedulers, pod_annotations, pod_namespaces, trusted_users)
    webhooks: dict[bool, list[JSON]] = {True: [], False: []}
    for hook in HOOKS:
        if hook.path in paths:
            needed = scope.get(hook.path, ())
            one = _webhook(hook, server, ca_bundle, exempt_namespaces, timeout, needed)
            webhooks[hook.mutating].append(one)
    return [
        _configuration(MUTATING_WEBHOOKS, name, labels, webhooks[True]),
        _configuration(VALIDATING_WEBHOOKS, name, labels, webhooks[False]),
    ]


def _configuration(
    resource: Resource, name: str, labels: dict[str, str] | None, webhooks: list[JSON]
) -> JSON:
    metadata: JSON = {"name": name, **({"labels": labels} if labels else {})}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "webhooks": webhooks,
    }


def _webhook(
    hook: Hook,
    server: ByService | ByUrl,
    ca_bundle: bytes,
    exempt: Sequence[str],
    timeout: int,
    scope: Sequence[str],
) -> JSON:
    client = server.client_config(hook.path)
    if ca_bundle:
        client["caBundle"] = base64.b64encode(ca_bundle).decode()
    webhook: JSON = {
        "name": hook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Ignore" if hook.fail_open else "Fail",
        "matchPolicy": "Equivalent",
        "rules": [
            {
                "apiGroups": [hook.resource.group],
                "apiVersions": [hook.resource.version],
                "operations": list(hook.operations),
                "resources": [hook.resource.plural],
                "scope": "Namespaced" if hook.resource.namespaced else "Cluster",
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": timeout,
    }
    if hook.mutating:
        webhook["reinvocationPolicy"] = "Never"
    if hook.resource.namespaced and exempt:
        expression = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(exempt)}
        webhook["namespaceSelector"] = {"matchExpressions": [expression]}
    if scope:
        webhook["matchConditions"] = [
            {"name": f"concerns-us-{number}", "expression": condition}
            for number, condition in enumerate(scope, 1)
        ]
    return webhook


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both configurations as YAML."""
    parser = argparse.ArgumentParser(prog="python -m shared.api.webhooks", description=main.__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", help="where the API server finds the webhooks: https://host:port")
    where.add_argument("--service", help="the Service in front of them: namespace/name")
    parser.add_argument(
        "--path", action="append", choices=PATHS, help="a webhook; default: those on by default"
    )
    given = parser.parse_args(arguments)
    namespace, _, name = (given.service or "").partition("/")
    server = ByUrl(given.url) if given.url else ByService(namespace, name)
    exempt = ["kube-system", *([namespace] if namespace else [])]
    made = webhook_configurations(server, paths=given.path or DEFAULT_PATHS, exempt_namespaces=exempt)
    sys.stdout.write(yaml.safe_dump_all(made, sort_keys=False))


if __name__ == "__main__":
    main()
