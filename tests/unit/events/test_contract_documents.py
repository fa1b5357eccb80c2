"""The generated documents are fresh, and a change that old readers cannot read is refused."""

from __future__ import annotations

from typing import Any

import pytest

from shared.events.compatibility import incompatibilities
from shared.events.contracts import EVENTS
from shared.events.schemas import asyncapi, incompatible_changes, schema, stale
from shared.events.topics import SPECS, TOPICS, dead_letter, parse_state_key, state_key


def test_the_documents_are_fresh():
    assert stale() == [], "run: python -m shared.events.schemas"


def test_no_change_since_the_last_release_breaks_its_readers():
    assert incompatible_changes() == []


def test_every_event_has_a_topic_and_every_topic_a_dead_letter_topic():
    on_topics = {event.TYPE for topic in TOPICS.values() for event in topic.events}
    assert on_topics == set(EVENTS)
    names = {spec.name for spec in SPECS}
    assert {dead_letter(name) for name in TOPICS} <= names


def test_asyncapi_names_every_topic_and_only_messages_that_exist():
    document = asyncapi()
    assert set(document["channels"]) == set(TOPICS)
    messages = document["components"]["messages"]
    for channel in document["channels"].values():
        for reference in channel["messages"].values():
            assert reference["$ref"].rsplit("/", 1)[1] in messages


def test_state_keys_are_read_back():
    assert parse_state_key(state_key("pod", "ns", "p-0")) == ("pod", "ns", "p-0")
    assert parse_state_key(state_key("node", "", "n1")) == ("node", "", "n1")


OLD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 63},
        "count": {"type": "integer", "minimum": 0},
        "mode": {"enum": ["a", "b"], "type": "string"},
        "node": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
    },
    "required": ["name"],
    "$defs": {"Part": {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}},
}


def changed(**fields: Any) -> dict[str, Any]:
    return OLD | {"properties": OLD["properties"] | fields}


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (changed(extra={"type": "string"}), None),
        (changed(mode={"enum": ["a"], "type": "string"}), None),
        (changed(count={"type": "integer", "minimum": 1}), None),
        (changed(node={"type": "string"}), None),
        (changed(mode={"enum": ["a", "b", "c"], "type": "string"}), "mode: values ['c'] are new"),
        (changed(count={"type": "integer"}), "count: minimum 0 became unbounded"),
        (changed(count={"type": "string"}), "count: type integer became string"),
        (changed(name={"type": "string", "maxLength": 253}), "name: maxLength 63 became 253"),
        (
            changed(node={"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            "node: type string became integer",
        ),
        (
            {**OLD, "properties": {k: v for k, v in OLD["properties"].items() if k != "count"}},
            "count: is gone",
        ),
        ({**OLD, "required": []}, "name: was required, so readers count on it"),
        ({**OLD, "required": ["name", "count"]}, "count: is newly required, but records on the log lack it"),
        (
            {
                **OLD,
                "$defs": {
                    "Part": {
                        "type": "object",
                        "properties": {"size": {"type": "number"}},
                        "required": ["size"],
                    }
                },
            },
            "parts[].size: type integer became number",
        ),
    ],
)
def test_a_change_is_allowed_when_old_readers_and_old_records_stay_readable(
    new: dict[str, Any], problem: str | None
):
    assert incompatibilities(OLD, new) == ([problem] if problem else [])


@pytest.mark.parametrize("event", EVENTS.values(), ids=lambda event: event.__name__)
def test_an_event_is_compatible_with_itself(event):
    assert incompatibilities(schema(event), schema(event)) == []
