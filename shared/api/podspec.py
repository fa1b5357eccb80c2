"""What a pod requests, by the rules of Kubernetes 1.34.

Containers add up; init containers run one after another, beside the sidecars (``restartPolicy:
Always``) started before them, so the largest moment counts; pod-level requests replace the sum for CPU,
memory and huge pages; the overhead comes on top. Where a request is missing the limit stands in for it,
as the API server's defaults do: a template has not been through them yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared.api.base import ResourceList
from shared.api.pods import Container, PodSpec
from shared.api.quantity import Quantity

CPU: Final = "cpu"
PODS: Final = "pods"
MOST_UNITS: Final = 1 << 52
"""More is this much: a text of four letters can ask for 1e99, and sums over a node must fit 64 bits."""
_POD_LEVEL: Final = frozenset({"cpu", "memory"})
HUGEPAGES: Final = "hugepages-"

Amounts = dict[str, Quantity]


def is_pod_level(resource: str) -> bool:
    """Say whether a resource can be requested for a pod as a whole."""
    return resource in _POD_LEVEL or resource.startswith(HUGEPAGES)


def base_units(resource: str, amount: Quantity) -> int:
    """Return an amount in base units: milli-CPU for ``cpu``, else plain units, rounded up.

    At most :data:`MOST_UNITS`, which is more than any node has.
    """
    return min(amount.milli_value() if resource == CPU else amount.value(), MOST_UNITS)


def resource_list(amounts: ResourceList) -> dict[str, int]:
    """Return a resource list (allocatable, capability …) in base units. Raises QuantityError."""
    return {name: base_units(name, Quantity.parse(text)) for name, text in amounts.items()}


def pod_requests(spec: PodSpec) -> dict[str, int]:
    """Return what the pod requests in base units. Raises QuantityError for a text that is no quantity."""
    return {name: base_units(name, amount) for name, amount in pod_amounts(spec).items()}


def pod_amounts(spec: PodSpec) -> Amounts:
    """Return what the pod requests as quantities."""
    total = container_amounts(spec)
    total.update(_pod_level(spec, total))
    for name, text in spec.overhead.items():
        _add(total, {name: Quantity.parse(text)})
    return total


def container_amounts(spec: PodSpec) -> Amounts:
    """Return what the containers and init containers request together."""
    total: Amounts = {}
    for container in spec.containers:
        _add(total, _effective(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        own = _effective(container)
        if container.restart_policy == "Always":
            _add(total, own)
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            moment = dict(sidecars)
            _add(moment, own)
            _raise_to(peak, moment)
    _raise_to(total, peak)
    return total


def _pod_level(spec: PodSpec, containers: Amounts) -> Amounts:
    """Return the pod-level requests with the API server's defaults."""
    if spec.resources is None:
        return {}
    requests = {n: Quantity.parse(q) for n, q in spec.resources.requests.items() if is_pod_level(n)}
    limits = {n: Quantity.parse(q) for n, q in spec.resources.limits.items() if is_pod_level(n)}
    if limits:
        for name, amount in containers.items():
            if is_pod_level(name) and not name.startswith(HUGEPAGES):
                requests.setdefault(name, amount)
    return {**limits, **requests}


def _effective(container: Container) -> Amounts:
    resources = container.resources
    return {n: Quantity.parse(q) for n, q in {**resources.limits, **resources.requests}.items()}


def _add(total: Amounts, other: Mapping[str, Quantity]) -> None:
    for name, amount in other.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: Amounts, other: Mapping[str, Quantity]) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount
