"""What a pod may be and how it may change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from shared.api.quantity import Quantity
from simulator.core import names
from simulator.core.errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    required,
    unsupported,
)

JSON = dict[str, Any]

_MAX_PORT: Final = 65535
_MAX_INT: Final = 2147483647
_RESTARTS: Final = ("Always", "OnFailure", "Never")
_PULLS: Final = ("Always", "IfNotPresent", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_NAMED: Final = (
    (names.subdomain, ("serviceAccountName", "nodeName", "schedulerName", "priorityClassName")),
    (names.label, ("hostname", "subdomain")),
)


_UPDATE_WORDS: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate(pod: JSON) -> list[Cause]:
    """Check a new pod."""
    return validate_spec(pod["spec"], "spec")


def validate_spec(spec: JSON, field: str) -> list[Cause]:
    """Check the parts of a pod spec that clients get wrong: names, images, policies, amounts, mounts."""
    causes: list[Cause] = []
    volumes = _volumes(spec.get("volumes") or (), f"{field}.volumes", causes)
    seen: set[str] = set()
    if not spec.get("containers"):
        causes.append(required(f"{field}.containers"))
    for group in ("containers", "initContainers"):
        for at, container in enumerate(spec.get(group) or ()):
            causes += _container(container, f"{field}.{group}[{at}]", seen, volumes)
    causes += _one_of(spec, field, "restartPolicy", _RESTARTS)
    causes += _one_of(spec, field, "dnsPolicy", _DNS)
    causes += names.labels(spec.get("nodeSelector"), f"{field}.nodeSelector")
    for rule, parts in _NAMED:
        causes += [
            invalid(f"{field}.{part}", spec[part], why)
            for part in parts
            if spec.get(part) and (why := rule(spec[part]))
        ]
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT:
        causes.append(
            invalid(
                f"{field}.activeDeadlineSeconds", deadline, f"must be between 1 and {_MAX_INT}, inclusive"
            )
        )
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    return causes + _tolerations(spec.get("tolerations") or (), f"{field}.tolerations")


def _one_of(obj: JSON, field: str, part: str, allowed: tuple[str, ...]) -> list[Cause]:
    value = obj.get(part)
    return [] if value in allowed else [unsupported(f"{field}.{part}", value, allowed)]


def _volumes(volumes: Sequence[JSON], field: str, causes: list[Cause]) -> set[str]:
    found: set[str] = set()
    for at, volume in enumerate(volumes):
        name = volume.get("name", "")
        if not name:
            causes.append(required(f"{field}[{at}].name"))
        elif why := names.label(name):
            causes.append(invalid(f"{field}[{at}].name", name, why))
        elif name in found:
            causes.append(duplicate(f"{field}[{at}].name", name))
        found.add(name)
        if len(volume) > 2:  # noqa: PLR2004
            extra = sorted(set(volume) - {"name"})[1]
            causes.append(
                forbidden_field(f"{field}[{at}].{extra}", "may not specify more than 1 volume type")
            )
    return found


def _container(container: JSON, field: str, seen: set[str], volumes: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    name = container.get("name", "")
    if not name:
        causes.append(required(f"{field}.name"))
    elif why := names.label(name):
        causes.append(invalid(f"{field}.name", name, why))
    if not container.get("image"):
        causes.append(required(f"{field}.image"))
    if name in seen:
        causes.append(duplicate(f"{field}.name", name))
    seen.add(name)
    causes += _one_of(container, field, "imagePullPolicy", _PULLS)
    if "restartPolicy" in container:
        causes += _one_of(container, field, "restartPolicy", _RESTARTS)
    causes += [
        required(f"{field}.env[{at}].name")
        for at, env in enumerate(container.get("env") or ())
        if not env.get("name")
    ]
    causes += _ports(container.get("ports") or (), f"{field}.ports")
    causes += _mounts(container.get("volumeMounts") or (), f"{field}.volumeMounts", volumes)
    resources = container.get("resources") or {}
    return causes + _amounts(resources, f"{field}.resources") + _balance(resources, f"{field}.resources")


def _ports(ports: Sequence[JSON], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for at, port in enumerate(ports):
        number = port.get("containerPort")
        if not number:
            causes.append(required(f"{field}[{at}].containerPort"))
        elif not 0 < number <= _MAX_PORT:
            words = f"must be between 1 and {_MAX_PORT}, inclusive"
            causes.append(invalid(f"{field}[{at}].containerPort", number, words))
    return causes


def _mounts(mounts: Sequence[JSON], field: str, volumes: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    paths: set[str] = set()
    for at, mount in enumerate(mounts):
        name, path = mount.get("name"), mount.get("mountPath", "")
        if not name:
            causes.append(required(f"{field}[{at}].name"))
        elif name not in volumes:
            causes.append(Cause("FieldValueNotFound", f'Not found: "{name}"', f"{field}[{at}].name"))
        if not path:
            causes.append(required(f"{field}[{at}].mountPath"))
        elif path in paths:
            causes.append(invalid(f"{field}[{at}].mountPath", path, "must be unique"))
        paths.add(path)
    return causes


def _amounts(resources: JSON, field: str) -> list[Cause]:
    causes: list[Cause] = []
    pairs = [(part, name) for part in ("limits", "requests") for name in resources.get(part) or ()]
    for part, name in pairs:
        amount = Quantity.parse(resources[part][name])
        if why := names.qualified_name(name):
            causes.append(invalid(f"{field}.{part}", name, why))
        elif not _known_resource(name):
            causes += [
                invalid(f"{field}.{part}[{name}]", name, words)
                for words in (
                    "must be a standard resource type or fully qualified",
                    "must be a standard resource for containers",
                )
            ]
        if amount.nanos < 0:
            words = "must be greater than or equal to 0"
            causes.append(invalid(f"{field}.{part}[{name}]", str(amount), words))
        elif _extended(name) and not amount.is_integer():
            causes.append(invalid(f"{field}.{part}[{name}]", str(amount), "must be an integer"))
    return causes


def _known_resource(name: str) -> bool:
    return "/" in name or name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")


def _balance(resources: JSON, field: str) -> list[Cause]:
    """Check requests against limits."""
    causes: list[Cause] = []
    limits = resources.get("limits") or {}
    for name, text in (resources.get("requests") or {}).items():
        limit = limits.get(name)
        if _extended(name):
            if limit is None:
                words = "Limit must be set for non overcommitable resources"
                causes.append(required(f"{field}.limits", words))
            elif Quantity.parse(limit) != Quantity.parse(text):
                causes.append(invalid(f"{field}.requests", text, f"must be equal to {name} limit of {limit}"))
        elif limit is not None and Quantity.parse(text) > Quantity.parse(limit):
            words = f"must be less than or equal to {name} limit of {limit}"
            causes.append(invalid(f"{field}.requests", text, words))
    return causes


def _extended(name: str) -> bool:
    """Say whether a resource may not be overcommitted (extended resources, huge pages)."""
    return ("/" in name and not name.partition("/")[0].endswith("kubernetes.io")) or name.startswith(
        "hugepages-"
    )


def _tolerations(tolerations: Sequence[JSON], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for at, toleration in enumerate(tolerations):
        operator = toleration.get("operator", "Equal")
        if not toleration.get("key") and operator != "Exists":
            causes.append(
                invalid(
                    f"{field}[{at}].operator",
                    operator if "operator" in toleration else "",
                    "operator must be Exists when `key` is empty, which means "
                    '"match all values and all keys"',
                )
            )
        if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
            causes.append(
                invalid(
                    f"{field}[{at}].effect",
                    toleration.get("effect", ""),
                    "effect must be 'NoExecute' when `tolerationSeconds` is set",
                )
            )
        effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
        if toleration.get("effect") and toleration["effect"] not in effects:
            causes.append(unsupported(f"{field}[{at}].effect", toleration["effect"], effects))
    return causes


def validate_update(new: JSON, old: JSON) -> list[Cause]:
    """Refuse changes of a spec beyond images, deadlines and added tolerations."""
    after, before = new["spec"], old["spec"]
    if after == before:
        return []
    causes: list[Cause] = []
    old_gates = before.get("schedulingGates", [])
    for at, gate in enumerate(after.get("schedulingGates", [])):
        if gate not in old_gates:
            words = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            causes.append(forbidden_field(f"spec.schedulingGates[{at}].name", words))
    tolerations = after.get("tolerations", [])
    if any(toleration not in tolerations for toleration in before.get("tolerations", [])):
        words = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(forbidden_field("spec.tolerations", words))
    for group in ("containers", "initContainers"):
        if len(after.get(group) or ()) != len(before.get(group) or ()):
            words = "pod updates may not add or remove containers"
            return [*causes, forbidden_field(f"spec.{group}", words)]
    if _without_what_may_change(after, before) != before:
        causes.append(forbidden_field("spec", _UPDATE_WORDS))
    return causes


def _without_what_may_change(after: JSON, before: JSON) -> JSON:
    """Return the new spec with the old values of all that an update may change."""
    gated = ("nodeSelector", "affinity") if before.get("schedulingGates") else ()
    free = ("activeDeadlineSeconds", "tolerations", "schedulingGates", *gated)
    merged = {name: value for name, value in after.items() if name not in free}
    merged |= {name: before[name] for name in free if name in before}
    for group in ("containers", "initContainers"):
        if group in after:
            pairs = zip(after[group], before[group], strict=True)
            merged[group] = [one | {"image": held.get("image", "")} for one, held in pairs]
    return merged
