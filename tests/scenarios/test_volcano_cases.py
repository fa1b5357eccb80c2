"""What Volcano decides in its own test worlds, our core decides too, or the difference has a reason here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.scenarios.volcano import Case, check, load, run

CASES: Final = {case.id: case for case in load()}

NO_HYPERNODES: Final = "its hypernodes are not among its objects"
ENTERS_PLACED: Final = "a gang is let in by the decision that places it, never for its minResources alone"
REJECTER: Final = "Volcano's test adds a plugin of its own that rejects one of the gangs"
FITS_BESIDE: Final = (
    "Volcano's test adds a plugin of its own by which two pods do not fit on a node that has room"
)
BOTH: Final = (
    "it names capacity and proportion, which exclude each other: by capacity nobody deserves anything"
)
EVERY_LEVEL: Final = "better: a queue above the victim's holds less than it deserves and may not lose more"

LATER: Final[dict[str, tuple[str, ...]]] = {
    FITS_BESIDE: ("actions-preempt-7a84fb11",),
    BOTH: ("actions-reclaim-c99c1a69",),
    EVERY_LEVEL: ("plugins-capacity-704cf0f1",),
    NO_HYPERNODES: ("actions-allocate-80e449e7",),
    ENTERS_PLACED: ("plugins-capacity-273c73ad", "plugins-capacity-7df71228"),
    REJECTER: ("plugins-capacity-0c2ad70c", "plugins-proportion-d790d43c"),
}
"""Cases that fail today, by reason. One that begins to pass fails the tests: take it out of here."""


def _cases() -> Iterator[object]:
    reasons = {name: reason for reason, names in LATER.items() for name in names}
    for name, case in CASES.items():
        marks: list[pytest.MarkDecorator] = []
        if name in reasons:
            marks = [pytest.mark.xfail(reason=reasons[name], strict=True, raises=AssertionError)]
        yield pytest.param(case, id=name, marks=marks)


@pytest.mark.parametrize("case", _cases())
def test_our_core_decides_what_volcano_decides(case: Case) -> None:
    check(case, run(case))


def test_reasons_are_given_once_and_for_cases_that_exist() -> None:
    named = [name for names in LATER.values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) <= set(CASES)
    assert len(CASES) == 92
