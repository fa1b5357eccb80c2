"""Writes the tables of all words of a configuration into ``docs/policy/configuration.md``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from services.scheduler.core.configuration.measuring import METRICS
from services.scheduler.core.configuration.reader import ACTIONS, PLUGINS
from services.scheduler.core.configuration.terms import SWITCHES, Action, Argument, Plugin, Stand, Vote
from tools.knobs import ROOT, by_knob, knob_of
from tools.reference import table

PAGE: Final = ROOT / "docs" / "policy" / "configuration.md"
_BEGIN: Final = "<!-- words: made from the reader's tables by `make generate` -->\n"
_END: Final = "<!-- words: end -->\n"


def page() -> str:
    """Return the page with the tables as they are now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{_words()}{_END}{after}"


def _words() -> str:
    off = " and ".join(f"`{name}`" for name, on in SWITCHES.items() if not on)
    switches = table(("switch", "of", "is", "why"), _switches())
    arguments = table(("of", "argument", "value", "default", "is", "says", "shown by"), _arguments())
    return (
        f"\n### Actions\n\n{_rows(ACTIONS.values())}\n### Plugins\n\n{_rows(PLUGINS.values())}\n"
        f"### Switches\n\nA switch that is not named is on, but for {off}.\n\n{switches}\n"
        f"### Arguments\n\n{arguments}\n"
    )


def _rows(words: Iterable[Action | Plugin]) -> str:
    shown = by_knob()
    rows = (
        (f"`{one.name}`", _stand(one.stand), _says(one.says, one.why), _links(shown.get(one.name, ())))
        for one in words
    )
    return table(("name", "is", "says", "shown by"), rows)


def _links(scenarios: Iterable[Path]) -> str:
    """Return links to scenarios, as from the page."""
    return ", ".join(f"[{path.stem}](../../{path.relative_to(ROOT).as_posix()})" for path in scenarios)


def _switches() -> Iterable[tuple[str, str, str, str]]:
    for name in SWITCHES:
        votes = [(plugin, plugin.votes[name]) for plugin in PLUGINS.values() if name in plugin.votes]
        kinds = list(dict.fromkeys((vote.stand, vote.why) for _, vote in votes))
        if not kinds:
            yield f"`{name}`", "", _stand(Stand.NEEDLESS), "no plugin here has it"
        for stand, why in kinds:
            names = ", ".join(f"`{plugin.name}`" for plugin, vote in votes if vote == Vote(stand, why))
            yield f"`{name}`", names, _stand(stand), why


def _arguments() -> Iterable[tuple[str, ...]]:
    metrics = Action("metrics", "", arguments=METRICS)
    owners: list[Action | Plugin] = [*ACTIONS.values(), *PLUGINS.values(), metrics]
    shown = by_knob()
    for owner in owners:
        for one in owner.arguments:
            stand = owner.stand if owner.stand is Stand.REFUSED else one.stand
            yield (
                f"`{owner.name}`",
                f"`{one.shown}`",
                one.kind.name,
                _default(one),
                _stand(stand) + _but_for(one, stand),
                _says(one.says, one.why),
                _links(shown.get(knob_of(owner.name, one), ())),
            )


def _but_for(one: Argument, stand: Stand) -> str:
    """Return which words are taken of an argument that is refused. A flag that is off asks for nothing."""
    taken = [f"`{word}`" for word in one.harmless if isinstance(word, str)]
    return f", but for {', '.join(taken)}" if stand is Stand.REFUSED and taken else ""


def _default(one: Argument) -> str:
    match one.default:
        case None | "":
            return ""
        case bool():
            return str(one.default).lower()
        case float():
            return f"{one.default:g}"
        case dict():
            return ", ".join(one.default)
        case _:
            return str(one.default)


def _stand(stand: Stand) -> str:
    return stand.value if stand is Stand.DONE else f"**{stand.value}**"


def _says(says: str, why: str) -> str:
    return f"{says} ({why})" if why else says
