"""Services, endpoints, ingresses and network policies."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from simulator.core.errors import Cause, invalid, required, unsupported
from simulator.core.kinds import Strategy
from simulator.strategies.shared_rules import keep_status, only_status

JSON = dict[str, Any]


def _first_ingress(obj: JSON) -> None:
    obj["metadata"]["generation"] = 1
    obj["status"] = {"loadBalancer": {}}


INGRESS: Final = Strategy(
    prepare_create=_first_ingress, prepare_update=keep_status, prepare_status=only_status, generation=True
)


def _default_service(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, "", 0):
            port["targetPort"] = port.get("port")


def _new_service(obj: JSON) -> None:
    obj["status"] = {"loadBalancer": {}}
    spec = obj["spec"]
    if spec["type"] == "ExternalName":
        spec.pop("internalTrafficPolicy", None)
        return
    meta = obj["metadata"]
    spec.setdefault("clusterIP", _address(meta.get("namespace", ""), meta.get("name", "")))
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _address(namespace: str, name: str) -> str:
    """Return an address in 10.96.0.0/16 that depends on the name alone: runs are repeatable."""
    digest = hashlib.blake2b(f"{namespace}/{name}".encode(), digest_size=2).digest()
    return f"10.96.{digest[0]}.{max(2, digest[1])}"


def _service_update(new: JSON, old: JSON) -> None:
    keep_status(new, old)
    spec = new["spec"]
    if spec["type"] != "ExternalName":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if name in old["spec"]:
                spec.setdefault(name, old["spec"][name])


def _validate_service(obj: JSON) -> list[Cause]:
    spec = obj["spec"]
    causes: list[Cause] = []
    if not spec.get("ports") and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        causes.append(required("spec.ports"))
    several = len(spec.get("ports") or ()) > 1
    for at, port in enumerate(spec.get("ports") or ()):
        field = f"spec.ports[{at}]"
        if several and not port.get("name"):
            causes.append(required(f"{field}.name"))
        if not 0 < port.get("port", 0) < 65536:  # noqa: PLR2004
            causes.append(
                invalid(f"{field}.port", port.get("port", 0), "must be between 1 and 65535, inclusive")
            )
        target = port.get("targetPort", 0)
        if isinstance(target, int) and not 0 < target < 65536:  # noqa: PLR2004
            causes.append(invalid(f"{field}.targetPort", target, "must be between 1 and 65535, inclusive"))
    types = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    if spec["type"] not in types:
        causes.append(unsupported("spec.type", spec["type"], types))
    return causes


def _service_change(new: JSON, old: JSON) -> list[Cause]:
    causes = _validate_service(new)
    before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
    if before and after != before and new["spec"]["type"] != "ExternalName":
        causes.append(invalid("spec.clusterIPs[0]", [after], "may not change once set"))
    return causes


SERVICE: Final = Strategy(
    default=_default_service,
    prepare_create=_new_service,
    validate=_validate_service,
    prepare_update=_service_update,
    validate_update=_service_change,
    prepare_status=only_status,
    returns_deleted=True,
    create_on_update=True,
)


def _default_policy(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    spec.setdefault("policyTypes", ["Ingress", *(["Egress"] if "egress" in spec else [])])
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")


NETWORKPOLICY: Final = Strategy(
    default=_default_policy, prepare_create=lambda obj: obj["metadata"].update(generation=1), generation=True
)


INGRESSCLASS: Final = Strategy(
    prepare_create=lambda obj: obj["metadata"].update(generation=1), generation=True
)


def _default_endpoints(obj: JSON) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port["protocol"] = port.get("protocol") or "TCP"


ENDPOINTS: Final = Strategy(default=_default_endpoints)
