"""Label and field selectors: parsed once, then asked for each object."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from simulator.core import label_syntax
from simulator.core.errors import StatusError, bad_request
from simulator.core.names import QUALIFIED_WORDS, VALUE_WORDS

JSON = dict[str, Any]

_KEY: Final = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector. ``op`` is in, notin, exists, absent, gt or lt."""

    key: str
    op: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Say whether labels meet this term."""
        value = labels.get(self.key)
        match self.op:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
            case _:
                return value is not None and _compare(self.op, value, self.values[0])


def _compare(op: str, value: str, bound: str) -> bool:
    try:
        return int(value) > int(bound) if op == "gt" else int(value) < int(bound)
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All terms must hold."""

    terms: tuple[Requirement, ...]

    def holds(self, labels: Mapping[str, str] | None) -> bool:
        """Say whether labels are selected."""
        have = labels or {}
        return all(term.holds(have) for term in self.terms)


def parse_labels(text: str) -> LabelSelector:
    """Read ``a=b,c in (d,e),!f``. Raises StatusError 400."""
    return LabelSelector(tuple(_checked(term) for term in label_syntax.terms(text)))


def _checked(term: label_syntax.Term) -> Requirement:
    key, op, values = term
    if not _KEY.fullmatch(key):
        raise label_syntax.refusal(f'<nil>: Invalid value: "{key}": {QUALIFIED_WORDS}')
    if op in ("gt", "lt") and not re.fullmatch(r"[+-]?\d+", values[0]):
        words = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise label_syntax.refusal(f'values[0]: Invalid value: "{values[0]}": {words}')
    for at, value in enumerate(values):
        if not _VALUE.fullmatch(value):
            raise label_syntax.refusal(f'values[{at}][{key}]: Invalid value: "{value}": {VALUE_WORDS}')
    return Requirement(key, op, values)


def from_object(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Read a ``metav1.LabelSelector``; None selects everything here."""
    selector = selector or {}
    terms = [Requirement(key, "in", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    words = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
    terms += [
        Requirement(term["key"], words[term["operator"]], tuple(term.get("values") or ()))
        for term in selector.get("matchExpressions") or ()
    ]
    return LabelSelector(tuple(terms))


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector: path equals (or not) a text."""

    path: str
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All terms must hold; each has the reader of its field."""

    terms: tuple[tuple[FieldTerm, Callable[[JSON], str]], ...]

    def holds(self, obj: JSON) -> bool:
        """Say whether an object is selected."""
        return all((read(obj) == term.value) is term.equal for term, read in self.terms)

    def exact(self, path: str) -> str | None:
        """Return the value that a field must have, if the selector says so."""
        return next((term.value for term, _ in self.terms if term.path == path and term.equal), None)


def reader(path: str, default: str = "") -> Callable[[JSON], str]:
    """Return a reader of a dotted path as text; a missing field reads as ``default``."""
    parts = path.split(".")

    def read(obj: JSON) -> str:
        value: Any = obj
        for part in parts:
            if not isinstance(value, dict):
                return default
            value = value.get(part)
        if value is None:
            return default
        return (
            value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
        )

    return read


_COMMON: Final = {"metadata.name": "", "metadata.namespace": ""}
_EVENT: Final = {
    f"involvedObject.{part}": ""
    for part in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
} | {"reason": "", "reportingComponent": "", "source": "", "type": ""}
FIELDS: Final[dict[str, dict[str, str]]] = {
    "pods": {
        "spec.nodeName": "",
        "spec.restartPolicy": "",
        "spec.schedulerName": "",
        "spec.serviceAccountName": "",
        "spec.hostNetwork": "false",
        "status.phase": "",
        "status.podIP": "",
        "status.podIPs": "",
        "status.nominatedNodeName": "",
    },
    "nodes": {"spec.unschedulable": "false"},
    "namespaces": {"status.phase": "", "name": ""},
    "secrets": {"type": ""},
    "services": {"spec.clusterIP": "", "spec.type": ""},
    "replicationcontrollers": {"status.replicas": "0"},
    "jobs.batch": {"status.successful": "0"},
    "events": _EVENT,
    "events.events.k8s.io": _EVENT,
}


def parse_fields(
    text: str, resource: str, extra: tuple[str, ...] = (), *, custom: bool = False
) -> FieldSelector:
    """Read ``a.b=c,d!=e`` for a resource. Raises StatusError 400 for a field it is not selected by."""
    known = _COMMON | FIELDS.get(resource, {}) | {path.lstrip("."): "" for path in extra}
    terms: list[tuple[FieldTerm, Callable[[JSON], str]]] = []
    for part in text.split(","):
        if not part.strip():
            continue
        match = re.fullmatch(r"(.*?)(!=|==|=)(.*)", part.strip())
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        path, op, value = match.groups()
        if path not in known:
            raise _no_field(path, resource, custom=custom)
        terms.append((FieldTerm(path, value, op != "!="), _reader(resource, path, known[path])))
    return FieldSelector(tuple(terms))


def _no_field(path: str, resource: str, *, custom: bool) -> StatusError:
    """Each kind that can be selected by more fields than every kind has words of its own."""
    if resource == "jobs.batch":
        return bad_request(f'field label "{path}" not supported for Job')
    if resource in FIELDS or custom:
        return bad_request(f"field label not supported: {path}")
    return bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def _reader(resource: str, path: str, default: str) -> Callable[[JSON], str]:
    if resource == "namespaces" and path == "name":
        return reader("metadata.name")
    if path == "source":
        component, reporting = reader("source.component"), reader("reportingComponent")
        return lambda obj: component(obj) or reporting(obj)
    return reader(path, default)
