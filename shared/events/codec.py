"""Envelopes to records of the log and back: CloudEvents 1.0 in Kafka's binary mode.

Sources: the CloudEvents specification 1.0.2, its Kafka protocol binding (headers ``ce_*``, content
type ``application/json``) and W3C Trace Context (header ``traceparent``).

Topics that anybody writes are read generously: a binary CloudEvent, a structured one (content type
``application/cloudevents+json``), and on ``job-submitted`` a bare Job object; in JSON or YAML. What
cannot be read raises :class:`shared.errors.ContractError` with a stable reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard, cast

import orjson
import yaml
from pydantic import ValidationError

from shared.errors import ContractError
from shared.events import topics
from shared.events.contracts import EVENTS, Contract, JobSubmitted
from shared.events.envelope import Envelope
from shared.log.port import Delivery, Headers, Record

SPEC_VERSION: Final = "1.0"
JSON_TYPE: Final = "application/json"
STRUCTURED_TYPE: Final = "application/cloudevents+json"
_MOST_LEVELS: Final = 100
_MOST_VALUES: Final = 1_000_000
_REQUIRED: Final = ("id", "source", "type")
_VERSION = re.compile(r"\.v\d+$")
_VERSION_1: Final = SPEC_VERSION.encode()
_JSON: Final = JSON_TYPE.encode()
_SAME_HEADERS: Final = (("ce_specversion", _VERSION_1), ("content-type", _JSON))


def encode(
    topic: str,
    key: bytes,
    envelope: Envelope[Contract],
    *,
    partition: int | None = None,
    value: bytes | None = None,
) -> Record:
    """Return the record of an event, in CloudEvents' binary mode.

    ``value`` is what :func:`encode_data` gave for the event's data, where that is known already.
    """
    headers: list[tuple[str, bytes]] = [
        *_SAME_HEADERS,
        ("ce_id", envelope.id.encode()),
        ("ce_source", envelope.source.encode()),
        ("ce_type", envelope.type.encode()),
        ("ce_time", _format_time(envelope.time).encode()),
    ]
    if envelope.subject is not None:
        headers.append(("ce_subject", envelope.subject.encode()))
    if envelope.traceparent is not None:
        headers.append(("traceparent", envelope.traceparent.encode()))
    if envelope.tracestate is not None:
        headers.append(("tracestate", envelope.tracestate.encode()))
    if value is None:
        value = encode_data(envelope.data)
    return Record(topic, key, value, tuple(headers), partition)


def encode_data(data: Contract) -> bytes:
    """Return an event's data as JSON; fields with their default are left out."""
    return data.model_dump_json(by_alias=True, exclude_defaults=True).encode()


def decode(delivery: Delivery) -> Envelope[Contract]:
    """Return the event of a record that has a value.

    Raises:
        ContractError: ``no-value``, ``not-json-or-yaml``, ``not-a-cloudevent``, ``unknown-contract-version``,
            ``unknown-event-type``, ``wrong-topic``, ``not-a-job``, ``invalid-data``, ``invalid-timestamp``,
            or one of :func:`parse`.
    """
    if delivery.value is None:
        raise ContractError("no-value", f"a record without a value on {delivery.topic}")
    headers = _texts(delivery.headers)
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if "ce_type" in headers:
        data = delivery.value if content_type in ("", JSON_TYPE) else parse(delivery.value)
        return _from_attributes(headers, data, delivery, headers, prefix="ce_")
    content = parse(delivery.value)
    if content_type.startswith("application/cloudevents") or _looks_structured(content):
        if not isinstance(content, dict):
            raise ContractError("not-a-cloudevent", "a structured CloudEvent must be an object")
        return _from_attributes(content, content.get("data"), delivery, headers)
    if delivery.topic == topics.JOB_SUBMITTED:
        return _bare_job(content, delivery, headers)
    raise ContractError("not-a-cloudevent", "no ce_type header and not a structured CloudEvent")


def data_of(delivery: Delivery) -> Contract:
    """Return the data alone of a record that has a value: all that a reader of states wants to know.

    Raises as :func:`decode`, but a time that is none is no matter in a record such as :func:`encode` makes.
    """
    headers = dict(delivery.headers)
    kind, value = headers.get("ce_type"), delivery.value
    ours = headers.get("content-type") == _JSON and headers.get("ce_specversion") == _VERSION_1
    if value is None or kind is None or not ours or "ce_id" not in headers or "ce_source" not in headers:
        return decode(delivery).data
    name = kind.decode("utf-8", "replace")
    return _read(_event_class(name, delivery.topic), value, name)


def written_at(delivery: Delivery) -> datetime:
    """Return when a record was written, as its producer says. Raises ContractError (invalid-timestamp)."""
    try:
        return datetime.fromtimestamp(delivery.timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError) as error:
        text = f"the record's timestamp is no time in milliseconds: {delivery.timestamp_ms}"
        raise ContractError("invalid-timestamp", text) from error


def parse(value: bytes, *, json_only: bool = False) -> Any:
    """Return the content of JSON or YAML text (one document).

    Raises:
        ContractError: ``not-json-or-yaml``; ``too-deep`` over 100 levels and for YAML that contains itself;
            ``too-large`` for YAML whose aliases unfold to more than a million values.
    """
    try:
        content = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        if json_only:
            raise ContractError("not-json-or-yaml", f"not JSON: {error}") from error
        content = _parse_yaml(value, str(error))
        _measure(content, 1, {})
    else:
        # JSON has no more values than bytes, and no more levels than opening brackets.
        if len(value) > _MOST_VALUES or value.count(b"{") + value.count(b"[") > _MOST_LEVELS:
            _measure(content, 1, {})
    return content


def _parse_yaml(value: bytes, json_problem: str) -> dict[str, Any]:
    try:
        content = yaml.load(value, Loader=_JSON_LOADER)  # noqa: S506 - a safe loader without timestamps
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise ContractError(
            "not-json-or-yaml", f"neither JSON ({json_problem}) nor YAML ({problem})"
        ) from error
    if not isinstance(content, dict):
        raise ContractError("not-json-or-yaml", f"a {type(content).__name__} instead of an object")
    return content


def _measure(node: Any, level: int, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return to how many values, and how many levels, ``node`` unfolds; what aliases share is walked once."""
    if not isinstance(node, (dict, list)):
        return 1, 0
    size, height = known.get(id(node), (0, 0))
    if level + height > _MOST_LEVELS:
        raise ContractError("too-deep", f"nested over {_MOST_LEVELS} levels")
    if not size:
        size = 1
        for child in node.values() if isinstance(node, dict) else node:
            below = _measure(child, level + 1, known)
            size, height = size + below[0], max(height, below[1] + 1)
        known[id(node)] = size, height
    if size > _MOST_VALUES:
        raise ContractError("too-large", f"over {_MOST_VALUES} values")
    return size, height


class _JSON_LOADER(yaml.CSafeLoader):  # noqa: N801 - used as a constant
    """YAML as Kubernetes reads it: what is not JSON (timestamps) stays text."""


_JSON_LOADER.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _texts(headers: Headers) -> dict[str, str]:
    return {name.lower(): value.decode("utf-8", "replace") for name, value in headers}


def _looks_structured(content: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(content, dict) and "specversion" in content and "type" in content


def _from_attributes(
    attributes: Mapping[str, Any],
    data: Any,
    delivery: Delivery,
    headers: Mapping[str, str],
    *,
    prefix: str = "",
) -> Envelope[Contract]:
    """Return the event; ``prefix`` is what the names of ``attributes`` begin with."""
    get = cast("Callable[[str], Any]", attributes.get)
    missing = [name for name in _REQUIRED if not isinstance(get(prefix + name), str)]
    if missing or get(prefix + "specversion") != SPEC_VERSION:
        problem = f"missing {', '.join(missing)}" if missing else f"specversion is not {SPEC_VERSION}"
        raise ContractError("not-a-cloudevent", f"CloudEvents attributes: {problem}")
    kind = get(prefix + "type")
    event = _event_class(kind, delivery.topic)
    return Envelope(
        id=get(prefix + "id"),
        source=get(prefix + "source"),
        time=_time(get(prefix + "time"), delivery),
        subject=get(prefix + "subject"),
        data=_read(event, data, kind),
        traceparent=headers.get("traceparent") or _text(get(prefix + "traceparent")),
        tracestate=headers.get("tracestate") or _text(get(prefix + "tracestate")),
    )


def _event_class(kind: str, topic: str) -> type[Contract]:
    event = EVENTS.get(kind)
    home = topics.TOPICS.get(topic)
    if event is None:
        family = _VERSION.sub("", kind)
        known = [name for name in EVENTS if _VERSION.sub("", name) == family]
        if known:
            raise ContractError(
                "unknown-contract-version", f"{kind} is unknown here; known: {', '.join(known)}"
            )
        taken = ", ".join(one.TYPE for one in home.events) if home is not None else "none"
        raise ContractError("unknown-event-type", f"{kind} is no event of ours; {topic} takes {taken}")
    if home is not None and event not in home.events:
        raise ContractError("wrong-topic", f"{kind} does not belong on {topic}")
    return event


def _read(event: type[Contract], data: Any, kind: str) -> Contract:
    try:
        if isinstance(data, bytes):
            if event is not JobSubmitted:
                return event.model_validate_json(data)
            data = parse(data)
        if event is JobSubmitted and isinstance(data, dict) and "job" not in data and "kind" in data:
            data = {"job": data}
        return event.model_validate(data)
    except ValidationError as error:
        raise ContractError("invalid-data", f"data of {kind}: {_problems(error)}") from error


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'value'}: {problem['msg']}"
        for problem in error.errors()[:10]
    )


def _bare_job(content: Any, delivery: Delivery, headers: Mapping[str, str]) -> Envelope[Contract]:
    """Wrap a bare Job; its identity is its place in the log, so a re-read is the same submission."""
    if not isinstance(content, dict) or not isinstance(content.get("kind"), str):
        raise ContractError("not-a-job", "neither a CloudEvent nor an object with apiVersion and kind")
    return Envelope(
        id=f"{delivery.topic}-{delivery.partition}-{delivery.offset}",
        source=f"/log/{delivery.topic}",
        time=written_at(delivery),
        data=JobSubmitted(job=content),
        traceparent=headers.get("traceparent"),
        tracestate=headers.get("tracestate"),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _format_time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _time(value: Any, delivery: Delivery) -> datetime:
    if not isinstance(value, str):
        return written_at(delivery)
    try:
        time = datetime.fromisoformat(value)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise ContractError("not-a-cloudevent", f"time is not RFC 3339: {value!r}") from error
