"""When victims are searched for again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.scheduler.core.cycle import decide
from shared.events import contracts as c
from tests.scenarios.scenario import job, node, other, queue
from tests.scenarios.world import World


def in_vain() -> World:
    """A gang of high priority for which too few can be evicted: each node has one pod that stays."""
    world = World()
    world.queue(queue("default"))
    for number in range(3):
        world.node(node(f"n{number}", gpu=4, cpu=16))
        world.pod(other(f"stays{number}", f"n{number}", gpu=1))
    world.submit(job("low", gang=3, gpu=1, priority=1))
    world.settle()
    world.submit(job("high", gang=3, gpu=4, priority=9, at=60))
    world.settle()
    return world


def searches(world: World) -> int:
    """Decide once; return how many searches that took."""
    before = world.model.work.searches
    decide(world.model, world.now)
    return world.model.work.searches - before


def test_nobody_is_searched_for_again_while_nothing_has_changed() -> None:
    world = in_vain()
    assert world.model.work.searches > 0
    world.pass_time(60)
    assert searches(world) == 0


def ends(world: World) -> None:
    world.end_pod(("ns", "low-worker-0"))


def allows(world: World) -> None:
    world.model.apply_budget(c.PodDisruptionBudgetState(namespace="ns", name="some", disruptions_allowed=1))


def shrinks(world: World) -> None:
    gang = world.books.gangs["ns", "low"]
    world.submit(gang.model_copy(update={"min_member": 1, "tasks": gang.tasks}))


def governs(world: World) -> None:
    world.queue(queue("default", gpu=100))


@pytest.mark.parametrize("change", [ends, allows, shrinks, governs])
def test_victims_are_searched_for_again_when_something_changed_that_a_search_reads(
    change: Callable[[World], None],
) -> None:
    world = in_vain()
    assert searches(world) == 0
    change(world)
    assert searches(world) == 1


def test_a_gang_that_arrives_elsewhere_makes_nobody_be_searched_for_again() -> None:
    world = in_vain()
    world.submit(job("small", gang=1, gpu=9, priority=0, at=70))
    assert searches(world) == 0


def test_asking_for_quota_wakes_no_lane() -> None:
    """Victims would leave room and not quota, which is kept for a guarantee: a question, and no change."""
    world = World()
    world.queue(queue("default", gpu=8))
    world.node(node("n0", gpu=8, cpu=16))
    world.submit(job("low", gang=4, gpu=1, priority=1))
    world.settle()
    queues, held = world.model.queues, dict(world.model.queues.get("default").held)
    low = queues.get("default")
    queues.freed.clear()
    column = world.model.resources.column("nvidia.com/gpu")
    with queues.without({low: {column: 4}}):
        assert queues.over(low, {column: 8}) is None
    assert queues.over(low, {column: 8}) == (low, column)
    assert (dict(low.held), queues.freed) == (held, set())
