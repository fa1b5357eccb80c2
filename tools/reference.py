"""Reference pages made from the code, so that they cannot differ from it."""

from __future__ import annotations

import asyncio
import importlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import typer
import yaml
from pydantic.fields import FieldInfo

from pumice.cli.app import app
from services.standalone.options import SERVICES
from shared.clock import SystemClock
from shared.events.contracts import EVENTS
from shared.events.topics import TOPICS, dead_letter
from shared.kube.client import connect
from shared.log.memory import MemoryLog
from shared.process import new_id
from shared.settings import CommonSettings, load_settings
from shared.telemetry.telemetry import Telemetry

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
            f"{topic.spec.record_bytes:,}" if topic.spec.record_bytes else "",
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
        "Records are CloudEvents 1.0 in Kafka's binary mode with `traceparent` in the headers. Partitions\n"
        "are those at creation; bytes is the limit of one record where it is not 1,000,000 (Kafka's\n"
        "`max.message.bytes` is a little more). What cannot be read goes to the topic's dead-letter topic\n"
        f"(`{dead_letter('job-submitted')}`) as it was (cut where need be), with `dead_letter_reason`,\n"
        "`_message`, `_service`, `_topic`, `_partition` and `_offset` in the headers. The whole as an\n"
        "AsyncAPI document: [asyncapi.yaml](../contracts/asyncapi.yaml).\n\n"
        + table(("topic", "key", "written by", "says", "cleanup", "partitions", "bytes", "events"), rows)
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


def commands() -> str:
    """Return the page of the command line, from the commands' own help."""
    root: Any = typer.main.get_command(app)
    with root.make_context("pumice", ["--help"], resilient_parsing=True, terminal_width=100) as context:
        pages = [f"{_MADE}\n# Command line\n\n{_fenced(root.get_help(context))}"]
        for name in root.list_commands(context):
            command = root.get_command(context, name)
            with command.make_context(name, [], parent=context, resilient_parsing=True) as inner:
                pages.append(f"\n## {name}\n\n{_fenced(inner.command.get_help(inner))}")
    return "".join(pages)


def _fenced(text: str) -> str:
    return f"```\n{text.rstrip()}\n```\n"


def metrics() -> str:
    """Return the page of metrics, from the registries of the services as they are built."""
    return asyncio.run(_metrics())


async def _metrics() -> str:
    clock = SystemClock()
    pages = [
        f"{_MADE}\n# Metrics\n\nIn Prometheus' format on each service's operations port, at `/metrics`.\n"
    ]
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory) / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(_NOWHERE), encoding="utf-8")
        for name in SERVICES:
            parts: dict[str, Any] = {"clock": clock, "log": MemoryLog(clock), "ids": new_id}
            parts["telemetry"] = Telemetry(name)
            if name in ("controller", "workflows"):
                parts["cluster"] = connect(str(kubeconfig), clock=clock)
            importlib.import_module(f"services.{name}.app").build(
                load_settings(settings_class(name)), **parts
            )
            rows = (
                (f"`{family.name}`", family.type, family.documentation)
                for family in parts["telemetry"].registry.collect()
            )
            pages.append(f"\n## {name}\n\n" + table(("metric", "kind", "meaning"), sorted(rows)))
            if "cluster" in parts:
                await parts["cluster"].close()
    return "".join(pages)


_NOWHERE: Final = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "none",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "none", "user": {}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
}
