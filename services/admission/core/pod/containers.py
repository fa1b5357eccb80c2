"""Containers and init containers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from services.admission.core.formats import dns_label, port_name
from services.admission.core.pod.checks import Violations, formed, named, one_of, required, unique, within
from services.admission.core.pod.environment import environment, environment_from
from services.admission.core.pod.probes import PORT_MAX, probes
from services.admission.core.pod.resources import container_resources
from services.admission.core.pod.volumes import mounts
from services.admission.core.violations import Violation
from shared.api.pods import Container, ContainerPort, PodSpec

_PULL: Final = frozenset({"Always", "IfNotPresent", "Never"})
_MESSAGES: Final = frozenset({"File", "FallbackToLogsOnError"})
_PROTOCOLS: Final = frozenset({"TCP", "UDP", "SCTP"})
_SIDECAR: Final = "Always"
_UNSUITABLE: Final = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle")


def containers(spec: PodSpec, path: str) -> Violations:
    """All containers of a pod: at least one, with different names and host ports."""
    if not spec.containers:
        yield Violation("required", f"{path}.containers", "must have at least one container")
    names: set[str] = set()
    known = {volume.name for volume in spec.volumes}
    base = spec.resources is not None and bool(
        {"cpu", "memory"} & {*spec.resources.limits, *spec.resources.requests}
    )
    for index, container in enumerate(spec.init_containers):
        at = f"{path}.initContainers[{index}]"
        yield from unique(container.name, f"{at}.name", names)
        yield from _container(container, at, known, base=base, host_network=spec.host_network)
        yield from _init_only(container, at)
    for index, container in enumerate(spec.containers):
        at = f"{path}.containers[{index}]"
        yield from unique(container.name, f"{at}.name", names)
        yield from _container(container, at, known, base=base, host_network=spec.host_network)
        if container.restart_policy:
            yield Violation(
                "forbidden", f"{at}.restartPolicy", "only init containers have a restart policy of their own"
            )
    yield from _host_ports(spec, path)


def _container(
    container: Container, path: str, known: Collection[str], *, base: bool, host_network: bool
) -> Violations:
    yield from named(container.name, f"{path}.name", dns_label)
    yield from required(container.image, f"{path}.image")
    if container.image != container.image.strip():
        yield Violation("invalid", f"{path}.image", "must not begin or end with blanks")
    yield from one_of(container.image_pull_policy, f"{path}.imagePullPolicy", _PULL)
    yield from one_of(container.termination_message_policy, f"{path}.terminationMessagePolicy", _MESSAGES)
    yield from _ports(container.ports, f"{path}.ports", host_network=host_network)
    yield from environment(container.env, f"{path}.env")
    yield from environment_from(container.env_from, f"{path}.envFrom")
    yield from mounts(container, path, known)
    yield from container_resources(container.resources, f"{path}.resources", base=base)
    yield from probes(container, path)


def _init_only(container: Container, path: str) -> Violations:
    if container.restart_policy == _SIDECAR:
        return
    if container.restart_policy:
        yield Violation("unsupported", f"{path}.restartPolicy", 'an init container may only have "Always"')
    raw = container.dump()
    for field in _UNSUITABLE:
        if raw.get(field) is not None:
            yield Violation(
                "forbidden",
                f"{path}.{field}",
                "an init container has none unless its restartPolicy is Always",
            )


def _ports(ports: list[ContainerPort], path: str, *, host_network: bool) -> Violations:
    names: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        yield from formed(port.name, f"{at}.name", port_name)
        yield from unique(port.name, f"{at}.name", names)
        if port.container_port == 0:
            yield Violation("required", f"{at}.containerPort", "containerPort is required")
        else:
            yield from within(port.container_port, f"{at}.containerPort", 1, PORT_MAX)
        yield from within(port.host_port, f"{at}.hostPort", 0, PORT_MAX)
        if host_network and port.host_port not in (0, port.container_port):
            yield Violation("invalid", f"{at}.hostPort", "must be the containerPort when hostNetwork is true")
        yield from one_of(port.protocol, f"{at}.protocol", _PROTOCOLS)


def _host_ports(spec: PodSpec, path: str) -> Violations:
    taken: set[tuple[int, str, str]] = set()
    sidecars = [
        (f"initContainers[{index}]", container)
        for index, container in enumerate(spec.init_containers)
        if container.restart_policy == _SIDECAR
    ]
    running = [(f"containers[{index}]", container) for index, container in enumerate(spec.containers)]
    for place, container in (*sidecars, *running):
        for index, port in enumerate(container.ports):
            number = port.container_port if spec.host_network else port.host_port
            claim = (number, port.protocol or "TCP", port.host_ip)
            if number and claim in taken:
                at = f"{path}.{place}.ports[{index}].hostPort"
                yield Violation("duplicate", at, f"port {number} of the node is taken by another container")
            taken.add(claim)
