"""What is said of a job that asks for more than this version does."""

from __future__ import annotations

import pytest

from services.controller.core.checks import not_applied
from tests.unit.controller.worlds import task, wanted

PARTS = {"totalPartitions": 2, "partitionSize": 2}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ()),
        ({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}, ()),
        ({"tasks": [task("a", topologyPolicy="none")]}, ()),
        ({"tasks": [task("a"), task("b", topologyPolicy="best-effort")]}, ("topologyPolicy of tasks",)),
        ({"tasks": [task("a", 4, partitionPolicy=PARTS, minAvailable=2)]}, ()),
    ],
)
def test_what_is_not_applied_is_named(spec, expected):
    assert not_applied(wanted(**spec)) == expected
