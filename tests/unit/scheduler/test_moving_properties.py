"""Who moves for whom, against an exhaustive search in small worlds, and through busy histories."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from services.scheduler.core.decisions import Decision
from services.scheduler.core.policy import Scores
from tests.scenarios.scenario import GPU, job, node, queue
from tests.scenarios.test_defragment import moving
from tests.scenarios.world import World
from tests.unit.scheduler.test_invariants import LAYOUTS, MOVING, NAMES, POLICY, QUEUES, RACKS, Cluster

MOST = 4


def in_pieces(dice: random.Random) -> World:
    """A few nodes that were full of gangs of small pods, of which some have ended."""
    world = World(moving())
    world.queue(queue("default"))
    for number in range(dice.randint(2, 4)):
        world.node(node(f"n{number}", gpu=dice.choice([2, 3, MOST])))
    for number in range(12):
        world.submit(
            job(f"small{number}", gang=dice.choice([1, 1, 1, 2]), gpu=dice.choice([1, 1, 2]), at=number)
        )
    world.settle()
    for gang in sorted(world.books.gangs):
        if dice.random() < 0.45 or not any(pod.node for pod in world.members(gang)):
            world.remove_gang(gang)
    world.settle()
    world.pass_time(60)
    return world


def fit(free: dict[str, int], sizes: Sequence[int]) -> bool:
    """Whether pods of these sizes have room on the nodes: all ways are tried."""
    if not sizes:
        return True
    largest, *rest = sorted(sizes, reverse=True)
    for name, room in sorted(free.items(), key=lambda item: item[1]):
        if room >= largest and fit({**free, name: room - largest}, rest):
            return True
    return False


def free_on(world: World) -> dict[str, int]:
    """GPUs that are free on each node."""
    free = {name: one.allocatable[GPU] for name, one in world.books.nodes.items()}
    for pod in world.books.pods.values():
        if pod.node is not None:
            free[pod.node] -= pod.shape.requests[GPU]
    return free


def helps(world: World, moved: Iterable[str], need: Sequence[int]) -> bool:
    """Whether all have room, if these gangs move and nobody else."""
    moved = set(moved)
    free, sizes = free_on(world), list(need)
    for pod in world.books.pods.values():
        if pod.node is not None and pod.gang in moved:
            free[pod.node] += pod.shape.requests[GPU]
            sizes.append(pod.shape.requests[GPU])
    return fit(free, sizes)


def fits_elsewhere(world: World, name: str) -> bool:
    """Whether a gang's pods have room now on nodes where none of them is."""
    pods = world.members(("ns", name))
    mine = {pod.node for pod in pods}
    free = {one: room for one, room in free_on(world).items() if one not in mine}
    return fit(free, [pod.shape.requests[GPU] for pod in pods])


def tried(seed: int) -> tuple[World, list[Decision], list[int]]:
    """A gang comes for which enough is free, if it can be, and not in one piece."""
    dice = random.Random(seed)
    world = in_pieces(dice)
    free = free_on(world).values()
    sizes = [size for size in (2, 3, MOST) if max(free) < size <= sum(free)] or [MOST]
    need = [dice.choice(sizes)] * dice.choice([1, 1, 1, 2])
    world.submit(job("big", gang=len(need), gpu=need[0], at=50))
    return world, world.decide(), need


@pytest.mark.parametrize("seed", range(150))
def test_gangs_move_only_if_all_of_them_land_and_none_of_them_could_stay(seed) -> None:
    """And when it helps that one does, or two that would have room elsewhere by now, somebody does."""
    world, decisions, need = tried(seed)
    moved = {one.gang for decision in decisions for one in decision.evictions}
    names = [name for _, name in world.books.gangs if name != "big"]
    fits = [name for name in names if fits_elsewhere(world, name)]
    few = [(name,) for name in names] + list(itertools.combinations(fits, 2))
    if not moved:
        assert helps(world, (), need) or not any(helps(world, some, need) for some in few)
        return
    assert helps(world, moved, need)
    assert not any(helps(world, moved - {one}, need) for one in moved)
    before = {pod.name for pod in world.books.pods.values() if pod.gang in moved}
    for decision in decisions:
        world.carry_out(decision)
    world.settle()
    assert all(pod.node for pod in world.members(("ns", "big")))
    assert before == {pod.name for pod in world.books.pods.values() if pod.gang in moved and pod.node}


def test_these_worlds_are_ones_in_which_gangs_move() -> None:
    moved = sum(any(decision.evictions for decision in tried(seed)[1]) for seed in range(50))
    assert moved >= 15


def test_in_few_of_these_worlds_only_an_exchange_helps() -> None:
    """One gang moves to where another one was: all sets of gangs are tried where nobody moved."""
    only, waits = 0, 0
    for seed in range(150):
        world, decisions, need = tried(seed)
        names = [name for _, name in world.books.gangs if name != "big"]
        if not any(decision.evictions for decision in decisions) and not helps(world, (), need):
            waits += 1
            sets = (some for size in range(1, len(names) + 1) for some in itertools.combinations(names, size))
            only += any(helps(world, some, need) for some in sets)
    assert waits >= 50
    assert 1 <= only <= 3


def shared(seed: int) -> World:
    """Nodes with GPUs of which pods have parts; some have ended, and one comes that needs whole ones."""
    dice = random.Random(seed)
    world = World(moving())
    world.queue(queue("default"))
    for number in range(dice.randint(2, 4)):
        gpus = dice.randint(1, 3)
        world.node(node(f"n{number}", gpu=gpus, shared=gpus))
    for number in range(14):
        part = dice.choice([200, 300, 500, 500, 700])
        world.submit(job(f"small{number}", gang=dice.choice([1, 1, 2]), part=part, at=number))
    world.settle()
    for gang in sorted(world.books.gangs):
        if dice.random() < 0.5 or not any(pod.node for pod in world.members(gang)):
            world.remove_gang(gang)
    world.settle()
    world.pass_time(60)
    world.submit(job("big", part=1000, parts=dice.choice([1, 1, 2]), at=50))
    return world


@pytest.mark.parametrize("seed", range(60))
def test_pods_with_parts_of_gpus_move_only_if_all_of_them_land(seed) -> None:
    world = shared(seed)
    decisions = world.decide()
    moved = {one.gang for decision in decisions for one in decision.evictions}
    before = {pod.name for pod in world.books.pods.values() if pod.gang in moved}
    for decision in decisions:
        world.carry_out(decision)
    world.victims_go()
    world.settle()
    assert not moved or all(pod.node for pod in world.members(("ns", "big")))
    assert before == {pod.name for pod in world.books.pods.values() if pod.gang in moved and pod.node}


def test_in_some_of_these_worlds_pods_with_parts_of_gpus_move() -> None:
    assert sum(any(one.evictions for one in shared(seed).decide()) for seed in range(60)) >= 5


LEAST = Scores(binpack_weight=0.0, least_requested_weight=1.0)
"""Pods are spread, so that there is little room in one piece."""
ODDS = {
    "submit": 24,
    "delete": 10,
    "carry": 20,
    "victims": 8,
    "time": 6,
    "same": 3,
    "restart": 1,
    "node": 0.3,
}


def step(cluster: Cluster, dice: random.Random) -> None:
    """One step of a history in which small gangs come and go, and large ones wait."""
    name = f"j{dice.randint(0, 15)}"
    match dice.choices([*ODDS], [*ODDS.values()])[0]:
        case "submit":
            gpu = dice.choice([1, 1, 1, 2, 3, MOST])
            shapes = [({"gpu": gpu, "cpu": 1}, dice.choice([1, 1, 1, 2]), dice.choice([0, 0, 1]))]
            layout = dice.choice([(), (), (), *LAYOUTS])
            cluster.submit(name, shapes, dice.choice(QUEUES), 0, 0, "", None, layout, None)
        case "carry" if cluster.world.books.flying:
            cluster.carry_out(dice, dice.random() < 0.1)
        case "delete":
            cluster.delete(name)
        case "victims":
            cluster.victims_go(dice.random() < 0.8)
        case "time":
            cluster.time_passes(1)
        case "same":
            cluster.a_rebuilt_model_decides_the_same(dice.randint(0, 9))
            return
        case "restart":
            cluster.restart(name, dice.random() < 0.5)
        case "node":
            cluster.node_goes(dice.choice(NAMES), dice.random() < 0.7)
            all_nodes(cluster)
    if dice.random() < 0.6:
        cluster.decide(dice.choice([None, None, 1]))


def all_nodes(cluster: Cluster) -> None:
    for name in NAMES:
        cluster.world.node(node(name, gpu=MOST, cpu=16))


def lived(seed: int) -> Cluster:
    dice = random.Random(seed)
    cluster = Cluster(
        replace(POLICY, hold=timedelta(0), scores=LEAST, defragmentation=replace(MOVING, period=timedelta(0)))
    )
    cluster.some_nodes(5, MOST)
    all_nodes(cluster)
    for one in RACKS:
        cluster.hypernode(one, 1, dice.sample(NAMES, 3))
    for _ in range(100):
        step(cluster, dice)
        cluster.room_is_never_lost_or_invented()
    return cluster


@pytest.mark.parametrize("seed", range(60))
def test_the_promises_hold_where_gangs_move(seed) -> None:
    """Those of ``test_invariants``: and in the end everybody comes to rest."""
    cluster = lived(seed)
    cluster.teardown()
    cluster.a_gang_that_nothing_stops_is_placed()


def test_these_histories_are_ones_in_which_gangs_move() -> None:
    evicted = sum(len(lived(seed).world.books.evicted) for seed in range(10))
    assert evicted >= 10
