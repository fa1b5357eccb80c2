"""A pod template as a whole: metadata, containers, volumes, placement and the pod's own fields."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from services.admission.core.formats import dns_label, dns_subdomain, qualified_name
from services.admission.core.pod.checks import (
    Violations,
    annotation_map,
    formed,
    label_map,
    named,
    one_of,
    unique,
    within,
)
from services.admission.core.pod.containers import containers
from services.admission.core.pod.resources import amounts, pod_resources
from services.admission.core.pod.scheduling import affinity, spread, tolerations
from services.admission.core.pod.volumes import volumes
from services.admission.core.violations import Violation
from shared.api.pods import PodSpec, PodTemplateSpec

_RESTART: Final = frozenset({"Always", "OnFailure", "Never"})
_DNS: Final = frozenset({"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"})
_PREEMPTION: Final = frozenset({"Never", "PreemptLowerPriority"})
_INT32_MAX: Final = 2**31 - 1


def validate_template(template: PodTemplateSpec, path: str) -> Violations:
    """Yield what Kubernetes would refuse in a pod made from this template."""
    yield from label_map(template.metadata.labels, f"{path}.metadata.labels")
    yield from annotation_map(template.metadata.annotations, f"{path}.metadata.annotations")
    at = f"{path}.spec"
    spec = template.spec
    yield from volumes(spec.volumes, f"{at}.volumes")
    yield from containers(spec, at)
    if (spec.model_extra or {}).get("ephemeralContainers"):
        yield Violation("forbidden", f"{at}.ephemeralContainers", "not allowed in a pod template")
    yield from pod_resources(spec, at)
    yield from affinity(spec.affinity, f"{at}.affinity")
    yield from tolerations(spec.tolerations, f"{at}.tolerations")
    yield from spread(spec.topology_spread_constraints, f"{at}.topologySpreadConstraints")
    yield from label_map(spec.node_selector, f"{at}.nodeSelector")
    yield from _running(spec, at)
    yield from _names(spec, at)


def _running(spec: PodSpec, path: str) -> Violations:
    yield from one_of(spec.restart_policy, f"{path}.restartPolicy", _RESTART)
    yield from one_of(spec.dns_policy, f"{path}.dnsPolicy", _DNS)
    yield from one_of(spec.preemption_policy, f"{path}.preemptionPolicy", _PREEMPTION)
    yield from within(spec.termination_grace_period_seconds, f"{path}.terminationGracePeriodSeconds", 0)
    yield from within(spec.active_deadline_seconds, f"{path}.activeDeadlineSeconds", 1, _INT32_MAX)
    dns = (spec.model_extra or {}).get("dnsConfig")
    if spec.dns_policy == "None" and not (isinstance(dns, dict) and dns.get("nameservers")):
        message = "dnsPolicy None needs at least one name server"
        yield Violation("required", f"{path}.dnsConfig.nameservers", message)
    if spec.share_process_namespace and spec.host_pid:
        yield Violation("invalid", f"{path}.shareProcessNamespace", "excludes hostPID")
    overhead, wrong = amounts(spec.overhead, f"{path}.overhead")
    yield from wrong
    for name in overhead:
        if problem := qualified_name(name):
            yield Violation("invalid", f"{path}.overhead", f'the resource name "{name[:80]}" {problem}')


def _names(spec: PodSpec, path: str) -> Violations:
    for field, text, check in (
        ("hostname", spec.hostname, dns_label),
        ("subdomain", spec.subdomain, dns_label),
        ("nodeName", spec.node_name, dns_subdomain),
        ("schedulerName", spec.scheduler_name, dns_subdomain),
        ("serviceAccountName", spec.service_account_name, dns_subdomain),
        ("priorityClassName", spec.priority_class_name, dns_subdomain),
        ("runtimeClassName", spec.runtime_class_name or "", dns_subdomain),
    ):
        yield from formed(text, f"{path}.{field}", check)
    gates: set[str] = set()
    for index, gate in enumerate(spec.scheduling_gates):
        yield from named(gate.name, f"{path}.schedulingGates[{index}].name", qualified_name)
        yield from unique(gate.name, f"{path}.schedulingGates[{index}].name", gates)
    for index, secret in enumerate(spec.image_pull_secrets):
        yield from named(secret.name, f"{path}.imagePullSecrets[{index}].name", dns_subdomain)
    for index, alias in enumerate(spec.host_aliases):
        at = f"{path}.hostAliases[{index}]"
        yield from named(alias.ip, f"{at}.ip", _ip)
        for position, host in enumerate(alias.hostnames):
            yield from named(host, f"{at}.hostnames[{position}]", dns_subdomain)


def _ip(text: str) -> str | None:
    try:
        ip_address(text)
    except ValueError:
        return "is not an IP address"
    return None
