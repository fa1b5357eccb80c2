"""Reference pages made from the code, so that they cannot differ from it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, Final

from pydantic.fields import FieldInfo

from services.standalone.options import SERVICES
from shared.events.contracts import EVENTS
from shared.events.topics import TOPICS, dead_letter
from shared.settings import CommonSettings

_MADE: Final = "<!-- Made by `make generate`; edit the code instead. -->\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; bars inside cells are escaped."""
    lines = [list(head)]
    lines.append(["---"] * len(lines[0]))
    lines += [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def topics() -> str:
    """Return the page of topics and events."""
    rows = (
        (
            f"`{name}`",
            topic.key,
            ", ".join(topic.writers),
            topic.says,
            topic.spec.cleanup.value,
            str(topic.spec.partitions),
            ", ".join(f"[{event.__name__}](../contracts/{event.TYPE}.json)" for event in topic.events),
        )
        for name, topic in TOPICS.items()
    )
    events = (
        (event.__name__, f"`{kind}`", (event.__doc__ or "").strip().splitlines()[0])
        for kind, event in EVENTS.items()
    )
    return (
        f"{_MADE}\n# Topics and events\n\n"
        "Records are CloudEvents 1.0 in Kafka's binary mode with `traceparent` in the headers. Partitions are those at\n"
        f"creation. What cannot be read goes to the topic's dead-letter topic (`{dead_letter('job-submitted')}`) as it "
        "was,\nwith `dead_letter_reason`, `_message`, `_service`, `_topic`, `_partition` and `_offset` in the headers.\n"
        "The whole as an AsyncAPI document: [asyncapi.yaml](../contracts/asyncapi.yaml).\n\n"
        + table(("topic", "key", "written by", "says", "cleanup", "partitions", "events"), rows)
        + "\n## Events\n\n"
        + table(("event", "type", "means"), events)
    )


def settings() -> str:
    """Return the page of settings, for each service its own."""
    pages = [
        f"{_MADE}\n# Settings\n\n"
        "Each is an environment variable (`PUMICE_` and the name in capitals) or a key in the file named by\n"
        "`PUMICE_CONFIG`; the variable wins. `pumice up --config FILE` takes one section a service.\n\n"
        "## Every service\n\n" + _settings_table(CommonSettings.model_fields)
    ]
    for name in SERVICES:
        kind = settings_class(name)
        own = {
            field: info
            for field, info in kind.model_fields.items()
            if field not in CommonSettings.model_fields
        }
        pages.append(f"\n## {name}\n\n" + (_settings_table(own) if own else "None of its own.\n"))
    return "".join(pages)


def settings_class(service: str) -> type[CommonSettings]:
    """Return a service's settings class, the one in its ``settings`` module."""
    module = importlib.import_module(f"services.{service}.settings")
    [found] = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, CommonSettings) and one.__module__ == module.__name__
    ]
    return found


def _settings_table(fields: dict[str, FieldInfo]) -> str:
    rows = (
        (f"`{name}`", f"`{_default(info)}`", " ".join((info.description or "").split()))
        for name, info in fields.items()
    )
    return table(("setting", "default", "meaning"), rows)


def _default(info: FieldInfo) -> str:
    value: Any = info.get_default(call_default_factory=True)
    return "unset" if value is None else str(value)
