"""Who is evicted for gangs of which more than amounts says whether they have room.

To them it matters where their pods are, or of what their minimum is made, or they take parts of devices.

In small worlds a slow search tries all sets of victims, and all places.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from services.scheduler.core.decisions import Decision
from services.scheduler.core.policy import Policy
from shared.events import contracts as c
from tests.scenarios.among_pods import There, check_among
from tests.scenarios.nearness import check_near
from tests.scenarios.scenario import job, node, queue, task
from tests.scenarios.test_kin import HOST, ZONE, apart, spread, term
from tests.scenarios.test_topology import grouped, hypernode, near
from tests.scenarios.world import Key, World

LOW, HIGH = 1, 9
Maker = Callable[[random.Random], c.Gang]


def equal(dice: random.Random, **asks: object) -> c.Gang:
    wants = {"gpu": dice.choice([1, 1, 2]), "pod_labels": {"app": "high"}, "extras": asks}
    return job("high", gang=dice.randint(1, 3), priority=HIGH, at=60, **wants)


def in_rack(dice: random.Random) -> c.Gang:
    return near(equal(dice))


def groups_in_racks(dice: random.Random) -> c.Gang:
    return grouped(job("high", gang=2, gpu=dice.randint(1, 2), priority=HIGH, at=60), size=2, tier=1)


def one_a_node(dice: random.Random) -> c.Gang:
    return equal(dice, **apart(term("high")))


def one_a_zone(dice: random.Random) -> c.Gang:
    return equal(dice, **apart(term("high", ZONE)))


def away_from_others(dice: random.Random) -> c.Gang:
    return equal(dice, **apart(term("low")))


def of_either_zone(dice: random.Random) -> c.Gang:
    """Its minimum may be made of pods of one zone or of the other."""
    tasks = (task(f"t{zone}", dice.randint(1, 2), 0, gpu=1, selector={ZONE: zone}) for zone in "ab")
    return job("high", *tasks, gang=2, priority=HIGH, at=60)


def parts(dice: random.Random) -> c.Gang:
    """Parts of shared GPUs, one or two for each pod."""
    return job("high", gang=dice.randint(1, 3), priority=HIGH, at=60, **part(dice))


def parts_in_rack(dice: random.Random) -> c.Gang:
    return near(parts(dice))


def parts_one_a_node(dice: random.Random) -> c.Gang:
    asks = {"pod_labels": {"app": "high"}, "extras": apart(term("high"))}
    return job("high", gang=dice.randint(1, 2), priority=HIGH, at=60, **part(dice), **asks)


def part(dice: random.Random) -> dict[str, int]:
    return {"part": dice.choice([300, 500, 500, 700, 1000]), "parts": dice.choice([1, 1, 1, 2])}


SHARING: list[Maker] = [parts, parts_in_rack, parts_one_a_node]
KINDS: list[Maker] = [in_rack, groups_in_racks, one_a_node, one_a_zone, away_from_others, of_either_zone]


def small(
    dice: random.Random, *, sharing: bool, policy: Policy | None = None, declared: bool = False
) -> World:
    """A few nodes in two racks, of two zones, full of gangs of low priority."""
    world = World(policy)
    world.queue(queue("default"))
    names = [f"n{number}" for number in range(dice.randint(2, 3))]
    for number, name in enumerate(names):
        labels = {HOST: name, ZONE: "ab"[number % 2]}
        shared = dice.randint(1, 2) if sharing else 0
        world.node(node(name, gpu=dice.randint(1, 3), cpu=16, labels=labels, shared=shared))
    world.hypernode(hypernode("rack-a", 1, *names[:1]))
    world.hypernode(hypernode("rack-b", 1, *names[1:]))
    for number in range(dice.randint(1, 4)):
        pods = dice.randint(1, 2)
        least = pods if declared else dice.randint(1, pods)
        wants = part(dice) if sharing else {"gpu": dice.choice([1, 1, 2])}
        wants |= {"pod_labels": {"app": "low"}, "runs": dice.randint(400, 900) if declared else None}
        world.submit(job(f"low{number}", gang=least, replicas=pods, priority=LOW, at=number, **wants))
    world.settle()
    return world


def units(world: World) -> Iterator[frozenset[Key]]:
    """Yield all that may leave: of each gang some members beyond its minimum, or all."""
    choices: list[list[frozenset[Key]]] = []
    for key, gang in world.books.gangs.items():
        there = [(pod.namespace, pod.name) for pod in world.members(key) if pod.node is not None]
        sizes = {*range(len(there) - gang.min_member + 1), len(there)} if there else {0}
        choices.append([frozenset(some) for size in sizes for some in itertools.combinations(there, size)])
    for combination in itertools.product(*choices):
        yield frozenset[Key]().union(*combination)


def lands(world: World, gang: c.Gang, gone: frozenset[Key]) -> bool:
    """Whether the gang's minimum finds places when others are gone: any of its members, anywhere."""
    left = [pod for key, pod in world.books.pods.items() if pod.node is not None and key not in gone]
    there = [There(pod.name, pod.namespace, pod.node, pod.shape) for pod in left]
    devices = {name: [[] for _ in state.devices] for name, state in world.books.nodes.items()}
    for pod in left:
        for at in pod.devices:
            devices[pod.node][at].append(pod.shape.devices.cores)
    members = [(member.pod, one.shape) for one in gang.tasks for member in one.members]
    return any(
        stand(world, gang, there, list(zip(some, places, strict=True)))
        and share(devices, [(shape, on) for (_, shape), on in zip(some, places, strict=True)])
        for some in itertools.combinations(members, gang.min_member)
        for places in itertools.product(world.books.nodes, repeat=gang.min_member)
    )


def share(devices: dict[str, list[list[int]]], pods: list[tuple[c.Shape, str]]) -> bool:
    """Whether there are devices for all pods, beside what is taken of each: by trying every choice."""
    if not pods:
        return True
    (shape, on), *rest = pods
    if shape.devices is None:
        return share(devices, rest)
    cores = shape.devices.cores
    for chosen in itertools.combinations(devices[on], shape.devices.count):
        if any(sum(taken) + cores > 1000 or (cores == 1000 and taken) for taken in chosen):
            continue
        for taken in chosen:
            taken.append(cores)
        found = share(devices, rest)
        for taken in chosen:
            taken.pop()
        if found:
            return True
    return False


def stand(
    world: World, gang: c.Gang, there: list[There], placed: list[tuple[tuple[str, c.Shape], str]]
) -> bool:
    """Whether members may be on these nodes."""
    mine = [There(name, "ns", on, shape, True) for (name, shape), on in placed]
    used: dict[str, Counter[str]] = {name: Counter() for name in world.books.nodes}
    for pod in (*there, *mine):
        used[pod.node].update({**pod.shape.requests, "pods": 1})
    for name, state in world.books.nodes.items():
        if any(amount > state.allocatable.get(what, 0) for what, amount in used[name].items()):
            return False
    for pod in mine:
        labels = world.books.nodes[pod.node].labels
        if any(labels.get(key) != value for key, value in pod.shape.node_selector.items()):
            return False
    places = {pod.name: pod.node for pod in mine}
    try:
        check_near(gang, list(places), places, world.books.hypernodes, world.books.nodes)
        check_among([*there, *mine], world.books.nodes)
    except AssertionError:
        return False
    return True


def victims(decision: Decision) -> frozenset[Key]:
    return frozenset((one.namespace, one.pod) for one in decision.evictions)


def check_needed(world: World, helps: list[frozenset[Key]], gone: frozenset[Key]) -> None:
    """Each pod that goes beyond a minimum is needed, and each gang that goes whole."""
    for key, other in world.books.gangs.items():
        there = [(pod.namespace, pod.name) for pod in world.members(key) if pod.node is not None]
        mine = gone.intersection(there)
        if len(there) - len(mine) >= other.min_member:
            assert not any(gone - {one} in helps for one in mine), "one could stay"
        elif mine:
            assert len(mine) == len(there), "cut along gangs"
            assert gone - mine not in helps, "a whole gang could stay"


@pytest.mark.parametrize("kind", [*KINDS, *SHARING])
@pytest.mark.parametrize("seed", range(60))
def test_victims_are_found_exactly_when_some_set_helps_and_the_gang_then_runs(kind: Maker, seed: int) -> None:
    dice = random.Random(seed)
    world = small(dice, sharing=kind in SHARING)
    gang = kind(dice)
    every = list(units(world))
    world.submit(gang)
    helps = [gone for gone in every if lands(world, gang, gone)]
    (decision,) = [one for one in world.decide() if one.name == "high"] or [None]
    if frozenset() in helps:
        assert decision is not None
        assert not decision.evictions
        return
    assert (decision is not None) == bool(helps)
    if decision is None:
        return
    gone = victims(decision)
    assert gone in helps
    check_needed(world, helps, gone)
    world.carry_out(decision)
    world.victims_go()
    world.settle()
    running = [pod for pod in world.members(("ns", "high")) if pod.node is not None]
    assert len(running) >= gang.min_member
    assert sorted(world.books.evicted) == sorted(f"{space}/{name}" for space, name in gone)


# ---------------------------------------------------------------------- many rounds


def mixed(dice: random.Random, number: int) -> c.Gang:
    """One of all kinds of gangs."""
    labels = {"app": dice.choice("xy")}
    asks = dice.choice([{}, apart(term("x")), apart(term("y", ZONE)), spread("x")])
    pods = dice.randint(1, 3)
    wants = {"gpu": dice.choice([1, 1, 2]), "pod_labels": labels, "extras": asks}
    if dice.random() < 0.3:
        wants |= part(dice)
    gang = job(
        f"j{number}",
        gang=dice.randint(1, pods),
        replicas=pods,
        priority=dice.choice([0, 5, 9]),
        queue=dice.choice(["a", "b"]),
        at=number,
        **wants,
    )
    return dice.choice([lambda one: one, near, lambda one: near(one, mode="soft")])(gang)


@pytest.mark.parametrize("seed", range(60))
def test_evictions_for_gangs_of_all_kinds_come_to_rest(seed: int) -> None:
    """The world checks each decision: the gang whole, near and apart as it asks, and nothing over-committed."""
    dice = random.Random(seed)
    world = World()
    for name in "ab":
        world.queue(queue(name, weight=dice.randint(1, 2)))
    names = [f"n{number}" for number in range(dice.randint(2, 4))]
    for number, name in enumerate(names):
        labels = {HOST: name, ZONE: "ab"[number % 2]}
        world.node(node(name, gpu=dice.choice([2, 4]), cpu=32, labels=labels, shared=2))
    world.hypernode(hypernode("rack-a", 1, *names[:2]))
    world.hypernode(hypernode("rack-b", 1, *names[2:]))
    for number in range(12):
        world.submit(mixed(dice, number))
        world.settle(60)
    world.pass_time(400)  # from now on nobody is kept behind anybody
    world.settle(60)
    evicted = len(world.books.evicted)
    for _ in range(5):
        world.pass_time(400)
        world.settle(60)
    assert len(world.books.evicted) == evicted
