"""Draws the job's life from its transition table into ``docs/lifecycle.md``, between two markers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from services.controller.core.lifecycle import FINAL, TRANSITIONS, Kill, Transition
from shared.api.batch import JobPhase

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "lifecycle.md"
_BEGIN: Final = "<!-- lifecycle: made from the transition table by `make generate` -->\n"
_END: Final = "<!-- lifecycle: end -->\n"
_KILLS: Final = {
    Kill.NONE: "nothing",
    Kill.TARGET: "the pods it is about",
    Kill.UNFINISHED: "all that have not ended",
    Kill.ALL: "all",
}


def mermaid() -> str:
    """Return the table as a Mermaid state diagram; triggers that lead the same way share an arrow."""
    lines = ["stateDiagram-v2", f"    [*] --> {JobPhase.PENDING}"]
    for phase, row in TRANSITIONS.items():
        arrows: dict[Transition, list[str]] = {}
        for trigger, transition in row.items():
            arrows.setdefault(transition, []).append(trigger.value)
        for transition, triggers in arrows.items():
            label = ", ".join(triggers).replace(":", " -") + (" (retry)" if transition.retry else "")
            lines.append(f"    {phase} --> {transition.phase}: {label}")
    lines += [f"    {phase} --> [*]" for phase in TRANSITIONS if phase in FINAL]
    return "\n".join(lines) + "\n"


def table() -> str:
    """Return the table as Markdown."""
    lines = ["| in | trigger | goes to | takes away | new generation | retry |", "|---|---|---|---|---|---|"]
    for phase, row in TRANSITIONS.items():
        for trigger, t in row.items():
            marks = ["yes" if one else "" for one in (t.new_generation, t.retry)]
            lines.append(f"| {phase} | {trigger} | {t.phase} | {_KILLS[t.kill]} | {marks[0]} | {marks[1]} |")
    return "\n".join(lines) + "\n"


def page(text: str | None = None) -> str:
    """Return the page (that on disk, or ``text``) with the part between the markers made anew."""
    whole = PAGE.read_text(encoding="utf-8") if text is None else text
    before, _, rest = whole.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n```mermaid\n{mermaid()}```\n\n{table()}\n{_END}{after}"


def main() -> int:
    """Write the page, or print the diagram alone."""
    parser = argparse.ArgumentParser(prog="python -m tools.lifecycle", description=__doc__)
    parser.add_argument("--mermaid", action="store_true", help="print the diagram and write nothing")
    if parser.parse_args().mermaid:
        sys.stdout.write(mermaid())
    else:
        PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
