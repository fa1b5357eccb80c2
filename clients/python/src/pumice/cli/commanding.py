"""``suspend``, ``resume`` and ``delete``: the same for each name."""

from __future__ import annotations

from collections.abc import Callable

import typer

from pumice.cli.exits import Exit, code_of
from pumice.cli.group import report
from pumice.cli.place import Place
from pumice.errors import PumiceError, Unavailable


def suspend(place: Place, names: list[str]) -> None:
    """Suspend each job."""
    _each(place, names, "suspended", lambda namespace, name: place.client.suspend(name, namespace=namespace))


def resume(place: Place, names: list[str]) -> None:
    """Resume each job."""
    _each(place, names, "resumed", lambda namespace, name: place.client.resume(name, namespace=namespace))


def delete(place: Place, names: list[str]) -> None:
    """Delete each job."""
    _each(place, names, "deleted", lambda namespace, name: place.client.delete(name, namespace=namespace))


def _each(place: Place, names: list[str], done: str, act: Callable[[str, str], object]) -> None:
    """Act on each job and report it; one that fails does not keep the others from it."""
    code = Exit.OK
    for namespace, name in [place.job(text) for text in names]:
        try:
            act(namespace, name)
        except Unavailable:
            raise
        except PumiceError as error:
            report(error, f"{namespace}/{name}")
            code = code or code_of(error)
        else:
            place.lines([f"job {namespace}/{name} {done}"])
    if code:
        raise typer.Exit(code)
