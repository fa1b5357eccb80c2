"""Room that is kept for gangs to which it matters where pods are, by example."""

from __future__ import annotations

from shared.events import contracts as c
from tests.scenarios.scenario import job, node, queue, task
from tests.scenarios.test_kin import HOST, ZONE, apart, other, term
from tests.scenarios.test_kin import near as beside
from tests.scenarios.test_topology import hypernode, near
from tests.scenarios.world import World


def two_nodes(*low: c.Gang) -> World:
    """Two nodes of 4 GPUs, in a rack and a zone each, and gangs of low priority on them."""
    world = World()
    world.queue(queue("default"))
    for name, zone in (("n0", "a"), ("n1", "b")):
        world.node(node(name, gpu=4, cpu=16, labels={HOST: name, ZONE: zone}))
        world.hypernode(hypernode(f"rack-{zone}", 1, name))
    for gang in low:
        world.submit(gang)
    world.settle()
    return world


def full() -> World:
    return two_nodes(job("low0", gang=4, gpu=1), job("low1", gang=4, gpu=1, at=1))


def on(world: World, name: str) -> list[str | None]:
    return [pod.node for pod in world.members(("ns", name))]


def test_victims_of_a_gang_that_must_be_near_lie_in_one_rack() -> None:
    world = two_nodes(job("low0", gang=1, replicas=4, gpu=1), job("low1", gang=1, replicas=4, gpu=1, at=1))
    world.submit(near(job("high", gang=2, gpu=1, priority=9, at=60)))
    world.settle()
    (rack,) = set(on(world, "high"))
    assert rack is not None
    assert len(world.books.evicted) == 2


def test_a_minimum_of_whichever_members_fit_evicts_for_those_that_can() -> None:
    """No node takes pods of the first task."""
    world = full()
    tasks = (task("a", 2, 0, gpu=1, selector={ZONE: "none"}), task("b", 2, 0, gpu=4))
    world.submit(job("high", *tasks, gang=1, priority=9, at=60))
    world.settle()
    assert [pod.task for pod in world.members(("ns", "high")) if pod.node is not None] == ["b"]
    assert len(world.books.evicted) == 4


def test_who_must_keep_away_from_a_gang_keeps_away_from_the_room_that_is_kept_for_it() -> None:
    world = full()
    high = job("high", gang=1, gpu=4, priority=9, at=60, pod_labels={"app": "x"}, extras=apart(term("x")))
    world.submit(high)
    (decision,) = world.decide()
    kept = decision.reservations[0].node
    shy = job("shy", gang=2, cpu=1, at=61, pod_labels={"app": "x"}, extras=apart(term("x")))
    world.submit(shy)
    assert world.decide() == [], "only one node is left for it"
    world.carry_out(decision)
    world.victims_go()
    world.settle()
    assert on(world, "high") == [kept]
    assert on(world, "shy") in ([], [None, None])


def test_nobody_is_placed_beside_pods_that_are_not_there_yet() -> None:
    world = full()
    world.submit(
        job("high", gang=1, gpu=4, priority=9, at=60, pod_labels={"app": "x"}, extras=apart(term("x")))
    )
    (decision,) = world.decide()
    world.submit(job("fond", gang=1, cpu=1, at=61, extras=beside(term("x"))))
    assert world.decide() == []
    world.carry_out(decision)
    world.victims_go()
    world.settle()
    assert on(world, "fond") == on(world, "high")


def test_kept_room_is_looked_at_again_by_rules_between_pods() -> None:
    """A pod that the gang must keep away from comes to its node before the victims have left."""
    world = full()
    world.submit(job("high", gang=1, gpu=4, priority=9, at=60, extras=apart(term("loud"))))
    (decision,) = world.decide()
    kept = decision.reservations[0].node
    world.pod(other("radio", kept, "loud"))
    world.carry_out(decision)
    world.victims_go()
    world.settle()
    (place,) = on(world, "high")
    assert place not in (None, kept)
