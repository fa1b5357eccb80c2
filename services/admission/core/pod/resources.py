"""Requests and limits of containers and pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from services.admission.core.formats import qualified_name
from services.admission.core.pod.checks import Violations
from services.admission.core.violations import Violation
from shared.api import names
from shared.api.pods import Container, PodSpec
from shared.api.podspec import HUGEPAGES, container_amounts, is_pod_level
from shared.api.quantity import Quantity, QuantityError
from shared.api.volumes import ResourceRequirements

_ALL = Quantity.parse("100")
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
Amounts = dict[str, Quantity]


def is_extended(resource: str) -> bool:
    """Say whether a resource is a device plug-in's: counted whole, never over-committed."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def may_overcommit(resource: str) -> bool:
    """Say whether the limit may be above the request."""
    return not is_extended(resource) and not resource.startswith(HUGEPAGES)


def amounts(values: Mapping[str, str | float], path: str) -> tuple[Amounts, list[Violation]]:
    """Read a resource list; what cannot be read or is negative is left out and reported."""
    read: Amounts = {}
    wrong: list[Violation] = []
    for name, text in values.items():
        at = f"{path}[{name}]"
        try:
            quantity = Quantity.parse(text)
        except QuantityError as error:
            wrong.append(Violation("invalid-quantity", at, str(error)))
            continue
        if quantity < Quantity(0):
            wrong.append(Violation("invalid", at, f"{quantity} must not be negative"))
        elif not quantity.is_integer() and (is_extended(name) or name == "pods"):
            wrong.append(Violation("invalid", at, f"{quantity}: {name} is counted in whole numbers"))
        else:
            read[name] = quantity
    return read, wrong


def container_resources(resources: ResourceRequirements, path: str, *, base: bool) -> Violations:
    """A container's requests and limits. ``base``: the pod as a whole has CPU or memory."""
    limits, wrong = amounts(resources.limits, f"{path}.limits")
    requests, also_wrong = amounts(resources.requests, f"{path}.requests")
    yield from wrong
    yield from also_wrong
    for part, values in (("limits", resources.limits), ("requests", resources.requests)):
        for name in values:
            yield from _container_resource_name(name, f"{path}.{part}")
    huge = [name for name in (*limits, *requests) if name.startswith(HUGEPAGES)]
    yield from _page_sizes(limits, f"{path}.limits")
    yield from _page_sizes(requests, f"{path}.requests")
    yield from _parts_of_gpus(limits, f"{path}.limits")
    yield from _parts_of_gpus(requests, f"{path}.requests")
    yield from _requests_fit(resources, requests, limits, path)
    if huge and not base and not {"cpu", "memory"} & {*limits, *requests}:
        yield Violation("forbidden", path, "huge pages need a request of cpu or memory beside them")


def _requests_fit(
    resources: ResourceRequirements, requests: Amounts, limits: Amounts, path: str
) -> Violations:
    for name, request in requests.items():
        at = f"{path}.requests[{name}]"
        if name in limits:
            if request > limits[name]:
                yield Violation("invalid", at, f"{request} must not be above the limit of {limits[name]}")
            elif request != limits[name] and not may_overcommit(name):
                yield Violation("invalid", at, f"{request} must be equal to the limit of {limits[name]}")
        elif not may_overcommit(name) and name not in resources.limits:
            yield Violation(
                "required", f"{path}.limits[{name}]", f"{name} cannot be over-committed: set the limit too"
            )


def _container_resource_name(name: str, path: str) -> Violations:
    if problem := qualified_name(name):
        yield Violation("invalid", path, f'the resource name "{name[:80]}" {problem}')
    elif "/" not in name and name not in _STANDARD and not name.startswith(HUGEPAGES):
        yield Violation(
            "invalid",
            f"{path}[{name}]",
            f'"{name}" is no resource of containers; device plug-ins\' resources have a domain, '
            'as in "nvidia.com/gpu"',
        )


def _parts_of_gpus(values: Amounts, path: str) -> Iterator[Violation]:
    for name in (names.VGPU_CORES, names.VGPU_MEMORY_PERCENTAGE):
        if name in values and values[name] > _ALL:
            yield Violation(
                "invalid",
                f"{path}[{name}]",
                f"{values[name]} percent of a GPU cannot be had: 100 is all of it",
            )


def _page_sizes(values: Amounts, path: str) -> Iterator[Violation]:
    for name, quantity in values.items():
        if not name.startswith(HUGEPAGES):
            continue
        try:
            page = Quantity.parse(name.removeprefix(HUGEPAGES)).value()
        except QuantityError:
            page = 0
        if page <= 0:
            yield Violation("invalid", f"{path}[{name}]", f"{name} does not name a page size")
        elif quantity.value() % page:
            yield Violation("invalid", f"{path}[{name}]", f"{quantity} is no multiple of the page size")


def pod_resources(spec: PodSpec, path: str) -> Violations:
    """Pod-level requests and limits, and how the containers' fit into them."""
    if spec.resources is None:
        return
    own = f"{path}.resources"
    limits, wrong = amounts(spec.resources.limits, f"{own}.limits")
    requests, also_wrong = amounts(spec.resources.requests, f"{own}.requests")
    yield from wrong
    yield from also_wrong
    for part, values in (("limits", spec.resources.limits), ("requests", spec.resources.requests)):
        for name in values:
            if not is_pod_level(name):
                yield Violation(
                    "unsupported",
                    f"{own}.{part}[{name}]",
                    f'"{name}" cannot be set for a pod as a whole: only cpu, memory and huge pages',
                )
    yield from _page_sizes(limits, f"{own}.limits")
    yield from _page_sizes(requests, f"{own}.requests")
    yield from _requests_fit(spec.resources, requests, limits, own)
    yield from _containers_fit(spec, requests, limits, path)


def _containers_fit(spec: PodSpec, requests: Amounts, limits: Amounts, path: str) -> Violations:
    try:
        total = container_amounts(spec)
    except QuantityError:
        return  # reported where it is written
    for name, amount in requests.items():
        if name in total and total[name] > amount:
            yield Violation(
                "invalid",
                f"{path}.resources.requests[{name}]",
                f"{amount} must not be below the containers' {total[name]}",
            )
    for part, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield from _limits_fit(container, limits, f"{path}.{part}[{index}].resources.limits")


def _limits_fit(container: Container, limits: Amounts, path: str) -> Violations:
    own, _ = amounts(container.resources.limits, path)
    for name, amount in own.items():
        if name in limits and amount > limits[name]:
            yield Violation(
                "invalid", f"{path}[{name}]", f"{amount} must not be above the pod's limit of {limits[name]}"
            )
