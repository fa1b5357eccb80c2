"""The columns of services, endpoints and ingresses."""

from __future__ import annotations

from typing import Any, Final

from simulator.columns.cells import AGE, NONE, at, field, selector_of, text

JSON = dict[str, Any]


def _service_external(obj: JSON, _now: float) -> str:
    spec = obj["spec"]
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    ingress = at(obj, "status", "loadBalancer", "ingress") or ()
    addresses = [one.get("ip") or one.get("hostname", "") for one in ingress] + list(
        spec.get("externalIPs") or ()
    )
    return ",".join(addresses) or ("<pending>" if spec.get("type") == "LoadBalancer" else NONE)


def _service_ports(obj: JSON, _now: float) -> str:
    parts = []
    for port in obj["spec"].get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        parts.append(f"{port.get('port')}{node}/{port.get('protocol')}")
    return ",".join(parts) or NONE


SERVICES: Final = (
    text("Type", field("spec", "type")),
    text("Cluster-IP", field("spec", "clusterIP", default=NONE)),
    text("External-IP", _service_external),
    text("Port(s)", _service_ports),
    AGE,
    text("Selector", selector_of("spec", "selector"), 1),
)


def ingress_hosts(obj: JSON, _now: float) -> str:
    """Name the hosts of an ingress."""
    hosts = [rule.get("host") or "*" for rule in obj["spec"].get("rules") or ()]
    return ",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if len(hosts) > 3 else "") or "*"  # noqa: PLR2004


def ingress_address(obj: JSON, _now: float) -> str:
    """Show the addresses of an ingress."""
    return ",".join(
        one.get("ip") or one.get("hostname", "") for one in at(obj, "status", "loadBalancer", "ingress") or ()
    )


def endpoints(obj: JSON, _now: float) -> str:
    """Show the first addresses of endpoints."""
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in obj.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "") or NONE  # noqa: PLR2004
