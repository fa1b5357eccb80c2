"""Ports that users reach from outside: for each a Service, and one Ingress and the URLs for all.

The pattern of the URLs says what the Ingress looks like: a host for each port
(``https://{name}-{job}-{namespace}.apps.example.org``) or a path (``https://apps.example.org/{namespace}/{job}/{name}``).
Without a pattern there is no Ingress, and the URL is the Service's inside the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from services.controller.core.dependents import Dependent, dependent, selector
from services.controller.core.model import JSON, Wanted
from services.controller.core.plugins import svc
from shared.api import names
from shared.api import resources as r
from shared.api.expose import Exposed, locate, parse
from shared.errors import ConfigurationError

_FIELDS: Final = ("namespace", "job", "name")
_HOST_LABEL_LIMIT: Final = 63


@dataclass(frozen=True, slots=True)
class Outside:
    """How ports are reached from outside: the administrator's part."""

    pattern: str = ""
    ingress_class: str = ""
    tls_secret: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])


def check_pattern(pattern: str) -> None:
    """Raise ConfigurationError unless the pattern makes a URL of its own for each port of each job."""
    if not pattern:
        return
    try:
        url = urlsplit(pattern.format(namespace="n", job="j", name="p"))
    except (KeyError, IndexError, ValueError) as error:
        raise ConfigurationError(f"expose_url: {pattern}: only {{namespace}}, {{job}}, {{name}}") from error
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        raise ConfigurationError(f"expose_url: {pattern}: not http(s)://host[/path]")
    missing = [one for one in _FIELDS if f"{{{one}}}" not in pattern]
    if missing:
        raise ConfigurationError(f"expose_url: {pattern}: needs {', '.join(f'{{{m}}}' for m in missing)}")


def exposed_ports(job: Wanted) -> tuple[Exposed, ...]:
    """Return the ports that a job exposes. Raises ValueError, with the annotation's name."""
    text = job.annotations.get(names.EXPOSE, "")
    try:
        return locate(parse(text), {task.name: task.replicas for task in job.tasks})
    except ValueError as error:
        raise ValueError(f"metadata.annotations[{names.EXPOSE}]: {error}") from error


def expose_objects(job: Wanted, outside: Outside) -> Iterator[Dependent]:
    """Return the services, the ingress, and the holes in the job's network policy. Raises ValueError."""
    ports = exposed_ports(job)
    for port in ports:
        pod = {
            **selector(job),
            names.TASK_SPEC: port.task,
            names.TASK_INDEX: str(port.index),
        }
        spec = {
            "selector": pod,
            "ports": [{"name": port.name, "port": port.port, "targetPort": port.port, "protocol": "TCP"}],
            # A notebook that is not ready yet is better seen than not found.
            "publishNotReadyAddresses": True,
        }
        yield dependent(job, r.SERVICES, service_name(job, port), {"spec": spec})
        if svc.is_closed(job):
            hole = {
                "podSelector": {"matchLabels": pod},
                "ingress": [{"ports": [{"port": port.port, "protocol": "TCP"}]}],
                "policyTypes": ["Ingress"],
            }
            yield dependent(job, r.NETWORKPOLICIES, service_name(job, port), {"spec": hole})
    if ports and outside.pattern:
        notes = {**outside.annotations, names.URLS: urls_text(urls(job, outside)) or ""}
        content = {"spec": _ingress(job, ports, outside)}
        yield dependent(job, r.INGRESSES, f"{job.name}-expose", content, annotations=notes)


def urls(job: Wanted, outside: Outside) -> dict[str, str]:
    """Return where each port is reached, by name. Raises ValueError."""
    return {port.name: _url(job, port, outside) for port in exposed_ports(job)}


def urls_text(found: Mapping[str, str]) -> str | None:
    """Return the annotation for URLs; None when there are none."""
    return json.dumps(dict(found), separators=(",", ":")) if found else None


def read_urls(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the URLs that an annotation says; one that is not ours says nothing."""
    try:
        found = json.loads(annotations.get(names.URLS, "{}"))
    except ValueError:
        return {}
    return {str(name): str(url) for name, url in found.items()} if isinstance(found, dict) else {}


def service_name(job: Wanted, port: Exposed) -> str:
    """Return the name of a port's service, which is also its host inside the namespace."""
    return f"{job.name}-{port.name}"


def _url(job: Wanted, port: Exposed, outside: Outside) -> str:
    if not outside.pattern:
        return f"http://{service_name(job, port)}.{job.namespace}.svc:{port.port}"
    return outside.pattern.format(namespace=job.namespace, job=job.name, name=port.name)


def _ingress(job: Wanted, ports: tuple[Exposed, ...], outside: Outside) -> JSON:
    paths: dict[str, list[JSON]] = {}
    secure = False
    for port in ports:
        url = urlsplit(_url(job, port, outside))
        host = url.hostname or ""
        if any(len(label) > _HOST_LABEL_LIMIT for label in host.split(".")):
            raise ValueError(f"the host name {host} has a part of more than {_HOST_LABEL_LIMIT} characters")
        backend = {"service": {"name": service_name(job, port), "port": {"number": port.port}}}
        path = {"path": url.path or "/", "pathType": "Prefix", "backend": backend}
        paths.setdefault(host, []).append(path)
        secure = url.scheme == "https"
    spec: JSON = {"rules": [{"host": host, "http": {"paths": found}} for host, found in paths.items()]}
    if outside.ingress_class:
        spec["ingressClassName"] = outside.ingress_class
    if secure:
        tls: JSON = {"hosts": list(paths)}
        if outside.tls_secret:
            tls["secretName"] = outside.tls_secret
        spec["tls"] = [tls]
    return spec
