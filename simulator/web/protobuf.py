r"""Bodies in Kubernetes' protobuf form, as ``kubectl create`` sends them: read, never written.

A body is the magic ``k8s\0`` and a ``runtime.Unknown`` message, whose ``raw`` holds the object by the field
numbers of its Go type. Answers are JSON, which every client that sends this form accepts too.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from simulator.core.errors import bad_request
from simulator.types import Field, Structs

JSON = dict[str, Any]

MEDIA: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"


def read(structs: Structs, body: bytes) -> JSON:
    """Return the object of a body. Raises StatusError 400."""
    if not body.startswith(_MAGIC):
        raise bad_request(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    try:
        unknown = dict(_fields(body[4:]))
        meta = {number: value.decode() for number, value in _fields(unknown.get(1, b""))}
        api_version, kind = meta.get(1, ""), meta.get(2, "")
        return {
            "apiVersion": api_version,
            "kind": kind,
            **_message(structs, _type(structs, api_version, kind), unknown.get(2, b"")),
        }
    except (IndexError, ValueError, KeyError, AttributeError, struct.error) as error:
        raise bad_request(f"unable to decode protobuf: {error}") from None


def _type(structs: Structs, api_version: str, kind: str) -> str:
    if kind == "DeleteOptions":
        return "meta/v1.DeleteOptions"
    group = api_version.rpartition("/")[0].partition(".")[0] or "core"
    name = f"{group}/v1.{kind}"
    if name not in structs:
        raise bad_request(f'no kind "{kind}" is registered for version "{api_version}"')
    return name


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (field number, value): an int, or the bytes of a text or message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 1:
            yield number, struct.unpack_from("<d", data, at)[0]
            at += 8
        elif wire == 2:  # noqa: PLR2004
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("unexpected EOF")
            yield number, data[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {wire}")


def _message(structs: Structs, name: str, data: bytes) -> JSON:
    numbered: dict[int, tuple[str, Field]] = {
        field.number: (key, field) for key, field in structs[name].items()
    }
    out: JSON = {}
    for number, value in _fields(data):
        key, field = numbered.get(number, ("", None))
        if field is None:
            continue
        if field.inline:
            out |= _message(structs, field.inner, value)
            continue
        type_ = field.type.removeprefix("*")
        if type_.startswith("[]"):
            out.setdefault(key, []).append(_value(structs, type_[2:], value))
        elif type_.startswith("map[string]"):
            entry = dict(_fields(value))
            out.setdefault(key, {})[entry.get(1, b"").decode()] = _value(
                structs, type_[11:], entry.get(2, b"")
            )
        else:
            out[key] = _value(structs, type_, value)
    return out


def _value(structs: Structs, type_: str, value: Any) -> Any:
    reader = _READERS.get(type_)
    return reader(value) if reader is not None else _message(structs, type_, value)


def _integer(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _quantity(value: bytes) -> str:
    return str(dict(_fields(value)).get(1, b"").decode())


def _int_or_string(value: bytes) -> int | str:
    parts = dict(_fields(value))
    return str(parts.get(3, b"").decode()) if parts.get(1) else int(parts.get(2, 0))


def _raw(value: bytes) -> Any:
    found = dict(_fields(value)).get(1)
    return orjson.loads(found) if found else None


def _time(value: bytes, *, micro: bool) -> str | None:
    parts = dict(_fields(value))
    if not parts:
        return None
    moment = datetime.fromtimestamp(parts.get(1, 0), UTC)
    if micro:
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{parts.get(2, 0) // 1000:06d}Z"
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "string": bytes.decode,
    "int32": _integer,
    "int64": _integer,
    "bool": bool,
    "float64": float,
    "bytes": _bytes,
    "quantity": _quantity,
    "time": lambda value: _time(value, micro=False),
    "microtime": lambda value: _time(value, micro=True),
    "intorstring": _int_or_string,
    "any": _raw,
}
