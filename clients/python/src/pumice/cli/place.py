"""What a command works with: the client, the namespace, and where its output goes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import typer

from pumice import config
from pumice.cli.exits import UsageError
from pumice.client import Client
from pumice.models import Model
from pumice.retry import Retry

if TYPE_CHECKING:
    from rich.console import Console

    from pumice.render.table import Table

_RETRY: Final = Retry(attempts=4)
"""Somebody looks on: less than a second until a server that is away is reported."""
_TIME: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")


class Place:
    """A server, a namespace and the standard output."""

    def __init__(self, server: str | None, namespace: str | None) -> None:
        self.settings = config.resolve(server=server, namespace=namespace)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if "client" in self.__dict__:
            self.client.close()

    @cached_property
    def client(self) -> Client:
        """The connection to the server, made when it is first needed."""
        return Client(self.settings.server, namespace=self.settings.namespace, retry=_RETRY)

    @cached_property
    def console(self) -> Console | None:
        """The terminal; None in a pipe, where plain lines are printed."""
        if not sys.stdout.isatty():
            return None
        from rich.console import Console

        console = Console(highlight=False)
        return console if console.is_terminal else None

    def job(self, text: str) -> tuple[str, str]:
        """Read ``NAME`` or ``NAMESPACE/NAME`` as (namespace, name)."""
        namespace, slash, name = text.removeprefix("job/").rpartition("/")
        if not name or (slash and not namespace):
            raise UsageError(f"{text!r} is not a job's name")
        return namespace or self.settings.namespace, name

    def table(self, table: Table, *, title: bool = True) -> None:
        """Print a table, or only its rows."""
        if self.console is not None:
            self.console.print(table.rich(title=title))
        else:
            self.lines(table.lines()[0 if title else 1 :])

    def lines(self, lines: Sequence[str]) -> None:
        """Print lines of text as they are."""
        for line in lines:
            typer.echo(line)

    def dump(self, value: Any, form: str) -> None:
        """Print JSON values as ``json`` or ``yaml``."""
        if form == "yaml":
            import yaml

            typer.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
        else:
            typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def seconds(text: str | None) -> float | None:
    """Read a time like ``30``, ``90s``, ``5m`` or ``1h30m`` as seconds."""
    if text is None:
        return None
    match = _TIME.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise UsageError(f"--timeout: {text!r} is not a time like 30, 90s, 5m or 1h30m")
    hours, minutes, rest = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + rest


def dumped(things: Sequence[Model], *, single: bool) -> Any:
    """Return things as JSON values: the one that was asked for by name, or a list under ``items``."""
    return things[0].dump() if single else {"items": [thing.dump() for thing in things]}
