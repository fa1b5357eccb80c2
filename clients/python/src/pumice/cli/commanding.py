"""``suspend``, ``resume`` and ``delete``: the same for each name. ``open`` and ``close`` of a queue."""

from __future__ import annotations

from typing import Final

import typer

from pumice.calls import Command, QueueCommand
from pumice.cli.exits import Exit, UsageError, code_of
from pumice.cli.group import report
from pumice.cli.place import Place, seconds
from pumice.errors import PumiceError, Unavailable

_DONE: Final[dict[Command, str]] = {"suspend": "suspended", "resume": "resumed", "delete": "deleted"}
_WAIT: Final = 60.0


def command(place: Place, verb: Command, names: list[str], *, wait: bool, timeout: str | None) -> None:
    """Give each job a command and report it; one that fails does not keep the others from it."""
    limit = _limit(timeout, wait=wait)
    client = place.client
    act = {"suspend": client.suspend, "resume": client.resume, "delete": client.delete}[verb]
    code = Exit.OK
    for namespace, name in [place.job(text) for text in names]:
        try:
            act(name, namespace=namespace, wait=wait, timeout=limit)
        except Unavailable:
            raise
        except PumiceError as error:
            report(error, f"{namespace}/{name}")
            code = code or code_of(error)
        else:
            place.lines([f"job {namespace}/{name}: {_DONE[verb] if wait else f'{verb} requested'}"])
    if code:
        raise typer.Exit(code)


def command_queue(place: Place, verb: QueueCommand, name: str, *, wait: bool, timeout: str | None) -> None:
    """Open or close a queue and report it: that it was asked, or the state that it is in then."""
    limit = _limit(timeout, wait=wait)
    client = place.client
    act = {"open": client.open_queue, "close": client.close_queue}[verb]
    found = act(name, wait=wait, timeout=limit)
    place.lines([f"queue {name}: {found.state.lower() if wait else f'{verb} requested'}"])


def defragment(place: Place, pool: str) -> None:
    """Ask that gangs move, and say where to look."""
    place.client.defragment(pool)
    place.lines([f"pool {pool}: defragment requested; who moves, and who then starts, is told of the jobs"])


def _limit(timeout: str | None, *, wait: bool) -> float:
    limit = seconds(timeout)
    if limit is not None and not wait:
        raise UsageError("--timeout goes with --wait")
    return _WAIT if limit is None else limit
