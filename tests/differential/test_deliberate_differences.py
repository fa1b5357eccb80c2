"""What differs on purpose: it still does, and the documentation says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.differential.comparing import Pair
from tests.differential.differences import DIFFERENCES, Difference

_DOCUMENT = Path(__file__).parents[2] / "docs" / "simulator.md"
_HEADING = "## What differs from a real API server"


def _documented() -> list[str]:
    section = _DOCUMENT.read_text().partition(_HEADING)[2].partition("\n## ")[0]
    return [" ".join(line.split()) for line in re.findall(r"^- (.*(?:\n  .*)*)", section, re.MULTILINE)]


def test_the_documentation_tells_each_difference_and_no_other() -> None:
    assert _documented() == [difference.title for difference in DIFFERENCES]


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.title)
def test_what_differs_on_purpose_still_differs(pair: Pair, difference: Difference) -> None:
    others = [other for other in DIFFERENCES if other is not difference]
    sides = pair.sides()
    *before, last = difference.example
    before_it = pair.play(sides, before, others)
    assert not before_it, "\n\n".join(before_it)
    assert pair.play(sides, [last], others), "both servers answer alike: take it from the list"
