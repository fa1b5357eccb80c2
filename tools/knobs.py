"""Which scenarios show what a word of a configuration does: their comments say it after ``# Knobs:``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from services.scheduler.core.configuration.reader import ACTIONS, PLUGINS
from services.scheduler.core.configuration.terms import SWITCHES, Action, Argument, Plugin, Stand

ROOT: Final = Path(__file__).resolve().parents[1]
_WORD: Final = "# Knobs:"


def scenarios() -> list[Path]:
    """Return the scenarios that come with the project."""
    return sorted(
        [*(ROOT / "examples" / "scenarios").glob("*.yaml"), *(ROOT / "examples" / "knobs").glob("*.yaml")]
    )


def shown_by(path: Path) -> list[str]:
    """Return what a scenario shows: actions, plugins, and behind these names switches and arguments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        knob.strip()
        for line in lines
        if line.startswith(_WORD)
        for knob in line.removeprefix(_WORD).split(",")
    ]


def by_knob() -> dict[str, list[Path]]:
    """Return the scenarios by what they show."""
    found: dict[str, list[Path]] = {}
    for path in scenarios():
        for knob in shown_by(path):
            found.setdefault(knob, []).append(path)
    return found


def knobs() -> Iterator[str]:
    """Yield all that a configuration can choose: what is always on, or without effect, is no choice.

    Of switches only those that are off unless they are named: without another, a plugin is as if not named.
    """
    owners: list[Action | Plugin] = [*ACTIONS.values(), *PLUGINS.values()]
    for owner in owners:
        if owner.stand is Stand.REFUSED:
            continue
        if owner.stand is Stand.DONE:
            yield owner.name
        for one in owner.arguments:
            if one.stand is Stand.DONE:
                yield knob_of(owner.name, one)
    for plugin in PLUGINS.values():
        for switch, vote in plugin.votes.items():
            if vote.stand is Stand.DONE and plugin.stand is not Stand.REFUSED and not SWITCHES[switch]:
                yield f"{plugin.name} {switch}"


def knob_of(owner: str, argument: Argument) -> str:
    """Return how scenarios name an argument."""
    return f"{owner} {argument.shown}"
