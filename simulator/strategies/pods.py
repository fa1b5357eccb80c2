"""Pods: defaults, the admission that every cluster has, quality of service, what a write keeps."""

from __future__ import annotations

from typing import Any, Final

from shared.api.quantity import Quantity
from simulator.core.errors import (
    StatusError,
)
from simulator.core.kinds import Lookup, Strategy
from simulator.strategies.pod_rules import validate, validate_update

JSON = dict[str, Any]


_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


_TOLERATIONS: Final[tuple[JSON, ...]] = tuple(  # shared by all pods: what is stored never changes
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
)
_GIVEN: Final = (
    "the {} value of {} ({}) must not be provided in pod spec; priority admission controller computed {} "
    "from the given PriorityClass name"
)


def default_spec(spec: JSON) -> None:
    """Fill a pod's or a template's spec as the API server does."""
    for name, value in (
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("terminationGracePeriodSeconds", 30),
    ):
        if name not in spec:
            spec[name] = value
    spec.setdefault("securityContext", {})
    if account := spec.get("serviceAccountName"):
        spec["serviceAccount"] = account
    elif account := spec.get("serviceAccount"):
        spec["serviceAccountName"] = account
    host = bool(spec.get("hostNetwork"))
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            _default_container(container, host=host)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def _default_container(container: JSON, *, host: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    resources = container.setdefault("resources", {})
    if limits := resources.get("limits"):
        resources["requests"] = limits | resources.get("requests", {})
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host:
            port.setdefault("hostPort", port.get("containerPort"))
    for env in container.get("env") or ():
        if reference := env.get("valueFrom", {}).get("fieldRef"):
            reference.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if probe := container.get(name):
            _default_probe(probe)
    for hook in container.get("lifecycle", {}).values():
        if isinstance(hook, dict) and "httpGet" in hook:
            _default_http(hook["httpGet"])


def _pull_policy(image: str) -> str:
    name, digest, _ = image.rpartition("/")[2].partition("@")
    return "Always" if not digest and name.partition(":")[2] in ("", "latest") else "IfNotPresent"


def _default_probe(probe: JSON) -> None:
    for name, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe[name] = probe.get(name) or value
    if "httpGet" in probe:
        _default_http(probe["httpGet"])


def _default_http(action: JSON) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def _default_volume(volume: JSON) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "projected", "downwardAPI"):
        if source in volume:
            volume[source].setdefault("defaultMode", 420)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for projection in volume.get("projected", {}).get("sources") or ():
        if token := projection.get("serviceAccountToken"):
            token.setdefault("expirationSeconds", 3600)
    for source in (
        volume.get("downwardAPI", {}),
        *(p.get("downwardAPI", {}) for p in volume.get("projected", {}).get("sources") or ()),
    ):
        for item in source.get("items") or ():
            if "fieldRef" in item:
                item["fieldRef"].setdefault("apiVersion", "v1")


def default(pod: JSON) -> None:
    """Fill a pod."""
    spec = pod.setdefault("spec", {})
    default_spec(spec)
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True


def default_template(template: JSON) -> None:
    """Fill the pod template of a workload."""
    default_spec(template.setdefault("spec", {}))


def admit(pod: JSON, lookup: Lookup) -> None:
    """Apply the admission plugins Priority and DefaultTolerationSeconds."""
    spec = pod["spec"]
    _priority(pod, spec, lookup)
    _tolerate(spec)


def _tolerate(spec: JSON) -> None:
    tolerations = spec.get("tolerations", [])
    added = [one for one in _TOLERATIONS if not any(_tolerates(held, one["key"]) for held in tolerations)]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def _tolerates(toleration: JSON, key: str) -> bool:
    return bool(toleration.get("key", key) == key and toleration.get("effect", "NoExecute") == "NoExecute")


def _priority(pod: JSON, spec: JSON, lookup: Lookup) -> None:
    name = spec.get("priorityClassName")
    found: JSON | None = None
    if name:
        found = lookup.find("priorityclasses.scheduling.k8s.io", "", name)
        if found is None:
            raise _denied(pod, f"no PriorityClass with name {name} was found")
    else:
        classes = [c for c in lookup.every("priorityclasses.scheduling.k8s.io") if c.get("globalDefault")]
        found = min(classes, key=lambda c: c["value"], default=None)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    value = found.get("value", 0) if found else 0
    policy = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")
    if spec.get("priority") not in (None, value):
        raise _denied(pod, _GIVEN.format("integer", "priority", spec["priority"], value))
    if spec.get("preemptionPolicy") not in (None, policy):
        raise _denied(pod, _GIVEN.format("string", "PreemptionPolicy", spec["preemptionPolicy"], policy))
    spec["priority"] = value
    spec["preemptionPolicy"] = policy


def _denied(pod: JSON, why: str) -> StatusError:
    name = pod["metadata"].get("name") or pod["metadata"].get("generateName", "")
    return StatusError(403, "Forbidden", f'pods "{name}" is forbidden: {why}', {"name": name, "kind": "pods"})


def prepare_create(pod: JSON) -> None:
    """Set what a new pod's status is."""
    status: JSON = {"phase": "Pending", "qosClass": quality(pod["spec"])}
    pod["status"] = status
    pod["metadata"]["generation"] = 1
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"]["creationTimestamp"],
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def quality(spec: JSON) -> str:
    """Return the quality of service class from cpu and memory of all containers."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        for total, part in ((requests, "requests"), (limits, "limits")):
            for name, text in (resources.get(part) or {}).items():
                if name in ("cpu", "memory") and (amount := Quantity.parse(text).nanos) > 0:
                    total[name] = total.get(name, 0) + amount
        have = {
            name for name, text in (resources.get("limits") or {}).items() if Quantity.parse(text).nanos > 0
        }
        guaranteed = guaranteed and {"cpu", "memory"} <= have
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def prepare_update(new: JSON, old: JSON) -> None:
    """Keep the status, which the main resource does not change; admit the change."""
    new["status"] = old["status"]
    after, before = new["spec"], old["spec"]
    for name in ("priority", "preemptionPolicy"):
        if name in before:
            after.setdefault(name, before[name])
    if after.get("tolerations") != before.get("tolerations"):
        _tolerate(after)


def prepare_status(new: JSON, old: JSON) -> None:
    """A status update changes neither the spec nor the owners; finalizers it may."""
    new["spec"] = old["spec"]
    meta, before = new["metadata"], old["metadata"]
    meta.pop("deletionTimestamp", None)
    for name in ("ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds"):
        meta.pop(name, None)
        if name in before:
            meta[name] = before[name]
    status = new.setdefault("status", {})
    if not status.get("qosClass"):
        status["qosClass"] = old["status"].get("qosClass") or quality(old["spec"])


STRATEGY: Final = Strategy(
    default=default,
    admit=admit,
    prepare_create=prepare_create,
    validate=validate,
    prepare_update=prepare_update,
    validate_update=validate_update,
    prepare_status=prepare_status,
    generation=True,
    returns_deleted=True,
)
