"""Who is evicted, in random clusters: against a slow search that cannot be wrong, and over many rounds."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from services.scheduler.core.decisions import Decision
from services.scheduler.core.policy import Policy
from shared.events import contracts as c
from tests.scenarios.scenario import GPU, job, node, queue
from tests.scenarios.world import Key, World

LOW, HIGH = 1, 9


def small(dice: random.Random) -> World:
    """A few nodes full of gangs of low priority."""
    world = World()
    world.queue(queue("default"))
    for number in range(dice.randint(1, 3)):
        world.node(node(f"n{number}", gpu=dice.randint(1, 4), cpu=16))
    for number in range(dice.randint(1, 5)):
        pods = dice.randint(1, 3)
        world.submit(
            job(
                f"low{number}",
                gang=dice.randint(1, pods),
                replicas=pods,
                gpu=dice.choice([1, 1, 2]),
                priority=dice.choice([LOW, LOW, LOW + 1]),
                at=number,
            )
        )
    world.settle()
    return world


def units(world: World, above: int) -> list[frozenset[Key]]:
    """Return what may leave: any number of a gang's members down to its minimum, or all of them."""
    found: list[frozenset[Key]] = []
    for key, gang in world.books.gangs.items():
        there = [(pod.namespace, pod.name) for pod in world.members(key) if pod.node is not None]
        if gang.priority < above and there:
            spare = len(there) - gang.min_member
            found += [
                frozenset(some)
                for size in range(1, spare + 1)
                for some in itertools.combinations(there, size)
            ]
            found.append(frozenset(there))
    return found


def fits(world: World, gang: c.Gang, gone: frozenset[Key]) -> bool:
    """Whether equal pods fit when others are gone: nodes are independent, so counting decides."""
    wants = {**gang.tasks[0].shape.requests, "pods": 1}
    room = 0
    for name, state in world.books.nodes.items():
        free = Counter(state.allocatable)
        for key, pod in world.books.pods.items():
            if pod.node == name and key not in gone and pod.phase == "Running":
                free.subtract({**pod.shape.requests, "pods": 1})
        room += max(0, min(free[resource] // amount for resource, amount in wants.items()))
    return room >= gang.min_member


def victims(decision: Decision) -> frozenset[Key]:
    return frozenset((one.namespace, one.pod) for one in decision.evictions)


@pytest.mark.parametrize("seed", range(150))
def test_victims_are_found_exactly_when_some_set_helps_and_none_of_them_is_needless(seed) -> None:
    dice = random.Random(seed)
    world = small(dice)
    gang = job("high", gang=dice.randint(1, 4), gpu=dice.choice([1, 2, 3]), priority=HIGH, at=60)
    world.submit(gang)
    decided = [one for one in world.decide() if one.name == "high"]
    parts = units(world, HIGH)
    everything = frozenset[Key]().union(*parts)
    if fits(world, gang, frozenset()):
        assert not any(one.evictions for one in decided)
        return
    assert bool(decided) == fits(world, gang, everything)
    for decision in decided:
        gone = victims(decision)
        assert fits(world, gang, gone)
        for key, other in world.books.gangs.items():
            mine = frozenset((pod.namespace, pod.name) for pod in world.members(key) if pod.node) & gone
            if not mine:
                continue
            there = sum(pod.node is not None for pod in world.members(key))
            assert len(mine) == there or there - len(mine) >= other.min_member, "cut along gangs"
            if there - len(mine) >= other.min_member:
                assert not any(fits(world, gang, gone - {one}) for one in mine), "one could stay"
            else:
                assert not fits(world, gang, gone - mine), "a whole gang could stay"


# ---------------------------------------------------------------------- many rounds


QUEUES = {"a": "left", "b": "left", "c": "right", "d": "right"}


def busy(dice: random.Random) -> World:
    world = World(Policy())
    for name in ("left", "right"):
        world.queue(queue(name, weight=dice.randint(1, 3)))
    for name, parent in QUEUES.items():
        named = dice.choice([None, None, {"gpu": dice.randint(1, 6)}])
        world.queue(queue(name, parent=parent, weight=dice.randint(1, 3), deserved=named))
    for number in range(dice.randint(2, 4)):
        world.node(node(f"n{number}", gpu=dice.choice([2, 4]), cpu=32))
    return world


def submit(world: World, dice: random.Random, number: int) -> None:
    pods = dice.randint(1, 4)
    world.submit(
        job(
            f"j{number}",
            gang=dice.randint(1, pods),
            replicas=pods,
            gpu=dice.choice([0, 1, 1, 1, 2]),
            priority=dice.choice([0, 0, 5, 9]),
            queue=dice.choice(sorted(QUEUES)),
            at=number,
        )
    )


def levels(world: World, queue_name: str) -> list[str]:
    return world._levels(queue_name)


def owned(world: World, pods: list[c.PodState]) -> Counter[str]:
    """What pods hold, by level, in GPUs."""
    sums: Counter[str] = Counter()
    for pod in pods:
        for level in levels(world, pod.queue):
            sums[level] += pod.shape.requests.get(GPU, 0)
    return sums


def check_decision(world: World, decision: Decision, shares, before: list[c.PodState]) -> None:
    """No victim without a beneficiary that then fits; nobody's share is undercut; no higher priority goes."""
    gang = world.books.gangs[decision.namespace, decision.name]
    assert decision.reservations or not decision.evictions
    assert sum(one.pods for one in decision.reservations) == gang_needs(world, gang, before)
    gone = [world.books.pods[key] for key in sorted(victims(decision))]
    mine = set(levels(world, gang.queue))
    held, lost = owned(world, before), owned(world, gone)
    column = world.model.resources.column(GPU)
    for pod in gone:
        other = world.books.gangs[pod.namespace, pod.gang or ""]
        if pod.queue == gang.queue:
            assert other.priority < gang.priority, (decision, pod.name)
            continue
        for level in set(levels(world, pod.queue)) - mine:
            due = shares.deserved(world.model.queues.get(level)).get(column, 0.0)
            if lost[level] and held[level] > due:
                assert held[level] - lost[level] >= due - 1e-6, (level, held, lost, due)


def gang_needs(world: World, gang: c.Gang, before: list[c.PodState]) -> int:
    there = sum(pod.gang == gang.name and not pod.releasing for pod in before)
    return gang.min_member - there


@pytest.mark.parametrize("seed", range(40))
def test_evictions_have_a_beneficiary_keep_shares_and_come_to_rest_over_many_rounds(seed) -> None:
    dice = random.Random(seed)
    world = busy(dice)
    for number in range(30):
        what = dice.random()
        if what < 0.6:
            submit(world, dice, number)
        elif world.books.gangs:
            world.remove_gang(dice.choice(sorted(world.books.gangs)))
        for _ in range(40):
            before = [pod for pod in world.books.pods.values() if pod.node is not None and not pod.releasing]
            flying = bool(world.books.flying or world.books.leaving)
            found = world.decide()
            evicting = [one for one in found if one.evictions]
            if not flying and len(found) == 1 and evicting:
                # Shares follow demand, which counts what is held and what is wanted alike.
                check_decision(world, evicting[0], world.model.shares(), before)
            for decision in found:
                world.carry_out(decision)
            if not found and not world.books.leaving:
                break
            world.victims_go()
        else:
            raise AssertionError("evictions chase each other")
        assert world.decide() == []


@pytest.mark.parametrize("seed", range(20))
def test_without_news_nobody_is_evicted_twice(seed) -> None:
    """The potential falls with each round: victims that come back displace nobody who displaced them."""
    dice = random.Random(1000 + seed)
    world = busy(dice)
    for number in range(12):
        submit(world, dice, number)
    world.settle(60)
    world.pass_time(400)  # from now on nobody is kept behind anybody
    world.settle(60)
    evicted = len(world.books.evicted)
    for _ in range(10):
        world.pass_time(400)
        world.settle(60)
    assert len(world.books.evicted) == evicted
