"""Decoding of built-in kinds as typed values: unknown fields fall away, wrong types are refused.

Equivalent to Go's decoding into structs and encoding them again, as far as a client can see it: null and
empty values that Go omits are dropped, quantities come out in canonical form. Which zero values are kept
depends on pointers in the Go types, which no published schema tells; :data:`OMITTED_ZEROS` and
:data:`KEPT_EMPTY` name the exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from shared.api.quantity import Quantity
from simulator.core.errors import StatusError, bad_request

JSON = dict[str, Any]
Coder = Callable[[Any], Any]

OMITTED_ZEROS: Final = frozenset(
    "hostNetwork hostPID hostIPC readOnly stdin stdinOnce tty unschedulable publishNotReadyAddresses paused "
    "hostPort initialDelaySeconds minReadySeconds nodePort observedGeneration readyReplicas availableReplicas "
    "updatedReplicas unavailableReplicas fullyLabeledReplicas healthCheckNodePort active succeeded failed".split()
)
KEPT_EMPTY: Final = frozenset(
    "storageClassName ingressClassName containers verbs".split()
)
QUANTITY_MAPS: Final = frozenset(
    "limits requests capacity allocatable hard used overhead min max default defaultRequest "
    "maxLimitRequestRatio allocatedResources".split()
)
QUANTITIES: Final = frozenset({"sizeLimit", "divisor"})
_GO: Final = {"str": "string", "int": "int32", "bool": "bool", "float": "float64"}
_DATE: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?P<fraction>\.\d+)?(?P<zone>Z|[+-]\d\d:\d\d)"
)


class _Drop:
    """The mark of a value that is left out."""


DROP: Final = _Drop()


class WrongType(Exception):  # noqa: N818 - internal, becomes a 400
    """A JSON value of the wrong type. ``path`` grows from the inside out."""

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__()
        self.found = found
        self.wanted = wanted
        self.path: list[str] = []
        self.struct = ""


def _json_type(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _scalar(python: type, go: str, *, keep_empty: bool) -> Coder:
    def code(value: Any) -> Any:  # noqa: ANN401
        if type(value) is python:
            return value if value or keep_empty else DROP
        if python is float and type(value) is int:
            return value
        raise WrongType(_json_type(value), go)

    return code


@lru_cache(maxsize=65536)
def canonical(value: str | float) -> str:
    """Return a quantity in canonical form. Raises ValueError."""
    return str(Quantity.parse(value))


def _quantity(value: Any) -> Any:  # noqa: ANN401
    try:
        return canonical(value)
    except (ValueError, TypeError):
        raise WrongType("quantity", str(value)) from None


def _time(micro: bool) -> Coder:  # noqa: FBT001
    def code(value: Any) -> Any:  # noqa: ANN401
        if type(value) is not str:
            raise WrongType(_json_type(value), "string")
        match = _DATE.fullmatch(value)
        if match is None:
            raise WrongType("time", value)
        return value if micro or (match["zone"] == "Z" and not match["fraction"]) else _utc(value)

    return code


def _utc(text: str) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415

    moment = datetime.fromisoformat(text).astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _any(value: Any) -> Any:  # noqa: ANN401
    return value


def _list(item: Coder, go: str) -> Coder:
    def code(value: Any) -> Any:  # noqa: ANN401
        if type(value) is not list:
            raise WrongType(_json_type(value), go)
        if not value:
            return DROP
        out = []
        for one in value:
            coded = item(one) if one is not None else {}
            out.append("" if coded is DROP else coded)
        return out

    return code


def _map(item: Coder, go: str) -> Coder:
    def code(value: Any) -> Any:  # noqa: ANN401
        if type(value) is not dict:
            raise WrongType(_json_type(value), go)
        if not value:
            return DROP
        out: JSON = {}
        for key, one in value.items():
            coded = item(one) if one is not None else ""
            out[key] = "" if coded is DROP else coded
        return out

    return code


class Types:
    """Compiled coders of all structs; compiled on first use."""

    def __init__(self, types: Mapping[str, Mapping[str, str]]) -> None:
        self.types = types
        self._coders: dict[str, Coder] = {}
        self._unknown = False

    def decode(self, type_name: str, api_version: str, kind: str, body: JSON) -> tuple[JSON, list[str]]:
        """Return a private typed copy and the paths of unknown fields. Raises StatusError 400."""
        coder = self._struct(type_name)
        self._unknown = False
        try:
            obj = coder(body)
        except WrongType as error:
            raise _refusal(error, api_version, kind) from None
        unknown = self.unknown_fields(type_name, body) if self._unknown else []
        ordered: JSON = {"kind": kind, "apiVersion": api_version}
        obj.pop("kind", None)
        obj.pop("apiVersion", None)
        ordered["metadata"] = obj.pop("metadata", None) or {}
        ordered.update(obj)
        return ordered, unknown

    def unknown_fields(self, type_name: str, value: Any, path: str = "") -> list[str]:  # noqa: ANN401
        """Return the paths of all fields that the type does not have."""
        if isinstance(value, list):
            inner = type_name.removeprefix("list[").removesuffix("]")
            return [p for at, one in enumerate(value) for p in self.unknown_fields(inner, one, f"{path}[{at}]")]
        if type_name.startswith("map[") and isinstance(value, dict):
            inner = type_name.removeprefix("map[").removesuffix("]")
            return [p for key, one in value.items() for p in self.unknown_fields(inner, one, f"{path}.{key}")]
        if type_name not in self.types or not isinstance(value, dict):
            return []
        found: list[str] = []
        for key, one in value.items():
            below = f"{path}.{key}" if path else key
            field_type = self.types[type_name].get(key)
            if field_type is None:
                found.append(below)
            else:
                found += self.unknown_fields(field_type, one, below)
        return found

    def _struct(self, name: str) -> Coder:
        found = self._coders.get(name)
        if found is not None:
            return found
        fields: dict[str, Coder] = {}

        def code(value: Any) -> Any:  # noqa: ANN401
            if type(value) is not dict:
                raise WrongType(_json_type(value), f"v1.{name.removeprefix('V1')}")
            out: JSON = {}
            for key, one in value.items():
                coder = fields.get(key)
                if coder is None:
                    self._unknown = True
                    continue
                if one is None:
                    continue
                try:
                    coded = coder(one)
                except WrongType as error:
                    error.path.append(key)
                    error.struct = name
                    raise
                if coded is not DROP:
                    out[key] = coded
            return out

        self._coders[name] = code  # before the fields: schemas may refer to themselves
        for field, type_ in self.types[name].items():
            fields[field] = self._field(field, type_)
        return code

    def _field(self, field: str, type_: str) -> Coder:
        if type_ == "map[str]" and field in QUANTITY_MAPS:
            return _map(_quantity, "v1.ResourceList")
        if field in QUANTITIES:
            return _quantity
        if type_.startswith("list["):
            inner = type_[5:-1]
            go = f"[]v1.{inner.removeprefix('V1')}" if inner.startswith("V1") else f"[]{_GO.get(inner, inner)}"
            listed = _list(self._item(field, inner), go)
            return (lambda value: [] if value == [] else listed(value)) if field in KEPT_EMPTY else listed
        if type_.startswith("map["):
            inner = type_[4:-1]
            return _map(self._item(field, inner), f"map[string]{_GO.get(inner, inner)}")
        return self._item(field, type_)

    def _item(self, field: str, type_: str) -> Coder:
        match type_:
            case "str":
                return _scalar(str, "string", keep_empty=field in KEPT_EMPTY)
            case "int":
                return _scalar(int, "int32", keep_empty=field not in OMITTED_ZEROS)
            case "bool":
                return _scalar(bool, "bool", keep_empty=field not in OMITTED_ZEROS)
            case "float":
                return _scalar(float, "float64", keep_empty=True)
            case "datetime":
                return _time(field in ("acquireTime", "renewTime", "eventTime", "lastObservedTime"))
            case _ if type_.startswith("list["):
                return _list(self._item(field, type_[5:-1]), "[]string")
            case _ if type_ in self.types:
                return self._struct(type_)
            case _:
                return _any


def _refusal(error: WrongType, api_version: str, kind: str) -> StatusError:
    path = ".".join(reversed(error.path))
    version = api_version.rpartition("/")[2]
    prefix = f'{kind} in version "{version}" cannot be handled as a {kind}: '
    if error.found == "quantity":
        words = (
            "quantities must match the regular expression "
            r"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
        return bad_request(prefix + words)
    if error.found == "time":
        return bad_request(
            prefix + f'parsing time "{error.wanted}" as "2006-01-02T15:04:05Z07:00": cannot parse "{error.wanted}" as "2006"'
        )
    struct = error.struct.removeprefix("V1").removeprefix("Core")
    return bad_request(
        prefix + f"json: cannot unmarshal {error.found} into Go struct field {struct}.{path} of type {error.wanted}"
    )
