"""Rules for names, labels and annotations, and the metadata that every object has."""

# ruff: noqa: PLR2004 - limits of the API

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from simulator.core.errors import Cause, invalid, required

JSON = dict[str, Any]

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_PART: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

LABEL_WORDS: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED_WORDS: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_WORDS: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

LABEL_NAMES: Final = frozenset({"namespaces", "services"})
PATH_NAMES: Final = frozenset(
    f"{plural}.rbac.authorization.k8s.io"
    for plural in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
)

_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")


@lru_cache(maxsize=16384)
def label(value: str) -> str:
    """Return why a text is no DNS-1123 label, or ''."""
    if len(value) > 63:
        return "must be no more than 63 bytes"
    return "" if _LABEL.fullmatch(value) else LABEL_WORDS


@lru_cache(maxsize=16384)
def subdomain(value: str) -> str:
    """Return why a text is no DNS-1123 subdomain, or ''."""
    if len(value) > 253:
        return "must be no more than 253 bytes"
    return "" if _SUBDOMAIN.fullmatch(value) else SUBDOMAIN_WORDS


@lru_cache(maxsize=16384)
def qualified_name(value: str) -> str:
    """Return why a text is no label or annotation key, or ''."""
    prefix, slash, name = value.rpartition("/")
    if slash:
        if not prefix:
            return "prefix part must be non-empty"
        if why := subdomain(prefix):
            return f"prefix part {why}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return "" if _NAME_PART.fullmatch(name) else QUALIFIED_WORDS


@lru_cache(maxsize=16384)
def label_value(value: str) -> str:
    """Return why a text is no label value, or ''."""
    if len(value) > 63:
        return "must be no more than 63 bytes"
    return "" if _LABEL_VALUE.fullmatch(value) else VALUE_WORDS


def labels(values: JSON | None, field: str) -> list[Cause]:
    """Check a map of labels."""
    causes: list[Cause] = []
    for key, value in (values or {}).items():
        if why := qualified_name(key):
            causes.append(invalid(field, key, why))
        if why := label_value(value):
            causes.append(invalid(field, value, why))
    return causes


def name_rule(resource: str, name: str) -> str:
    """Return why an object of a resource may not have a name, or ''."""
    if resource in LABEL_NAMES:
        return label(name)
    if resource in PATH_NAMES:
        return "" if name not in (".", "..") and not set(name) & {"/", "%"} else "may not contain '/' or '%'"
    return subdomain(name)


def metadata(resource: str, obj: JSON) -> list[Cause]:
    """Check the metadata of an object that is to be created or changed."""
    meta = obj["metadata"]
    causes: list[Cause] = []
    name = meta.get("name", "")
    generate = meta.get("generateName", "")
    if generate and (why := name_rule(resource, generate.rstrip("-") or generate)):
        causes.append(invalid("metadata.generateName", generate, why))
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif why := name_rule(resource, name):
        causes.append(invalid("metadata.name", name, why))
    causes += labels(meta.get("labels"), "metadata.labels")
    for key in meta.get("annotations") or ():
        if why := qualified_name(key.lower()):
            causes.append(invalid("metadata.annotations", key, why))
    causes += _owners(meta.get("ownerReferences") or ())
    for finalizer in meta.get("finalizers") or ():
        if why := qualified_name(finalizer):
            causes.append(invalid("metadata.finalizers", finalizer, why))
    return causes


def finalizers(obj: JSON) -> list[Cause]:
    """Check what built-in kinds ask of their finalizers beyond the syntax."""
    words = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"metadata.finalizers[{at}]", finalizer, words)
        for at, finalizer in enumerate(obj["metadata"].get("finalizers") or ())
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def _owners(references: list[JSON] | tuple[()]) -> list[Cause]:
    causes: list[Cause] = []
    controllers: list[str] = []
    for reference in references:
        field = "metadata.ownerReferences"
        if not reference.get("apiVersion"):
            causes.append(invalid(f"{field}.apiVersion", "", "version must not be empty"))
        causes += [
            invalid(f"{field}.{part}", "", "must not be empty")
            for part in ("kind", "name", "uid")
            if not reference.get(part)
        ]
        if reference.get("controller"):
            controllers.append(f"{reference.get('kind', '')}/{reference.get('name', '')}")
    if len(controllers) > 1:
        found = " and ".join(controllers[:2])
        words = f'Only one reference can have Controller set to true. Found "true" in references for {found}'
        causes.append(invalid("metadata.ownerReferences", references, words))
    return causes


def immutable_metadata(new: JSON, old: JSON) -> list[Cause]:
    """Check what no update may change."""
    after, before = new["metadata"], old["metadata"]
    causes = [
        invalid(f"metadata.{field}", after.get(field) or "", "field is immutable")
        for field in ("name", "namespace", "uid", "creationTimestamp")
        if after.get(field) != before.get(field)
    ]
    if before.get("deletionTimestamp"):
        held = set(before.get("finalizers") or ())
        added = [f for f in after.get("finalizers") or () if f not in held]
        if added:
            words = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                "[]string{" + ", ".join(f'"{name}"' for name in added) + "}"
            )
            causes.append(Cause("FieldValueForbidden", f"Forbidden: {words}", "metadata.finalizers"))
    return causes
