"""The root command: plug-in commands by entry points, and errors as one line and an exit code.

A plug-in is named by an entry point of the group ``pumice.commands``; it is a function with typer's
annotations, or a Typer app. It is imported only when it is called, so that listing the commands or
running another one costs nothing, and a broken plug-in breaks only itself.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from pumice.cli.exits import Exit, code_of
from pumice.errors import PumiceError, Rejected

GROUP: Final = "pumice.commands"
KNOWN: Final = {
    "install": "Prepare a cluster for Pumice",
    "policy": "Look at configurations of the scheduler",
    "replay": "Make decisions again from the log",
    "simulate": "Run a scenario in virtual time",
    "uninstall": "Take out of a cluster what install put in",
    "up": "Start the whole platform in this process",
}
"""Commands of other distributions that are worth a line in the help, by what they do."""
SERVER: Final = "pumice-server"


class Plugin(TyperCommand):
    """Stands for a plug-in until it is called."""

    def __init__(self, name: str, entry: EntryPoint | None) -> None:
        source = entry.dist.name if entry is not None and entry.dist is not None else SERVER
        what = KNOWN.get(name, "A command of another distribution")
        super().__init__(name=name, short_help=f"{what} (from {source}).")
        self._entry = entry

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Import the plug-in and let it read its own arguments."""
        return self._load().make_context(info_name, args, parent, **extra)

    def _load(self) -> Any:
        if self._entry is None:
            raise PumiceError(f"'pumice {self.name}' needs the distribution {SERVER}, which is not installed")
        try:
            found = self._entry.load()
        except Exception as error:  # whatever a foreign module raises, it is this command's trouble alone
            raise PumiceError(
                f"'pumice {self.name}' ({self._entry.value}) cannot be loaded: {error}"
            ) from error
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        app.command(self.name)(found)
        return typer.main.get_command(app)


class Root(TyperGroup):
    """The commands of this distribution and those of plug-ins."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the own commands in their order, then the others by name."""
        own = super().list_commands(ctx)
        return [*own, *sorted({*plugins(), *KNOWN} - set(own))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; a plug-in's stand-in imports nothing. A plug-in cannot replace an own command."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or (cmd_name not in KNOWN and cmd_name not in plugins()):
            return own
        return Plugin(cmd_name, plugins().get(cmd_name))

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error of this package's is a line and an exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(Exit.INTERRUPTED) from None
        except PumiceError as error:
            if (ctx.obj or {}).get("debug"):
                raise
            report(error)
            raise typer.Exit(code_of(error)) from error


@cache
def plugins() -> dict[str, EntryPoint]:
    """Return the plug-ins that are installed, by command; the first of a name counts."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, entry)
    return found


def report(error: PumiceError, about: str = "") -> None:
    """Say on standard error what went wrong; of a rejection every violation, each on its line."""
    name = f"{about}: " if about else ""
    if not (isinstance(error, Rejected) and error.violations):
        typer.echo(f"error: {name}{error}", err=True)
        return
    count = len(error.violations)
    typer.echo(f"error: {name}rejected, {count} violation{'' if count == 1 else 's'}:", err=True)
    for one in error.violations:
        typer.echo(f"  {one}", err=True)
