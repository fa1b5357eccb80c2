"""What a pod may be and how it may change."""

from __future__ import annotations

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
            causes += _container(
                container, f"{field}.{group}[{at}]", seen, volumes, init=group == "initContainers"
            )
    if spec.get("restartPolicy") not in ("Always", "OnFailure", "Never"):
        causes.append(
            unsupported(f"{field}.restartPolicy", spec.get("restartPolicy"), ("Always", "OnFailure", "Never"))
        )
    policies = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    if spec.get("dnsPolicy") not in policies:
        causes.append(unsupported(f"{field}.dnsPolicy", spec.get("dnsPolicy"), policies))
    causes += names.labels(spec.get("nodeSelector"), f"{field}.nodeSelector")
    for part in ("serviceAccountName", "nodeName", "schedulerName", "priorityClassName"):
        if spec.get(part) and (why := names.subdomain(spec[part])):
            causes.append(invalid(f"{field}.{part}", spec[part], why))
    for part in ("hostname", "subdomain"):
        if spec.get(part) and (why := names.label(spec[part])):
            causes.append(invalid(f"{field}.{part}", spec[part], why))
    if spec.get("activeDeadlineSeconds") is not None and not 1 <= spec["activeDeadlineSeconds"] < 2**31:
        causes.append(
            invalid(
                f"{field}.activeDeadlineSeconds",
                spec["activeDeadlineSeconds"],
                "must be between 1 and 2147483647, inclusive",
            )
        )
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    return causes + _tolerations(spec.get("tolerations") or (), f"{field}.tolerations")


def _volumes(volumes: list[JSON] | tuple[()], field: str, causes: list[Cause]) -> set[str]:
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


def _container(container: JSON, field: str, seen: set[str], volumes: set[str], *, init: bool) -> list[Cause]:
    causes: list[Cause] = []
    name = container.get("name", "")
    if not name:
        causes.append(required(f"{field}.name"))
    elif why := names.label(name):
        causes.append(invalid(f"{field}.name", name, why))
    elif name in seen:
        causes.append(duplicate(f"{field}.name", name))
    seen.add(name)
    if not container.get("image"):
        causes.append(required(f"{field}.image"))
    if container["imagePullPolicy"] not in ("Always", "IfNotPresent", "Never"):
        causes.append(
            unsupported(
                f"{field}.imagePullPolicy", container["imagePullPolicy"], ("Always", "IfNotPresent", "Never")
            )
        )
    if init and container.get("restartPolicy") not in (None, "Always", "OnFailure", "Never"):
        causes.append(
            unsupported(
                f"{field}.restartPolicy", container["restartPolicy"], ("Always", "OnFailure", "Never")
            )
        )
    for at, env in enumerate(container.get("env") or ()):
        if not env.get("name"):
            causes.append(required(f"{field}.env[{at}].name"))
    for at, port in enumerate(container.get("ports") or ()):
        number = port.get("containerPort")
        if not number:
            causes.append(required(f"{field}.ports[{at}].containerPort"))
        elif not 0 < number < 65536:  # noqa: PLR2004
            causes.append(
                invalid(
                    f"{field}.ports[{at}].containerPort", number, "must be between 1 and 65535, inclusive"
                )
            )
    mounts: set[str] = set()
    for at, mount in enumerate(container.get("volumeMounts") or ()):
        if not mount.get("name"):
            causes.append(required(f"{field}.volumeMounts[{at}].name"))
        elif mount["name"] not in volumes:
            causes.append(
                Cause(
                    "FieldValueNotFound", f'Not found: "{mount["name"]}"', f"{field}.volumeMounts[{at}].name"
                )
            )
        if not mount.get("mountPath"):
            causes.append(required(f"{field}.volumeMounts[{at}].mountPath"))
        elif mount["mountPath"] in mounts:
            causes.append(
                invalid(f"{field}.volumeMounts[{at}].mountPath", mount["mountPath"], "must be unique")
            )
        mounts.add(mount.get("mountPath", ""))
    return causes + _resources(container.get("resources") or {}, f"{field}.resources")


def _resources(resources: JSON, field: str) -> list[Cause]:
    causes: list[Cause] = []
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            if why := names.qualified_name(name):
                causes.append(invalid(f"{field}.{part}", name, why))
            elif (
                "/" not in name
                and name not in ("cpu", "memory", "ephemeral-storage")
                and not name.startswith("hugepages-")
            ):
                causes.append(
                    invalid(f"{field}.{part}", name, "must be a standard resource type or fully qualified")
                )
                causes.append(invalid(f"{field}.{part}", name, "must be a standard resource for containers"))
            amount = Quantity.parse(text)
            if amount.nanos < 0:
                causes.append(
                    invalid(f"{field}.{part}[{name}]", str(amount), "must be greater than or equal to 0")
                )
            elif _extended(name) and not amount.is_integer():
                causes.append(invalid(f"{field}.{part}[{name}]", str(amount), "must be an integer"))
    for name, text in requests.items():
        limit = limits.get(name)
        if _extended(name):
            if limit is None:
                causes.append(
                    required(f"{field}.limits", "Limit must be set for non overcommitable resources")
                )
            elif Quantity.parse(limit) != Quantity.parse(text):
                causes.append(invalid(f"{field}.requests", text, f"must be equal to {name} limit of {limit}"))
        elif limit is not None and Quantity.parse(text) > Quantity.parse(limit):
            causes.append(
                invalid(f"{field}.requests", text, f"must be less than or equal to {name} limit of {limit}")
            )
    return causes


def _extended(name: str) -> bool:
    """Say whether a resource may not be overcommitted (extended resources, huge pages)."""
    return ("/" in name and not name.partition("/")[0].endswith("kubernetes.io")) or name.startswith(
        "hugepages-"
    )


def _tolerations(tolerations: list[JSON] | tuple[()], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for at, toleration in enumerate(tolerations):
        operator = toleration.get("operator", "Equal")
        if not toleration.get("key") and operator != "Exists":
            causes.append(
                invalid(
                    f"{field}[{at}].operator",
                    operator if "operator" in toleration else "",
                    'operator must be Exists when `key` is empty, which means "match all values and all keys"',
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
    gates, old_gates = after.get("schedulingGates", []), before.get("schedulingGates", [])
    if any(gate not in old_gates for gate in gates):
        causes.append(
            forbidden_field(
                "spec.schedulingGates", "only deletion is allowed, but found new scheduling gate(s)"
            )
        )
    tolerations = after.get("tolerations", [])
    if any(t not in tolerations for t in before.get("tolerations", [])):
        causes.append(
            forbidden_field(
                "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
            )
        )
    for group in ("containers", "initContainers"):
        if len(after.get(group) or ()) != len(before.get(group) or ()):
            causes.append(forbidden_field(f"spec.{group}", "pod updates may not add or remove containers"))
            return causes
    merged = dict(after)
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        merged.pop(name, None)
        if name in before:
            merged[name] = before[name]
    for group in ("containers", "initContainers"):
        if group in after:
            pairs = zip(after[group], before[group], strict=True)
            merged[group] = [a | {"image": b.get("image", "")} for a, b in pairs]
    if old_gates:  # a gated pod may be narrowed to fewer nodes
        for name in ("nodeSelector", "affinity"):
            merged.pop(name, None)
            if name in before:
                merged[name] = before[name]
    if merged != before:
        causes.append(forbidden_field("spec", _UPDATE_WORDS))
    return causes
