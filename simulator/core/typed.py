"""Decoding of built-in kinds as typed values: as Go reads them into structs and writes them again.

Unknown fields fall away, wrong types are refused, zero values that Go omits are dropped and those that it
writes appear (``status: {}``, ``creationTimestamp: null``), quantities come out in canonical form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from shared.api.quantity import Quantity
from simulator.core.errors import StatusError, bad_request
from simulator.types import Field, Structs, flat

JSON = dict[str, Any]
Coder = Callable[[Any], Any]

_PYTHON: Final[dict[str, type]] = {"string": str, "int32": int, "int64": int, "bool": bool, "float64": float}
_ZERO: Final[dict[str, Any]] = {
    "string": "",
    "int32": 0,
    "int64": 0,
    "bool": False,
    "float64": 0,
    "quantity": "0",
    "intorstring": 0,
}
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?P<fraction>\.\d+)?(?P<zone>Z|[+-]\d\d:\d\d)")
_MISSING: Final = object()
_METADATA: Final = "meta/v1.ObjectMeta"


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


def _scalar(type_: str) -> Coder:
    python = _PYTHON[type_]

    def code(value: Any) -> Any:
        if type(value) is python or (python is float and type(value) is int):
            return value
        if python is int and type(value) is float:
            raise WrongType(f"number {value}", type_)
        raise WrongType(_json_type(value), type_)

    return code


@lru_cache(maxsize=65536)
def canonical(value: str | float) -> str:
    """Return a quantity in canonical form. Raises ValueError."""
    return str(Quantity.parse(value))


def _quantity(value: Any) -> Any:
    try:
        return canonical(value)
    except (ValueError, TypeError):
        raise WrongType("quantity", str(value)) from None


def _time(value: Any) -> Any:
    if type(value) is not str:
        raise WrongType("time", f"{_json_type(value)}")
    match = _DATE.fullmatch(value)
    if match is None:
        raise WrongType("time", value)
    if match["zone"] == "Z" and not match["fraction"]:
        return value
    return datetime.fromisoformat(value).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: Any) -> Any:
    match = _DATE.fullmatch(value) if type(value) is str else None
    if match is None or len(match["fraction"] or "") != 7:  # noqa: PLR2004
        raise WrongType("microtime", str(value))
    return datetime.fromisoformat(value).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _any(value: Any) -> Any:
    return value


_SPECIAL: Final[dict[str, Coder]] = {
    "quantity": _quantity,
    "time": _time,
    "microtime": _micro_time,
    "intorstring": _any,
    "any": _any,
    "bytes": _scalar("string"),
}


def _list(item: Coder, go: str, zero: Any) -> Coder:
    def code(value: Any) -> Any:
        if type(value) is not list:
            raise WrongType(_json_type(value), go)
        return [item(one) if one is not None else zero for one in value]

    return code


def _map(item: Coder, go: str, zero: Any) -> Coder:
    def code(value: Any) -> Any:
        if type(value) is not dict:
            raise WrongType(_json_type(value), go)
        return {key: item(one) if one is not None else zero for key, one in value.items()}

    return code


def go_name(type_: str) -> str:
    """Write a type as Go's error messages do: ``[]v1.Container``."""
    return re.sub(r"\w+/(v\d\w*\.)", r"\1", type_).replace("quantity", "resource.Quantity")


class Types:
    """Compiled coders of all structs; compiled on first use."""

    def __init__(self, structs: Structs) -> None:
        self.structs = structs
        self._flat: dict[str, dict[str, Field]] = {}
        self._coders: dict[str, Coder] = {}
        self._unknown = False

    def fields(self, name: str) -> dict[str, Field]:
        """Return the JSON fields of a struct, embedded ones among them."""
        found = self._flat.get(name)
        if found is None:
            found = self._flat[name] = flat(self.structs, name)
        return found

    def decode(self, type_name: str, api_version: str, kind: str, body: JSON) -> tuple[JSON, list[str]]:
        """Return a private typed copy and the paths of unknown fields. Raises StatusError 400."""
        coder = self._struct(type_name)
        self._unknown = False
        try:
            obj = coder(body)
        except WrongType as error:
            raise _refusal(error, api_version, kind) from None
        unknown = self.unknown_fields(type_name, body) if self._unknown else []
        obj.pop("kind", None)
        obj.pop("apiVersion", None)
        return {"kind": kind, "apiVersion": api_version, "metadata": obj.pop("metadata"), **obj}, unknown

    def metadata(self, api_version: str, kind: str, meta: Any) -> tuple[JSON, list[str]]:
        """Return a private typed copy of an object's metadata and its unknown fields.

        Raises StatusError 400.
        """
        coder = self._struct(_METADATA)
        self._unknown = False
        try:
            decoded: JSON = coder(meta)
        except WrongType as error:
            raise _refusal(error, api_version, kind) from None
        return decoded, self.unknown_fields(_METADATA, meta, "metadata") if self._unknown else []

    def unknown_fields(self, type_: str, value: Any, path: str = "") -> list[str]:
        """Return the paths of all fields that the type does not have."""
        type_ = type_.removeprefix("*")
        if type_.startswith("[]") and isinstance(value, list):
            return [
                p
                for at, one in enumerate(value)
                for p in self.unknown_fields(type_[2:], one, f"{path}[{at}]")
            ]
        if type_.startswith("map[string]") and isinstance(value, dict):
            return [
                p for key, one in value.items() for p in self.unknown_fields(type_[11:], one, f"{path}.{key}")
            ]
        if type_ not in self.structs or not isinstance(value, dict):
            return []
        found: list[str] = []
        fields = self.fields(type_)
        for key, one in value.items():
            below = f"{path}.{key}" if path else key
            if key in fields:
                found += self.unknown_fields(fields[key].type, one, below)
            else:
                found.append(below)
        return found

    def _struct(self, name: str) -> Coder:  # noqa: C901 - one closure, the hot path of every write
        found = self._coders.get(name)
        if found is not None:
            return found
        plan: dict[str, tuple[Coder, Any, type | None]] = {}
        absent: list[tuple[str, Coder | None, Any]] = []

        def code(value: Any) -> Any:
            if type(value) is not dict:
                raise WrongType(_json_type(value), go_name(name))
            out: JSON = {}
            for key, one in value.items():
                step = plan.get(key)
                if step is None:
                    self._unknown = True
                    continue
                if one is None:
                    continue
                coder, dropped, scalar = step
                if type(one) is scalar:
                    coded = one
                else:
                    try:
                        coded = coder(one)
                    except WrongType as error:
                        error.path.append(key)
                        error.struct = error.struct or name
                        raise
                if coded != dropped:
                    out[key] = coded
            for key, maker, zero in absent:
                if key not in out:
                    out[key] = maker({}) if maker is not None else zero
            return out

        self._coders[name] = code  # before the fields: types may refer to themselves
        for key, field in self.fields(name).items():
            scalar = _PYTHON.get(field.type.removeprefix("*"))
            plan[key] = (self._coder(field.type), self._dropped(field), scalar)
            if (zero := self._zero(field)) is not None:
                absent.append((key, *zero))
        return code

    def _dropped(self, field: Field) -> Any:
        """Return the value that is not written, or a mark that nothing equals."""
        if not field.omitempty and not field.omitzero:
            return _MISSING
        if field.type.startswith("[]"):
            return []
        if field.type.startswith("map["):
            return {}
        if field.type == "bytes":
            return ""
        return _ZERO.get(field.type, _MISSING) if field.type in _PYTHON else _MISSING

    def _zero(self, field: Field) -> tuple[Coder | None, Any] | None:
        """Return how an absent field is written: by a maker or as a value. None: not at all."""
        type_ = field.type
        if field.inner in self.structs and type_ == field.inner:
            return None if field.omitzero else (self._struct(type_), None)
        if type_ in ("time", "microtime", "any"):
            return None if field.omitzero or (type_ == "any" and field.omitempty) else (None, None)
        if type_ in ("quantity", "intorstring"):
            return None if field.omitzero else (None, _ZERO[type_])
        if field.omitempty:
            return None
        return (None, _ZERO.get(type_))

    def _coder(self, type_: str) -> Coder:
        if type_.startswith("*"):
            return self._coder(type_[1:])
        for prefix, maker in (("[]", _list), ("map[string]", _map)):
            if type_.startswith(prefix):
                inner = type_[len(prefix) :]
                zero: Any = {} if inner in self.structs else _ZERO.get(inner)
                return maker(self._coder(inner), go_name(type_), zero)
        if type_ in _PYTHON:
            return _scalar(type_)
        if type_ in self.structs:
            return self._struct(type_)
        return _SPECIAL[type_]


def _refusal(error: WrongType, api_version: str, kind: str) -> StatusError:
    path = ".".join(reversed(error.path))
    version = api_version.rpartition("/")[2]
    prefix = f'{kind} in version "{version}" cannot be handled as a {kind}: '
    if error.found == "quantity":
        pattern = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        return bad_request(f"{prefix}quantities must match the regular expression '{pattern}'")
    if error.found == "microtime":
        layout = "2006-01-02T15:04:05.000000Z07:00"
        rest = re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "", error.wanted)
        wanted = ".000000" if rest != error.wanted else "2006"
        return bad_request(
            f'{prefix}parsing time "{error.wanted}" as "{layout}": cannot parse "{rest}" as "{wanted}"'
        )
    if error.found == "time":
        words = f'as "2006-01-02T15:04:05Z07:00": cannot parse "{error.wanted}" as "2006"'
        return bad_request(f'{prefix}parsing time "{error.wanted}" {words}')
    struct = error.struct.rpartition(".")[2]
    field = f"Go struct field {struct}.{path} of type {error.wanted}"
    return bad_request(f"{prefix}json: cannot unmarshal {error.found} into {field}")
