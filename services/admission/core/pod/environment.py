"""Environment variables."""

from __future__ import annotations

import re
from typing import Final

from services.admission.core.formats import config_key, dns_subdomain, env_name
from services.admission.core.pod.checks import Violations, formed, named, one_of, required
from services.admission.core.violations import Violation
from shared.api.pods import EnvFromSource, EnvVar, EnvVarSource

_FIELDS: Final = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
_MAP_FIELD: Final = re.compile(r"metadata\.(labels|annotations)\['[^']+'\]")
_RESOURCES: Final = frozenset(
    f"{part}.{name}" for part in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)


def environment(variables: list[EnvVar], path: str) -> Violations:
    """Each variable has a name, and a value or one source."""
    for index, variable in enumerate(variables):
        at = f"{path}[{index}]"
        yield from named(variable.name, f"{at}.name", env_name)
        if variable.value_from is not None:
            if variable.value:
                yield Violation("invalid", f"{at}.valueFrom", "value and valueFrom exclude each other")
            yield from _source(variable.value_from, f"{at}.valueFrom")


def _source(source: EnvVarSource, path: str) -> Violations:
    known = [source.field_ref, source.resource_field_ref, source.config_map_key_ref, source.secret_key_ref]
    unknown = [value for value in (source.model_extra or {}).values() if value is not None]
    count = sum(part is not None for part in (*known, *unknown))
    if count != 1:
        yield Violation("invalid", path, f"must have exactly one source; it has {count}")
    if (field := source.field_ref) is not None:
        yield from required(field.field_path, f"{path}.fieldRef.fieldPath")
        if not _MAP_FIELD.fullmatch(field.field_path):
            yield from one_of(field.field_path, f"{path}.fieldRef.fieldPath", _FIELDS)
    if (resource := source.resource_field_ref) is not None:
        at = f"{path}.resourceFieldRef.resource"
        yield from required(resource.resource, at)
        if ".hugepages-" not in resource.resource:
            yield from one_of(resource.resource, at, _RESOURCES)
    for name, key in (
        ("configMapKeyRef", source.config_map_key_ref),
        ("secretKeyRef", source.secret_key_ref),
    ):
        if key is not None:
            yield from named(key.name, f"{path}.{name}.name", dns_subdomain)
            yield from named(key.key, f"{path}.{name}.key", config_key)


def environment_from(sources: list[EnvFromSource], path: str) -> Violations:
    """Each source names one ConfigMap or Secret."""
    for index, source in enumerate(sources):
        at = f"{path}[{index}]"
        yield from formed(source.prefix, f"{at}.prefix", env_name)
        references = (("configMapRef", source.config_map_ref), ("secretRef", source.secret_ref))
        if (count := sum(reference is not None for _, reference in references)) != 1:
            yield Violation(
                "invalid", at, f"must have exactly one of configMapRef and secretRef; it has {count}"
            )
        for name, reference in references:
            if reference is not None:
                yield from named(reference.name, f"{at}.{name}.name", dns_subdomain)
