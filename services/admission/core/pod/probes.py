"""Probes of containers."""

from __future__ import annotations

from services.admission.core.formats import port_name
from services.admission.core.pod.checks import Violations, one_of, within
from services.admission.core.violations import Violation
from shared.api.pods import Container, Probe

PORT_MAX = 65535


def probes(container: Container, path: str) -> Violations:
    """The three probes; only readiness may need more than one success."""
    yield from _probe(container.readiness_probe, f"{path}.readinessProbe")
    for name, probe in (
        ("livenessProbe", container.liveness_probe),
        ("startupProbe", container.startup_probe),
    ):
        yield from _probe(probe, f"{path}.{name}")
        if probe is not None and probe.success_threshold not in (None, 1):
            yield Violation("invalid", f"{path}.{name}.successThreshold", "must be 1")


def _probe(probe: Probe | None, path: str) -> Violations:
    if probe is None:
        return
    handlers = [probe.exec, probe.http_get, probe.tcp_socket, probe.grpc]
    if (count := sum(handler is not None for handler in handlers)) != 1:
        code = "forbidden" if count else "required"
        yield Violation(
            code, path, f"must have exactly one of exec, httpGet, tcpSocket and grpc; it has {count}"
        )
    if probe.exec is not None and not probe.exec.command:
        yield Violation("required", f"{path}.exec.command", "command is required")
    if probe.http_get is not None:
        yield from _port(probe.http_get.port, f"{path}.httpGet.port")
        yield from one_of(probe.http_get.scheme, f"{path}.httpGet.scheme", ("HTTP", "HTTPS"))
    if probe.tcp_socket is not None:
        yield from _port(probe.tcp_socket.port, f"{path}.tcpSocket.port")
    if probe.grpc is not None:
        yield from within(probe.grpc.port, f"{path}.grpc.port", 1, PORT_MAX)
    yield from within(probe.initial_delay_seconds, f"{path}.initialDelaySeconds", 0)
    yield from within(probe.timeout_seconds, f"{path}.timeoutSeconds", 0)
    yield from within(probe.period_seconds, f"{path}.periodSeconds", 0)
    yield from within(probe.success_threshold, f"{path}.successThreshold", 0)
    yield from within(probe.failure_threshold, f"{path}.failureThreshold", 0)
    yield from within(probe.termination_grace_period_seconds, f"{path}.terminationGracePeriodSeconds", 1)


def _port(port: int | str, path: str) -> Violations:
    if isinstance(port, int):
        yield from within(port, path, 1, PORT_MAX)
    elif problem := port_name(port):
        yield Violation("invalid", path, f'"{port[:80]}" {problem}')
