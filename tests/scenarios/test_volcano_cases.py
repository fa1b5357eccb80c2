"""What Volcano decides in its own test worlds, our core decides too, or the difference has a reason here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.scenarios.volcano import Case, check, load, run

CASES: Final = {case.id: case for case in load()}

EVICTION: Final = "needs eviction: preempt and reclaim come with the next policies"
NO_HYPERNODES: Final = "its hypernodes are not among its objects"
DEVICES: Final = "needs resource claims: device classes are not counted in queues yet"
ENTERS_PLACED: Final = "a gang is let in by the decision that places it, never for its minResources alone"
REJECTER: Final = "Volcano's test adds a plugin of its own that rejects one of the gangs"
OTHER_PODS: Final = "needs affinity between pods"
ANY_MEMBERS: Final = "the minimum is taken from the tasks in their order; Volcano takes whichever fit"

LATER: Final[dict[str, tuple[str, ...]]] = {
    EVICTION: (
        "actions-preempt-02eb6710",
        "actions-preempt-1d931873",
        "actions-preempt-24604ba7",
        "actions-preempt-3b5a3888",
        "actions-preempt-4cc4a81c",
        "actions-preempt-7a84fb11",
        "actions-preempt-9b6dc616",
        "actions-preempt-b4826763",
        "actions-preempt-cdda175c",
        "actions-preempt-d4024ba3",
        "actions-reclaim-c99c1a69",
        "plugins-capacity-380563dc",
        "plugins-capacity-38a3064b",
        "plugins-capacity-402e2e78",
        "plugins-capacity-704cf0f1",
        "plugins-capacity-8d4c79b0",
        "plugins-capacity-c8e56f15",
        "plugins-capacity-d86b9eca",
        "plugins-priority-122c1293",
    ),
    NO_HYPERNODES: ("actions-allocate-80e449e7",),
    DEVICES: ("plugins-capacity-27da655a", "plugins-capacity-84b25900"),
    ENTERS_PLACED: ("plugins-capacity-273c73ad", "plugins-capacity-7df71228"),
    REJECTER: ("plugins-capacity-0c2ad70c", "plugins-proportion-d790d43c"),
    OTHER_PODS: ("plugins-nodeorder-c6153ed2", "plugins-predicates-8d259870"),
    ANY_MEMBERS: ("actions-allocate-a5c383f0",),
}
"""Cases that fail today, by reason. One that begins to pass fails the tests: take it out of here."""

NOTHING_TO_COMPARE: Final = (
    "actions-preempt-bb371e7d",
    "actions-preempt-c4ec4f87",
    "actions-preempt-c5616d29",
    "actions-reclaim-6843d40b",
    "actions-reclaim-c90d221c",
    "actions-reclaim-eadeadad",
)
"""Only eviction is allowed in these and nothing is evicted: any scheduler that evicts nothing passes."""


def _cases() -> Iterator[object]:
    reasons = {name: reason for reason, names in LATER.items() for name in names}
    for name, case in CASES.items():
        marks: list[pytest.MarkDecorator] = []
        if name in reasons:
            marks = [pytest.mark.xfail(reason=reasons[name], strict=True, raises=AssertionError)]
        elif name in NOTHING_TO_COMPARE:
            marks = [pytest.mark.skip(reason="nothing is evicted in it: to be compared once we evict")]
        yield pytest.param(case, id=name, marks=marks)


@pytest.mark.parametrize("case", _cases())
def test_our_core_decides_what_volcano_decides(case: Case) -> None:
    check(case, run(case))


def test_reasons_are_given_once_and_for_cases_that_exist() -> None:
    named = [*NOTHING_TO_COMPARE, *(name for names in LATER.values() for name in names)]
    assert len(named) == len(set(named))
    assert set(named) <= set(CASES)
    assert len(CASES) == 92
