"""Gangs whose pods must be near to each other: hypernodes, tiers, groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from shared.events import contracts as c
from tests.scenarios.scenario import (
    Scenario,
    Step,
    adds,
    finishes,
    job,
    loses,
    node,
    placed,
    removes,
    submits,
    task,
    waits,
)
from tests.scenarios.world import World


def hypernode(name: str, tier: int, *members: str, of: str = "Node", tier_name: str = "") -> c.HyperNodeState:
    """One that holds nodes, or hypernodes, by their names."""
    spec = {
        "tier": tier,
        "tierName": tier_name,
        "members": [{"type": of, "selector": {"exactMatch": {"name": one}}} for one in members],
    }
    return c.HyperNodeState(name=name, spec=spec)


def near(gang: c.Gang, mode: str = "hard", tier: int | None = 1, name: str = "") -> c.Gang:
    """The gang, with a topology."""
    topology = c.NetworkTopology.model_validate(
        {"mode": mode, "highestTier": tier if not name else None, "highestTierName": name}
    )
    return gang.model_copy(update={"topology": topology})


def grouped(gang: c.Gang, size: int, minimum: int = 0, tier: int | None = None) -> c.Gang:
    """The gang, the members of each of its tasks in groups of a size, each inside a tier if one is given."""
    topology = None if tier is None else c.NetworkTopology(highest_tier=tier)
    kinds = tuple(
        c.SubGroups(name=one.name, size=size, minimum=minimum, topology=topology) for one in gang.tasks
    )
    tasks = tuple(
        one.model_copy(
            update={
                "members": tuple(
                    m.model_copy(update={"group": f"{one.name}/{m.index // size}"}) for m in one.members
                )
            }
        )
        for one in gang.tasks
    )
    return gang.model_copy(update={"sub_groups": kinds, "tasks": tasks})


def nodes(*names: str, gpu: int = 8, **more: Any) -> list[c.NodeState]:
    return [node(name, gpu=gpu, **more) for name in names]


RACKS: Sequence[c.HyperNodeState] = (
    hypernode("rack-a", 1, "a1", "a2"),
    hypernode("rack-b", 1, "b1", "b2"),
    hypernode("row", 2, "rack-a", "rack-b", of="HyperNode"),
)
FOUR = nodes("a1", "a2", "b1", "b2")


def tells(*hypernodes: c.HyperNodeState) -> Step:
    def step(world: World) -> None:
        for one in hypernodes:
            world.hypernode(one)

    return step


def forgets(name: str) -> Step:
    return lambda world: world.remove_hypernode(name)


SCENARIOS = [
    # ------------------------------------------------------------------ hard
    Scenario(
        "a gang that must be near is placed inside one rack though its best nodes are in two",
        nodes=[node("a1", gpu=4), node("a2", gpu=8), node("b1", gpu=8), node("b2", gpu=8)],
        hypernodes=RACKS,
        jobs=[near(job("g", gang=4, gpu=4))],
        expect={"g": placed(b1=2, b2=2)},
    ),
    Scenario(
        "a gang that is too large for each rack waits, though the cluster has room",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[near(job("g", gang=3, gpu=8))],
        expect={
            "g": waits(
                "domain-too-small",
                "in one hypernode of at most tier 1: even empty, of 2, rack-a would hold 2",
            )
        },
    ),
    Scenario(
        "a higher tier allows what a lower one cannot hold",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[near(job("g", gang=3, gpu=8), tier=2)],
        expect={"g": placed(a1=1, a2=1, b1=1)},
    ),
    Scenario(
        "the lowest tier that holds the gang is taken though a higher one is allowed",
        nodes=[*nodes("a1", "a2", gpu=4), *nodes("b1", "b2")],
        hypernodes=RACKS,
        jobs=[near(job("g", gang=2, gpu=8), tier=2)],
        expect={"g": placed(b1=1, b2=1)},
    ),
    Scenario(
        "of racks that hold the gang the fullest is taken, so that the emptiest stays whole",
        nodes=[node("a1", gpu=8), node("a2", gpu=8), node("b1", gpu=8), node("b2", gpu=4)],
        hypernodes=RACKS,
        jobs=[near(job("g", gang=2, gpu=4))],
        expect={"g": placed(b1=1, b2=1)},
    ),
    Scenario(
        "a tier is known by its name, too",
        nodes=FOUR,
        hypernodes=[
            hypernode("rack-a", 1, "a1", "a2", tier_name="rack"),
            hypernode("rack-b", 1, "b1", "b2", tier_name="rack"),
            hypernode("row", 2, "rack-a", "rack-b", of="HyperNode", tier_name="row"),
        ],
        jobs=[near(job("one", gang=3, gpu=8), name="rack"), near(job("two", gang=3, gpu=8), name="row")],
        expect={"one": waits("no-room"), "two": placed(3)},
    ),
    Scenario(
        "a tier with a name that no hypernode has holds nothing",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[near(job("g", gang=1, gpu=1), name="zone")],
        expect={"g": waits("domain-too-small", "there is none")},
    ),
    Scenario(
        "a tier above the highest is the whole cluster, with nodes of no hypernode",
        nodes=[*FOUR, node("z", gpu=8)],
        hypernodes=RACKS,
        jobs=[near(job("g", gang=5, gpu=8), tier=3)],
        expect={"g": placed(5)},
    ),
    Scenario(
        "a node of no hypernode holds nobody who must be near",
        nodes=nodes("z"),
        hypernodes=[hypernode("rack-a", 1, "a1")],
        jobs=[near(job("g", gang=1, gpu=1), tier=0), job("free", gang=1, gpu=1)],
        expect={"g": waits("domain-too-small"), "free": placed(z=1)},
    ),
    Scenario(
        "several shapes must fit into one rack together",
        nodes=[*nodes("a1", "a2"), *nodes("b1", "b2", cpu=8)],
        hypernodes=RACKS,
        jobs=[near(job("g", task("ps", 1, cpu=32), task("w", 2, gpu=8, cpu=8)))],
        expect={"g": placed(3)},
    ),
    Scenario(
        "room in a rack is found when a running job ends",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[
            near(job("first", gang=2, gpu=8)),
            near(job("second", gang=2, gpu=8)),
            near(job("g", gang=2, gpu=8, at=1)),
        ],
        then=[finishes("first")],
        expect={"g": placed(a1=1, a2=1), "second": placed(b1=1, b2=1)},
    ),
    Scenario(
        "while both racks are in use it waits, and says which has the most room",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[
            job("a", gang=1, gpu=8),
            near(job("g", gang=2, gpu=8, at=1)),
            near(job("h", gang=2, gpu=8, at=2)),
        ],
        expect={
            "g": placed(b1=1, b2=1),
            "h": waits("no-room"),
        },
    ),
    Scenario(
        "a rack that comes later is used",
        nodes=FOUR,
        hypernodes=[],
        jobs=[near(job("g", gang=2, gpu=8), tier=0)],
        then=[tells(hypernode("rack-a", 0, "a1", "a2"))],
        expect={"g": placed(a1=1, a2=1)},
    ),
    Scenario(
        "nodes that join a rack make it large enough",
        nodes=nodes("a1"),
        hypernodes=RACKS,
        jobs=[near(job("g", gang=2, gpu=8))],
        then=[adds(*nodes("a2"))],
        expect={"g": placed(a1=1, a2=1)},
    ),
    Scenario(
        "a hypernode that is a member of itself is left out, and the others go on",
        nodes=FOUR,
        hypernodes=[
            hypernode("rack-a", 1, "a1", "a2"),
            hypernode("loop", 1, "pool", of="HyperNode"),
            hypernode("pool", 1, "loop", of="HyperNode"),
        ],
        jobs=[near(job("g", gang=2, gpu=8))],
        expect={"g": placed(a1=1, a2=1)},
    ),
    Scenario(
        "a gang that does not need to be near is not held up by one that does",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[near(job("g", gang=3, gpu=8)), job("free", gang=2, gpu=4)],
        expect={"g": waits("domain-too-small"), "free": placed(2)},
    ),
    # ------------------------------------------------------------------ soft
    Scenario(
        "a gang that should be near is placed inside one rack where one holds it",
        nodes=[*nodes("a1", "a2", gpu=4), *nodes("b1", "b2")],
        hypernodes=RACKS,
        jobs=[near(job("g", gang=4, gpu=4), "soft")],
        expect={"g": placed(b1=2, b2=2)},
    ),
    Scenario(
        "and anywhere where none does",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[near(job("g", gang=3, gpu=8), "soft")],
        expect={"g": placed(3)},
    ),
    # ------------------------------------------------------------------ running gangs
    Scenario(
        "a member that is lost is made good in the rack of the others",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[near(job("g", gang=3, gpu=4))],
        then=[submits(job("other", gang=1, gpu=4)), loses("g-worker-1")],
        expect={"g": placed(a1=2, a2=1)},
    ),
    Scenario(
        "and waits while that rack is full, though another is free",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[near(job("g", gang=2, gpu=8))],
        then=[removes("a2"), adds(node("c", gpu=8))],
        expect={"g": placed(a1=1)},
    ),
    Scenario(
        "members beyond the minimum stay in the rack",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[near(job("g", gang=1, replicas=4, gpu=8))],
        expect={"g": placed(a1=1, a2=1)},
    ),
    # ------------------------------------------------------------------ groups
    Scenario(
        "each group is placed inside one rack, the gang over several",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[grouped(job("g", gang=4, gpu=8), 2, tier=1)],
        expect={"g": placed(a1=1, a2=1, b1=1, b2=1)},
    ),
    Scenario(
        "a group that no rack holds keeps the whole gang waiting",
        nodes=nodes("a1", "a2", "b1", "b2", "b3"),
        hypernodes=RACKS,
        jobs=[grouped(job("g", gang=3, gpu=8), 3, tier=1)],
        expect={"g": waits("domain-too-small")},
    ),
    Scenario(
        "beyond the minimum groups are placed as wholes only",
        nodes=nodes("a1", "a2", "b1"),
        hypernodes=RACKS,
        jobs=[grouped(job("g", gang=2, replicas=4, gpu=8), 2, minimum=1)],
        expect={"g": placed(a1=1, a2=1)},
    ),
    Scenario(
        "so many groups must run as their minimum says, whatever the gang's is",
        nodes=nodes("a1", "a2", "b1"),
        hypernodes=RACKS,
        jobs=[grouped(job("g", gang=1, replicas=4, gpu=8), 2, minimum=2)],
        expect={"g": waits("gang-too-large")},
    ),
    Scenario(
        "a minimum of pods is rounded up to whole groups",
        nodes=nodes("a1", "a2", "b1", "b2"),
        jobs=[grouped(job("g", gang=3, replicas=6, gpu=8), 2)],
        expect={"g": placed(4)},
    ),
    Scenario(
        "a group that lost a member gets it back in its own rack before another group begins",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[grouped(job("g", gang=2, replicas=4, gpu=8), 2, minimum=1, tier=1)],
        then=[loses("g-worker-0")],
        expect={"g": placed(4)},
    ),
    Scenario(
        "groups inside the gang's own hypernode: racks of one row",
        nodes=[*FOUR, *nodes("c1", "c2", gpu=16)],
        hypernodes=[
            *RACKS,
            hypernode("rack-c", 1, "c1", "c2"),
            hypernode("other-row", 2, "rack-c", of="HyperNode"),
        ],
        jobs=[near(grouped(job("g", gang=4, gpu=8), 2, tier=1), tier=2)],
        expect={"g": placed(4)},
    ),
    # ------------------------------------------------------------------ beside others
    Scenario(
        "a gang that must be near keeps room where it can be, and others of its needs use the other nodes",
        nodes=[*FOUR, *nodes("c1")],
        hypernodes=[hypernode("rack-a", 1, "a1", "a2")],
        jobs=[job("there", gang=1, gpu=8, on=["a1"])],
        then=[
            submits(near(job("g", gang=2, gpu=8)), job("h", gang=2, gpu=8)),
            submits(job("small", gang=1, gpu=1)),
            finishes("there"),
        ],
        expect={"g": placed(a1=1, a2=1), "h": placed(b1=1, b2=1), "small": placed(c1=1)},
    ),
    Scenario(
        "where all nodes are of racks that could hold it, others of its needs wait behind it",
        nodes=FOUR,
        hypernodes=RACKS,
        jobs=[
            job("one", gang=1, gpu=8, on=["a1"]),
            job("two", gang=1, gpu=8, on=["b1"]),
            near(job("g", gang=2, gpu=8, at=1)),
            job("h", gang=1, gpu=8, at=2),
        ],
        expect={"g": waits("no-domain"), "h": waits("behind")},
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_topology(scenario: Scenario) -> None:
    scenario.run()
