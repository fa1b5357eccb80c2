"""The columns of the built-in kinds' tables, as ``kubectl get`` shows them (headers without descriptions)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from simulator.core.custom import age, duration
from simulator.core.kinds import Column

JSON = dict[str, Any]
Cell = Callable[[JSON, float], object]

_NONE: Final = "<none>"
_NODE_LOST: Final = "NodeLost"


def _at(obj: Any, *path: str) -> Any:
    for part in path:
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _field(*path: str, default: object = "") -> Cell:
    def cell(obj: JSON, _now: float) -> object:
        found = _at(obj, *path)
        return default if found is None or found == "" else found

    return cell


def _count(*path: str) -> Cell:
    return lambda obj, now: len(_at(obj, *path) or ())


def _age(obj: JSON, now: float) -> str:
    return _since(obj["metadata"].get("creationTimestamp"), now)


def _since(stamp: object, now: float) -> str:
    return age(stamp, now) if isinstance(stamp, str) else "<unknown>"


def _text(name: str, cell: Cell, priority: int = 0) -> Column:
    return Column(name, cell, "string", "", "", priority)


def _number(name: str, cell: Cell, priority: int = 0) -> Column:
    return Column(name, cell, "integer", "", "", priority)


_AGE: Final = _text("Age", _age)


def _labels(labels: JSON | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or _NONE


def _selector(*path: str) -> Cell:
    def cell(obj: JSON, _now: float) -> str:
        selector = _at(obj, *path) or {}
        if "matchLabels" in selector or "matchExpressions" in selector:
            words = {"In": "in", "NotIn": "notin"}
            parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
            for term in selector.get("matchExpressions") or ():
                values = ",".join(sorted(term.get("values") or ()))
                operator = term["operator"]
                if operator in words:
                    parts.append(f"{term['key']} {words[operator]} ({values})")
                else:
                    parts.append(term["key"] if operator == "Exists" else f"!{term['key']}")
            return ",".join(parts) or _NONE
        return _labels(selector)

    return cell


def _containers(key: str) -> Cell:
    def cell(obj: JSON, _now: float) -> str:
        spec = _at(obj, "spec", "jobTemplate", "spec", "template", "spec") or _at(
            obj, "spec", "template", "spec"
        )
        return ",".join(one.get(key, "") for one in (spec or {}).get("containers") or ())

    return cell


_WIDE_TEMPLATE: Final = (
    _text("Containers", _containers("name"), 1),
    _text("Images", _containers("image"), 1),
)


def _pod_restarts(obj: JSON, now: float) -> str:
    statuses = [*(_at(obj, "status", "containerStatuses") or ())]
    statuses += [s for s in _at(obj, "status", "initContainerStatuses") or () if _restarts(obj, s["name"])]
    total = sum(one.get("restartCount", 0) for one in statuses)
    ends = [_at(one, "lastState", "terminated", "finishedAt") for one in statuses]
    last = max((end for end in ends if end), default=None)
    return f"{total} ({_since(last, now)} ago)" if total and last else str(total)


def _restarts(obj: JSON, name: str) -> bool:
    spec = next((c for c in obj["spec"].get("initContainers") or () if c["name"] == name), {})
    return spec.get("restartPolicy") == "Always"


def _pod_ready(obj: JSON, _now: float) -> str:
    sidecars = [
        c["name"] for c in obj["spec"].get("initContainers") or () if c.get("restartPolicy") == "Always"
    ]
    total = len(obj["spec"].get("containers") or ()) + len(sidecars)
    ready = sum(
        1
        for one in _at(obj, "status", "containerStatuses") or ()
        if one.get("ready") and "running" in (one.get("state") or {})
    )
    ready += sum(
        1
        for one in _at(obj, "status", "initContainerStatuses") or ()
        if one["name"] in sidecars and one.get("ready")
    )
    return f"{ready}/{total}"


def _ended(prefix: str, terminated: JSON) -> str:
    if terminated.get("reason"):
        return f"{prefix}{terminated['reason']}"
    if terminated.get("signal"):
        return f"{prefix}Signal:{terminated['signal']}"
    return f"{prefix}ExitCode:{terminated.get('exitCode', 0)}"


def _init_reason(obj: JSON) -> str:
    statuses = _at(obj, "status", "initContainerStatuses") or ()
    for at, one in enumerate(statuses):
        state = one.get("state") or {}
        if _at(state, "terminated") is not None and state["terminated"].get("exitCode", 0) == 0:
            continue
        if _restarts(obj, one["name"]) and one.get("started"):
            continue
        if "terminated" in state:
            return _ended("Init:", state["terminated"])
        waiting = _at(state, "waiting", "reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{at}/{len(obj['spec'].get('initContainers') or ())}"
    return ""


def _pod_status(obj: JSON, _now: float) -> str:
    status = obj.get("status") or {}
    reason: str = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    init = _init_reason(obj)
    reason = init or reason
    if not init:
        running = False
        for one in reversed(status.get("containerStatuses") or ()):
            state = one.get("state") or {}
            if _at(state, "waiting", "reason"):
                reason = state["waiting"]["reason"]
            elif "terminated" in state:
                reason = _ended("", state["terminated"])
            elif one.get("ready") and "running" in state:
                running = True
        if reason == "Completed" and running:
            reason = "Running" if _is_ready(status) else "NotReady"
    if obj["metadata"].get("deletionTimestamp"):
        if status.get("reason") == _NODE_LOST:
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return reason


def _is_ready(status: JSON) -> bool:
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())


def _pod_gates(obj: JSON, _now: float) -> str:
    gates = obj["spec"].get("readinessGates") or ()
    if not gates:
        return _NONE
    held = {c["type"] for c in _at(obj, "status", "conditions") or () if c.get("status") == "True"}
    return f"{sum(1 for gate in gates if gate['conditionType'] in held)}/{len(gates)}"


PODS: Final = (
    _text("Ready", _pod_ready),
    _text("Status", _pod_status),
    _text("Restarts", _pod_restarts),
    _AGE,
    _text("IP", _field("status", "podIP", default=_NONE), 1),
    _text("Node", _field("spec", "nodeName", default=_NONE), 1),
    _text("Nominated Node", _field("status", "nominatedNodeName", default=_NONE), 1),
    _text("Readiness Gates", _pod_gates, 1),
)


def _node_status(obj: JSON, _now: float) -> str:
    words = [
        "Ready" if c.get("status") == "True" else "NotReady"
        for c in _at(obj, "status", "conditions") or ()
        if c.get("type") == "Ready"
    ] or ["Unknown"]
    if obj["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(obj: JSON, _now: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    if labels.get("kubernetes.io/role"):
        roles.append(labels["kubernetes.io/role"])
    return ",".join(role for role in roles if role) or _NONE


def _node_address(kind: str) -> Cell:
    def cell(obj: JSON, _now: float) -> str:
        found = (a["address"] for a in _at(obj, "status", "addresses") or () if a.get("type") == kind)
        return next(found, _NONE)

    return cell


NODES: Final = (
    _text("Status", _node_status),
    _text("Roles", _node_roles),
    _AGE,
    _text("Version", _field("status", "nodeInfo", "kubeletVersion")),
    _text("Internal-IP", _node_address("InternalIP"), 1),
    _text("External-IP", _node_address("ExternalIP"), 1),
    _text("OS-Image", _field("status", "nodeInfo", "osImage", default="<unknown>"), 1),
    _text("Kernel-Version", _field("status", "nodeInfo", "kernelVersion", default="<unknown>"), 1),
    _text(
        "Container-Runtime", _field("status", "nodeInfo", "containerRuntimeVersion", default="<unknown>"), 1
    ),
)


def _service_external(obj: JSON, _now: float) -> str:
    spec = obj["spec"]
    if spec.get("type") == "ExternalName":
        return spec.get("externalName", "")
    ingress = _at(obj, "status", "loadBalancer", "ingress") or ()
    addresses = [one.get("ip") or one.get("hostname", "") for one in ingress] + list(
        spec.get("externalIPs") or ()
    )
    return ",".join(addresses) or ("<pending>" if spec.get("type") == "LoadBalancer" else _NONE)


def _service_ports(obj: JSON, _now: float) -> str:
    parts = []
    for port in obj["spec"].get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        parts.append(f"{port.get('port')}{node}/{port.get('protocol')}")
    return ",".join(parts) or _NONE


SERVICES: Final = (
    _text("Type", _field("spec", "type")),
    _text("Cluster-IP", _field("spec", "clusterIP", default=_NONE)),
    _text("External-IP", _service_external),
    _text("Port(s)", _service_ports),
    _AGE,
    _text("Selector", _selector("spec", "selector"), 1),
)


def _event_last(obj: JSON, now: float) -> str:
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = _at(obj, "series", "lastObservedTime") or obj.get("lastTimestamp") or first
    count = _at(obj, "series", "count") or obj.get("count") or 0
    if count > 1:
        return f"{_since(last, now)} (x{count} over {_since(first, now)})"
    return _since(last, now)


def _event_object(obj: JSON, _now: float) -> str:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_source(obj: JSON, _now: float) -> str:
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = (
        source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    )
    host = source.get("host") or (not source and obj.get("reportingInstance"))
    return f"{component}, {host}" if host else component


EVENTS: Final = (
    _text("Last Seen", _event_last),
    _text("Type", _field("type")),
    _text("Reason", _field("reason")),
    _text("Object", _event_object),
    _text("Subobject", _field("involvedObject", "fieldPath"), 1),
    _text("Source", _event_source, 1),
    _text("Message", lambda obj, now: str(obj.get("message") or obj.get("note") or "").strip()),
    _text("First Seen", lambda obj, now: _since(obj.get("firstTimestamp") or obj.get("eventTime"), now), 1),
    _text("Count", lambda obj, now: _at(obj, "series", "count") or obj.get("count") or 1, 1),
    _text("Name", lambda obj, now: obj["metadata"]["name"], 1),
)


def _ratio(have: tuple[str, ...], want: tuple[str, ...], default: int = 0) -> Cell:
    return lambda obj, now: (
        f"{_at(obj, *have) or 0}/{_at(obj, *want) if _at(obj, *want) is not None else default}"
    )


def _modes(*path: str) -> Cell:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return lambda obj, now: ",".join(short.get(mode, mode) for mode in _at(obj, *path) or ())


def _job_duration(obj: JSON, now: float) -> str:
    start, end = _at(obj, "status", "startTime"), _at(obj, "status", "completionTime")
    if not start:
        return ""
    from datetime import datetime

    until = datetime.fromisoformat(end).timestamp() if end else now
    return duration(int(until - datetime.fromisoformat(start).timestamp()))


def _job_status(obj: JSON, _now: float) -> str:
    held = {c["type"] for c in _at(obj, "status", "conditions") or () if c.get("status") == "True"}
    for kind, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if kind in held:
            return word
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in held:
            return kind
    return "Running"


def _quota(kind: str) -> Cell:
    def cell(obj: JSON, _now: float) -> str:
        hard = _at(obj, "status", "hard") or {}
        used = _at(obj, "status", "used") or {}
        names = sorted(name for name in hard if name.startswith("limits") == (kind == "limits"))
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def _ingress_hosts(obj: JSON, _now: float) -> str:
    hosts = [rule.get("host") or "*" for rule in obj["spec"].get("rules") or ()]
    return ",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if len(hosts) > 3 else "") or "*"


def _ingress_address(obj: JSON, _now: float) -> str:
    return ",".join(
        one.get("ip") or one.get("hostname", "")
        for one in _at(obj, "status", "loadBalancer", "ingress") or ()
    )


def _subjects(kind: str) -> Cell:
    def cell(obj: JSON, _now: float) -> str:
        names = [
            f"{one.get('namespace', '')}/{one['name']}" if kind == "ServiceAccount" else one["name"]
            for one in obj.get("subjects") or ()
            if one.get("kind") == kind
        ]
        return ", ".join(names)

    return cell


def _role_ref(obj: JSON, _now: float) -> str:
    return f"{_at(obj, 'roleRef', 'kind')}/{_at(obj, 'roleRef', 'name')}"


_BINDING: Final = (
    _text("Role", _role_ref),
    _AGE,
    _text("Users", _subjects("User"), 1),
    _text("Groups", _subjects("Group"), 1),
    _text("ServiceAccounts", _subjects("ServiceAccount"), 1),
)


def _created(obj: JSON, _now: float) -> object:
    return obj["metadata"].get("creationTimestamp")


def _endpoints(obj: JSON, _now: float) -> str:
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in obj.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "") or _NONE


_REPLICAS: Final = (
    _number("Desired", _field("spec", "replicas", default=0)),
    _number("Current", _field("status", "replicas", default=0)),
    _number("Ready", _field("status", "readyReplicas", default=0)),
    _AGE,
    *_WIDE_TEMPLATE,
)

COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "pods": PODS,
    "nodes": NODES,
    "services": SERVICES,
    "events": EVENTS,
    "events.events.k8s.io": EVENTS,
    "namespaces": (_text("Status", _field("status", "phase")), _AGE),
    "configmaps": (
        _text("Data", lambda obj, now: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())),
        _AGE,
    ),
    "secrets": (_text("Type", _field("type")), _text("Data", _count("data")), _AGE),
    "serviceaccounts": (_AGE,),
    "endpoints": (_text("Endpoints", _endpoints), _AGE),
    "limitranges": (Column("Created At", _created, "date"),),
    "resourcequotas": (_text("Request", _quota("requests")), _text("Limit", _quota("limits")), _AGE),
    "replicationcontrollers": (*_REPLICAS, _text("Selector", _selector("spec", "selector"), 1)),
    "replicasets.apps": (*_REPLICAS, _text("Selector", _selector("spec", "selector"), 1)),
    "deployments.apps": (
        _text("Ready", _ratio(("status", "readyReplicas"), ("spec", "replicas"))),
        _number("Up-to-date", _field("status", "updatedReplicas", default=0)),
        _number("Available", _field("status", "availableReplicas", default=0)),
        _AGE,
        *_WIDE_TEMPLATE,
        _text("Selector", _selector("spec", "selector"), 1),
    ),
    "statefulsets.apps": (
        _text("Ready", _ratio(("status", "readyReplicas"), ("spec", "replicas"))),
        _AGE,
        *_WIDE_TEMPLATE,
    ),
    "daemonsets.apps": (
        _number("Desired", _field("status", "desiredNumberScheduled", default=0)),
        _number("Current", _field("status", "currentNumberScheduled", default=0)),
        _number("Ready", _field("status", "numberReady", default=0)),
        _number("Up-to-date", _field("status", "updatedNumberScheduled", default=0)),
        _number("Available", _field("status", "numberAvailable", default=0)),
        _text(
            "Node Selector", lambda obj, now: _labels(_at(obj, "spec", "template", "spec", "nodeSelector"))
        ),
        _AGE,
        *_WIDE_TEMPLATE,
        _text("Selector", _selector("spec", "selector"), 1),
    ),
    "jobs.batch": (
        _text("Status", _job_status),
        _text("Completions", _ratio(("status", "succeeded"), ("spec", "completions"), 1)),
        _text("Duration", _job_duration),
        _AGE,
        *_WIDE_TEMPLATE,
        _text("Selector", _selector("spec", "selector"), 1),
    ),
    "cronjobs.batch": (
        _text("Schedule", _field("spec", "schedule")),
        _text("Timezone", _field("spec", "timeZone", default=_NONE)),
        Column("Suspend", lambda obj, now: str(bool(_at(obj, "spec", "suspend"))), "boolean"),
        _number("Active", _count("status", "active")),
        _text(
            "Last Schedule",
            lambda obj, now: _since(t, now) if (t := _at(obj, "status", "lastScheduleTime")) else _NONE,
        ),
        _AGE,
        *_WIDE_TEMPLATE,
        _text("Selector", _selector("spec", "jobTemplate", "spec", "selector"), 1),
    ),
    "persistentvolumeclaims": (
        _text("Status", _field("status", "phase")),
        _text("Volume", _field("spec", "volumeName")),
        _text("Capacity", _field("status", "capacity", "storage")),
        _text("Access Modes", _modes("status", "accessModes")),
        _text("StorageClass", _field("spec", "storageClassName")),
        _text("VolumeAttributesClass", _field("spec", "volumeAttributesClassName", default="<unset>")),
        _AGE,
        _text("VolumeMode", _field("spec", "volumeMode"), 1),
    ),
    "persistentvolumes": (
        _text("Capacity", _field("spec", "capacity", "storage")),
        _text("Access Modes", _modes("spec", "accessModes")),
        _text("Reclaim Policy", _field("spec", "persistentVolumeReclaimPolicy")),
        _text("Status", _field("status", "phase")),
        _text(
            "Claim",
            lambda obj, now: f"{c['namespace']}/{c['name']}" if (c := _at(obj, "spec", "claimRef")) else "",
        ),
        _text("StorageClass", _field("spec", "storageClassName")),
        _text("VolumeAttributesClass", _field("spec", "volumeAttributesClassName", default="<unset>")),
        _text("Reason", _field("status", "reason")),
        _AGE,
        _text("VolumeMode", _field("spec", "volumeMode"), 1),
    ),
    "ingresses.networking.k8s.io": (
        _text("Class", _field("spec", "ingressClassName", default=_NONE)),
        _text("Hosts", _ingress_hosts),
        _text("Address", _ingress_address),
        _text("Ports", lambda obj, now: "80, 443" if obj["spec"].get("tls") else "80"),
        _AGE,
    ),
    "ingressclasses.networking.k8s.io": (
        _text("Controller", _field("spec", "controller")),
        _text(
            "Parameters",
            lambda obj, now: (
                f"{p.get('kind')}.{p.get('apiGroup')}/{p.get('name')}"
                if (p := _at(obj, "spec", "parameters"))
                else _NONE
            ),
        ),
        _AGE,
    ),
    "networkpolicies.networking.k8s.io": (_text("Pod-Selector", _selector("spec", "podSelector")), _AGE),
    "priorityclasses.scheduling.k8s.io": (
        _number("Value", _field("value", default=0)),
        Column("Global-Default", _field("globalDefault", default=False), "boolean"),
        _AGE,
        _text("PreemptionPolicy", _field("preemptionPolicy")),
    ),
    "leases.coordination.k8s.io": (_text("Holder", _field("spec", "holderIdentity")), _AGE),
    "roles.rbac.authorization.k8s.io": (Column("Created At", _created, "date"),),
    "clusterroles.rbac.authorization.k8s.io": (Column("Created At", _created, "date"),),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "poddisruptionbudgets.policy": (
        _text("Min Available", lambda obj, now: str(_field("spec", "minAvailable", default="N/A")(obj, now))),
        _text(
            "Max Unavailable", lambda obj, now: str(_field("spec", "maxUnavailable", default="N/A")(obj, now))
        ),
        _number("Allowed Disruptions", _field("status", "disruptionsAllowed", default=0)),
        _AGE,
    ),
    "storageclasses.storage.k8s.io": (
        _text("Provisioner", _field("provisioner")),
        _text("ReclaimPolicy", _field("reclaimPolicy")),
        _text("VolumeBindingMode", _field("volumeBindingMode")),
        Column("AllowVolumeExpansion", _field("allowVolumeExpansion", default=False), "string"),
        _AGE,
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (
        _number("Webhooks", _count("webhooks")),
        _AGE,
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (
        _number("Webhooks", _count("webhooks")),
        _AGE,
    ),
    "customresourcedefinitions.apiextensions.k8s.io": (Column("Created At", _created, "date"),),
}
