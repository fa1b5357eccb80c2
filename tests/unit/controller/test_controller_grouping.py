"""What the scheduler is told of how near to each other pods must run, and of the groups they make."""

from __future__ import annotations

import pytest

from services.controller.core.gangs import gang_of
from services.controller.core.grouping import group_by_labels, sub_groups
from services.controller.core.model import Priorities, read_group
from services.controller.core.podgroups import make_podgroup
from services.controller.core.status import Status
from shared.api.scheduling import SubGroupPolicySpec
from shared.events.contracts import NetworkTopology, SubGroups
from tests.unit.controller.conftest import EPOCH
from tests.unit.controller.worlds import task, wanted


def gang(**spec):
    one = wanted(**spec)
    raw = make_podgroup(one, 0, Priorities(), EPOCH)
    raw["metadata"] |= {"uid": "g", "creationTimestamp": "2026-03-01T12:00:00Z"}
    found = gang_of(one, Status(), read_group(raw), Priorities())
    assert found is not None
    return found


def test_a_job_without_a_topology_asks_for_none():
    told = gang(tasks=[task("a", 2)])
    assert (told.topology, told.sub_groups) == (None, ())
    assert [member.group for member in told.tasks[0].members] == ["", ""]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"mode": "hard", "highestTierAllowed": 1}, NetworkTopology(mode="hard", highest_tier=1)),
        ({"highestTierAllowed": 0}, NetworkTopology(mode="hard", highest_tier=0)),
        ({"mode": "soft"}, NetworkTopology(mode="soft")),
        ({"highestTierName": "rack"}, NetworkTopology(mode="hard", highest_tier_name="rack")),
    ],
)
def test_a_jobs_topology_is_told_and_is_hard_unless_it_says_soft(written, told):
    assert gang(networkTopology=written).topology == told


def test_the_partitions_of_a_task_are_groups_of_its_pods():
    near = {"mode": "hard", "highestTierAllowed": 1}
    policy = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1, "networkTopology": near}
    told = gang(tasks=[task("a"), task("w", 4, partitionPolicy=policy)])
    assert told.sub_groups == (
        SubGroups(name="w", size=2, minimum=1, topology=NetworkTopology(highest_tier=1)),
    )
    assert [member.group for part in told.tasks for member in part.members] == [
        "", "w/0", "w/0", "w/1", "w/1",
    ]  # fmt: skip


POLICIES = [
    SubGroupPolicySpec.model_validate(
        {
            "name": "w",
            "labelSelector": {"matchLabels": {"role": "w"}},
            "matchLabelKeys": ["part"],
            "subGroupSize": 2,
        }
    ),
    SubGroupPolicySpec.model_validate({"matchLabelKeys": ["role"]}),
]


@pytest.mark.parametrize(
    ("labels", "group"),
    [
        ({"role": "w", "part": "7"}, "w/7"),
        ({"role": "m"}, "1/m"),
        ({"role": "w"}, "1/w"),
        ({"part": "7"}, ""),
    ],
)
def test_a_plain_pods_group_is_by_the_first_policy_that_it_is_of(labels, group):
    assert group_by_labels(POLICIES, labels) == group


def test_a_policy_without_a_name_is_known_by_its_number():
    assert [one.name for one in sub_groups(POLICIES)] == ["w", "1"]
