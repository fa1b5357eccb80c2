"""Generates the contracts' documents and refuses a change that old readers could not read.

``python -m shared.events.schemas`` writes ``docs/contracts/``: a JSON Schema (2020-12) for each event
and an AsyncAPI 3.0 document for the topics. ``--check`` fails when they are stale, or when
a reader of the last release (``docs/contracts/released``) could not read what is written now;
``--release`` makes the present schemas those of the last release.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

import yaml

from shared.events.compatibility import Schema, incompatibilities
from shared.events.contracts import EVENTS, Contract
from shared.events.topics import TOPICS, dead_letter

HOME: Final = Path(__file__).resolve().parents[2] / "docs" / "contracts"
BASELINE: Final = HOME / "released"
"""The schemas of the last release: what readers in the field know."""


def schema(event: type[Contract]) -> Schema:
    """Return an event's JSON Schema, as a writer's promise."""
    made = event.model_json_schema(by_alias=True, mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:pumice:{event.TYPE}",
    } | made


def asyncapi() -> Schema:
    """Return the AsyncAPI 3.0 document of all topics."""
    channels: Schema = {}
    operations: Schema = {}
    for name, topic in TOPICS.items():
        channels[name] = {
            "address": name,
            "description": f"{topic.says} Key: {topic.key}. Unreadable records go to `{dead_letter(name)}`.",
            "messages": {
                event.__name__: {"$ref": f"#/components/messages/{event.__name__}"} for event in topic.events
            },
            "bindings": {
                "kafka": {
                    "partitions": topic.spec.partitions,
                    "topicConfiguration": _kafka(topic.spec.cleanup.value, topic.spec.retention_ms),
                }
            },
        }
        for writer in topic.writers:
            operations[f"{writer.replace(' ', '-')}-writes-{name}"] = {
                "action": "send",
                "channel": {"$ref": f"#/channels/{name}"},
                "summary": f"{writer}: {topic.says}",
            }
    messages = {
        event.__name__: {
            "name": event.TYPE,
            "title": event.__name__,
            "summary": (event.__doc__ or "").strip().splitlines()[0],
            "contentType": "application/json",
            "headers": {"$ref": "#/components/schemas/CloudEventHeaders"},
            "payload": {"$ref": f"./{event.TYPE}.json"},
            "bindings": {"kafka": {"key": {"type": "string"}}},
        }
        for event in EVENTS.values()
    }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Pumice topics",
            "version": "1.0.0",
            "description": "CloudEvents 1.0 in Kafka's binary mode, with W3C trace context.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages, "schemas": {"CloudEventHeaders": _HEADERS}},
    }


_HEADERS: Final[Schema] = {
    "type": "object",
    "required": ["ce_specversion", "ce_id", "ce_source", "ce_type"],
    "properties": {
        "ce_specversion": {"const": "1.0"},
        "ce_id": {"type": "string"},
        "ce_source": {"type": "string", "format": "uri-reference"},
        "ce_type": {"type": "string"},
        "ce_time": {"type": "string", "format": "date-time"},
        "ce_subject": {"type": "string"},
        "traceparent": {"type": "string", "pattern": "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"},
        "tracestate": {"type": "string"},
    },
}


def _kafka(cleanup: str, retention_ms: int | None) -> Schema:
    settings: Schema = {"cleanup.policy": [cleanup]}
    if retention_ms is not None:
        settings["retention.ms"] = retention_ms
    return settings


def documents() -> dict[str, str]:
    """Return each generated file's text by its name under ``docs/contracts``."""
    files = {f"{kind}.json": json.dumps(schema(event), indent=2) + "\n" for kind, event in EVENTS.items()}
    files["asyncapi.yaml"] = yaml.safe_dump(asyncapi(), sort_keys=False, width=110)
    return files


def stale() -> list[str]:
    """Return the names of generated files that differ from what is on disk."""
    return [name for name, text in documents().items() if not _same(HOME / name, text)]


def _same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def incompatible_changes(released: Path = BASELINE) -> list[str]:
    """Return every change since ``released`` that old readers could not read."""
    problems: list[str] = []
    for path in sorted(released.glob("*.json")):
        kind = path.stem
        old = json.loads(path.read_text(encoding="utf-8"))
        if kind not in EVENTS:
            problems.append(f"{kind}: the event is gone")
            continue
        problems += [f"{kind}: {problem}" for problem in incompatibilities(old, schema(EVENTS[kind]))]
    return problems


def main() -> int:
    """Write the documents, or check them."""
    parser = argparse.ArgumentParser(prog="python -m shared.events.schemas", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when stale or incompatible")
    parser.add_argument(
        "--release", action="store_true", help="also make these the schemas of the last release"
    )
    arguments = parser.parse_args()
    problems = incompatible_changes()
    if arguments.check:
        problems += [f"docs/contracts/{name} is stale" for name in stale()]
    for problem in problems:
        sys.stderr.write(problem + "\n")
    if problems:
        return 1
    if not arguments.check:
        for name, text in documents().items():
            homes = (HOME, BASELINE) if arguments.release and name.endswith(".json") else (HOME,)
            for home in homes:
                home.mkdir(parents=True, exist_ok=True)
                (home / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
