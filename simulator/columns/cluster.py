"""The columns of nodes, events, quotas and roles."""

from __future__ import annotations

from typing import Any, Final

from simulator.columns.cells import AGE, NONE, Cell, at, field, since, text

JSON = dict[str, Any]


def _node_status(obj: JSON, _now: float) -> str:
    words = [
        "Ready" if c.get("status") == "True" else "NotReady"
        for c in at(obj, "status", "conditions") or ()
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
    return ",".join(role for role in roles if role) or NONE


def _node_address(kind: str) -> Cell:
    def cell(obj: JSON, _now: float) -> str:
        found = (a["address"] for a in at(obj, "status", "addresses") or () if a.get("type") == kind)
        return next(found, NONE)

    return cell


NODES: Final = (
    text("Status", _node_status),
    text("Roles", _node_roles),
    AGE,
    text("Version", field("status", "nodeInfo", "kubeletVersion")),
    text("Internal-IP", _node_address("InternalIP"), 1),
    text("External-IP", _node_address("ExternalIP"), 1),
    text("OS-Image", field("status", "nodeInfo", "osImage", default="<unknown>"), 1),
    text("Kernel-Version", field("status", "nodeInfo", "kernelVersion", default="<unknown>"), 1),
    text("Container-Runtime", field("status", "nodeInfo", "containerRuntimeVersion", default="<unknown>"), 1),
)


def _event_last(obj: JSON, now: float) -> str:
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = at(obj, "series", "lastObservedTime") or obj.get("lastTimestamp") or first
    return since(last, now)


def _event_count(obj: JSON) -> int:
    return at(obj, "series", "count") or obj.get("count") or obj.get("deprecatedCount") or 1


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
    text("Last Seen", _event_last),
    text("Type", field("type")),
    text("Reason", field("reason")),
    text("Object", _event_object),
    text("Subobject", field("involvedObject", "fieldPath"), 1),
    text("Source", _event_source, 1),
    text("Message", lambda obj, _now: str(obj.get("message") or obj.get("note") or "").strip()),
    text("First Seen", lambda obj, now: since(obj.get("firstTimestamp") or obj.get("eventTime"), now), 1),
    text("Count", lambda obj, _now: _event_count(obj), 1),
    text("Name", lambda obj, _now: obj["metadata"]["name"], 1),
)


def quota(kind: str) -> Cell:
    """Return a cell that shows what is used of a quota."""

    def cell(obj: JSON, _now: float) -> str:
        hard = at(obj, "status", "hard") or {}
        used = at(obj, "status", "used") or {}
        names = sorted(name for name in hard if name.startswith("limits") == (kind == "limits"))
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def subjects(kind: str) -> Cell:
    """Return a cell that names the subjects of a kind."""

    def cell(obj: JSON, _now: float) -> str:
        names = [
            f"{one.get('namespace', '')}/{one['name']}" if kind == "ServiceAccount" else one["name"]
            for one in obj.get("subjects") or ()
            if one.get("kind") == kind
        ]
        return ", ".join(names)

    return cell


def role_ref(obj: JSON, _now: float) -> str:
    """Name the role of a binding."""
    return f"{at(obj, 'roleRef', 'kind')}/{at(obj, 'roleRef', 'name')}"


BINDING: Final = (
    text("Role", role_ref),
    AGE,
    text("Users", subjects("User"), 1),
    text("Groups", subjects("Group"), 1),
    text("ServiceAccounts", subjects("ServiceAccount"), 1),
)


def created(obj: JSON, _now: float) -> object:
    """Show the time of creation."""
    return obj["metadata"].get("creationTimestamp")
