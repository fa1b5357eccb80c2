"""What queues deserve, against a slow and obvious reference; what they hold, over many rounds."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from services.scheduler.core.division import fill
from services.scheduler.core.policy import Policy, Sharing
from services.scheduler.core.queues import Queues
from services.scheduler.core.resources import Resources
from services.scheduler.core.shares import Shares
from shared.events.contracts import QueueState, QueueUsage
from tests.scenarios.scenario import GPU, job, node, queue
from tests.scenarios.world import START, World

MANY = settings(max_examples=80, deadline=None, derandomize=True)
CLOSE = 1e-6


@dataclass
class Branch:
    """A queue of a random tree, of one resource; only those without branches hold and ask."""

    name: str = ""
    weight: int = 1
    asks: int = 0
    holds: int = 0
    capability: int | None = None
    guarantee: int = 0
    deserved: int | None = None
    below: list[Branch] = field(default_factory=list)

    def __iter__(self):
        yield self
        for branch in self.below:
            yield from branch

    @property
    def limit(self) -> float:
        return float("inf") if self.capability is None else self.capability

    @property
    def demand(self) -> float:
        below = sum(max(branch.kept, branch.demand) for branch in self.below)
        return min(self.limit, below if self.below else self.asks + self.holds)

    @property
    def kept(self) -> float:
        return min(self.limit, max(self.guarantee, sum(branch.kept for branch in self.below)))


LEAVES = st.builds(
    Branch,
    weight=st.integers(1, 5),
    asks=st.integers(0, 40),
    holds=st.integers(0, 20),
    capability=st.one_of(st.none(), st.none(), st.integers(0, 30)),
    guarantee=st.sampled_from([0, 0, 0, 1, 3]),
)
LIMITS = st.one_of(st.none(), st.none(), st.integers(0, 60))
INNER = LEAVES
for _ in range(3):
    INNER = st.one_of(
        LEAVES,
        st.builds(
            Branch,
            weight=st.integers(1, 5),
            capability=LIMITS,
            guarantee=st.sampled_from([0, 0, 4]),
            below=st.lists(INNER, min_size=1, max_size=4),
        ),
    )
TREES = st.builds(Branch, below=st.lists(INNER, min_size=1, max_size=5))


def named(tree: Branch) -> Branch:
    for number, branch in enumerate(tree):
        branch.name = f"q{number}" if number else "root"
    return tree


def shares(tree: Branch, total: int, mode: str = "proportion") -> tuple[Queues, Shares]:
    """What ours says of a tree and a cluster of ``total`` GPUs."""
    resources = Resources()
    column = resources.column(GPU)
    queues = Queues(resources, Sharing(mode=mode))
    for branch in named(tree):
        for below in branch.below:
            queues.upsert(_state(below, branch.name))
    queues.refresh()
    for branch in tree:
        if not branch.below:
            one = queues.get(branch.name)
            queues.charge(one, ((column, 1),), branch.holds)
            queues.want(one, {column: branch.asks}, 1)
    return queues, queues.shares({column: total}, 0)


def _state(branch: Branch, parent: str) -> QueueState:
    def of(amount: int | None) -> dict[str, int] | None:
        return None if amount is None else {GPU: amount}

    return QueueState(
        name=branch.name,
        parent=parent,
        weight=branch.weight,
        capability=of(branch.capability),
        guarantee=of(branch.guarantee or None),
        deserved=of(branch.deserved),
    )


def deserved(tree: Branch, total: int, mode: str = "proportion") -> dict[str, float]:
    queues, found = shares(tree, total, mode)
    return {branch.name: next(iter(found.deserved(queues.get(branch.name)).values())) for branch in tree}


# ---------------------------------------------------------------------- the reference


def water(total: float, parts: list[tuple[float, float, float]]) -> list[float]:
    """Pour ``total`` into vessels (width, least, most): bisect the level."""

    def poured(level: float) -> list[float]:
        return [min(max(level * width, least), most) for width, least, most in parts]

    low, high = 0.0, 1.0
    while sum(poured(high)) < min(total, sum(most for _, _, most in parts)) - 1e-9:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if sum(poured(middle)) >= total else (middle, high)
    return poured(high)


def reference(tree: Branch, total: float) -> dict[str, float]:
    """Weights and demand, from the top down; guarantees first."""
    found = {tree.name: total}
    least = [branch.kept for branch in tree.below]
    if sum(least) > total:
        parts = [one * total / sum(least) for one in least]
    else:
        parts = water(
            total,
            [(b.weight, kept, max(kept, b.demand)) for b, kept in zip(tree.below, least, strict=True)],
        )
    for branch, part in zip(tree.below, parts, strict=True):
        found |= reference(branch, part)
    return found


# ---------------------------------------------------------------------- shares


@MANY
@given(
    total=st.integers(0, 100),
    parts=st.lists(
        st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(0, 30)), min_size=1, max_size=8
    ),
)
def test_water_is_filled_to_the_level_that_bisection_finds(total, parts) -> None:
    parts = [(float(width), float(least), float(least + more)) for width, least, more in parts]
    level = fill(total, parts)
    ours = [most if level == float("inf") else min(max(level * w, least), most) for w, least, most in parts]
    assert ours == pytest.approx(water(total, parts), abs=1e-5)


@MANY
@given(tree=TREES, total=st.integers(0, 120))
def test_shares_over_a_tree_are_those_of_water_filling_at_every_level(tree, total) -> None:
    ours = deserved(tree, total)
    assert ours == pytest.approx(reference(tree, total), abs=1e-5)


@MANY
@given(tree=TREES, total=st.integers(0, 120))
def test_what_the_queues_below_one_deserve_is_never_more_than_it_deserves(tree, total) -> None:
    ours = deserved(tree, total)
    for branch in tree:
        assert sum(ours[below.name] for below in branch.below) <= ours[branch.name] + CLOSE


@MANY
@given(tree=TREES, total=st.integers(0, 120))
def test_a_share_that_is_not_used_flows_on_until_all_is_given_or_nobody_asks(tree, total) -> None:
    ours = deserved(tree, total)
    for branch in tree:
        if branch.below:
            most = sum(max(below.kept, below.demand) for below in branch.below)
            given_out = sum(ours[below.name] for below in branch.below)
            assert given_out == pytest.approx(min(ours[branch.name], most), abs=1e-5)


@MANY
@given(tree=TREES, total=st.integers(0, 120), more=st.integers(1, 9), data=st.data())
def test_more_weight_never_makes_a_share_smaller(tree, total, more, data) -> None:
    before = deserved(tree, total)
    branch = data.draw(st.sampled_from([branch for branch in tree if branch.name != "root"]))
    branch.weight += more
    assert deserved(tree, total)[branch.name] >= before[branch.name] - CLOSE


@MANY
@given(tree=TREES, total=st.integers(0, 120), named_amounts=st.lists(st.integers(0, 30), max_size=3))
def test_an_explicit_share_is_given_whole_where_all_of_them_fit(tree, total, named_amounts) -> None:
    for branch in tree:
        branch.guarantee, branch.capability = 0, None
    leaves = [branch for branch in tree if not branch.below]
    chosen = leaves[: len(named_amounts)]
    for branch, amount in zip(chosen, named_amounts, strict=False):
        branch.deserved = amount
    owed = sum(min(branch.deserved, branch.demand) for branch in chosen)
    ours = deserved(tree, total, "mixed")
    used = sum(min(ours[branch.name], branch.demand) for branch in leaves)
    assert used <= total + CLOSE
    for branch in chosen:
        assert ours[branch.name] <= branch.deserved + CLOSE
        assert owed > total or ours[branch.name] >= branch.deserved - CLOSE
    others = sum(branch.demand for branch in leaves if branch.deserved is None)
    assert used == pytest.approx(min(total, owed + others), abs=1e-5)


def test_a_hundred_tiny_queues_get_what_they_ask_for_and_the_large_one_the_rest() -> None:
    tiny = [Branch(asks=1, weight=1) for _ in range(100)]
    tree = named(Branch(below=[*tiny, Branch(asks=10_000, weight=1)]))
    ours = deserved(tree, 1000)
    assert [ours[branch.name] for branch in tiny] == [1] * 100
    assert ours[tree.below[-1].name] == 900


def test_explicit_shares_beyond_the_cluster_are_cut_in_proportion() -> None:
    tree = Branch(below=[Branch(asks=99, deserved=60), Branch(asks=99, deserved=30), Branch(asks=99)])
    ours = deserved(tree, 30, "mixed")
    assert [round(ours[branch.name], 6) for branch in tree.below] == [20, 10, 0]


def test_guarantees_come_before_explicit_shares_when_not_all_fit() -> None:
    tree = Branch(below=[Branch(asks=99, deserved=90), Branch(asks=99, guarantee=20)])
    ours = deserved(tree, 30, "mixed")
    assert [round(ours[branch.name], 6) for branch in tree.below] == [10, 20]


def test_in_capacity_mode_only_what_is_named_is_deserved() -> None:
    tree = Branch(below=[Branch(asks=99, deserved=60), Branch(asks=99)])
    ours = deserved(tree, 100, "capacity")
    assert [ours[branch.name] for branch in tree.below] == [60, 0]


def test_in_drf_mode_the_least_dominant_share_over_weight_comes_first() -> None:
    tree = Branch(below=[Branch(asks=9, holds=6, weight=3), Branch(asks=9, holds=3, weight=1)])
    queues, found = shares(tree, 10, "drf")
    heavy, light = (queues.get(branch.name) for branch in tree.below)
    assert (found.share(heavy), found.share(light)) == pytest.approx((0.2, 0.3))


# ---------------------------------------------------------------------- reclaiming


def test_a_queue_may_reclaim_up_to_what_it_and_all_above_it_deserve() -> None:
    tree = Branch(
        below=[
            Branch(
                deserved=4, below=[Branch(asks=9, holds=1, deserved=3), Branch(asks=9, holds=2, deserved=1)]
            ),
            Branch(asks=9, holds=7, deserved=6),
        ]
    )
    queues, found = shares(tree, 10, "mixed")
    dept, first, second, other = (queues.get(branch.name) for branch in list(tree)[1:])
    (column,) = queues.root.held
    assert found.may_reclaim(first, other, {column: 1})
    assert not found.may_reclaim(first, other, {column: 2}), "the level above has only one left"
    assert found.may_reclaim(first, second, {column: 2}), "the level above holds no more than before"
    assert not found.may_reclaim(second, other, {column: 1})
    assert found.may_lose(other, first, {column: 1}, [column])
    assert not found.may_lose(other, first, {column: 2}, [column]), "it would fall below what it deserves"
    assert found.may_lose(second, first, {column: 1}, [column]), (
        "of one level only the queues themselves count"
    )
    assert found.above(second, column)
    assert not found.above(dept, column)


def test_a_queue_loses_nothing_that_it_is_guaranteed_of_any_resource() -> None:
    resources = Resources()
    column, cpu = resources.column(GPU), resources.column("cpu")
    queues = Queues(resources)
    queues.upsert(queue("victim", guarantee={"cpu": 2}))
    queues.upsert(queue("claimant", weight=99))
    queues.refresh()
    victim, claimant = queues.get("victim"), queues.get("claimant")
    queues.charge(victim, ((cpu, 2000), (column, 1)), 2)
    queues.want(claimant, {column: 9, cpu: 9000}, 1)
    found = queues.shares({column: 4, cpu: 99_000}, 0)
    assert found.may_lose(victim, claimant, {column: 1, cpu: 2000}, [column])
    assert not found.may_lose(victim, claimant, {column: 1, cpu: 2001}, [column])


def test_who_used_more_than_its_part_over_time_claims_less_of_what_is_idle_and_keeps_its_guarantee() -> None:
    resources = Resources()
    column = resources.column(GPU)
    queues = Queues(resources)
    for name in ("busy", "idle"):
        queues.upsert(queue(name, guarantee={"gpu": 2}))
        queues.refresh()
        queues.want(queues.get(name), {column: 99}, 1)
    busy, idle = queues.get("busy"), queues.get("idle")
    before = queues.shares({column: 12}, 0)
    assert (before.deserved(busy)[column], before.deserved(idle)[column]) == (6, 6)
    queues.usage.note(_usage("busy", 4000, hours=1))
    queues.usage.note(_usage("idle", 1000, hours=2))
    after = queues.shares({column: 12}, 0)
    assert after.deserved(busy)[column] == pytest.approx(12 * 0.75 / 1.75), (
        "2000 of 3000 are a third too much"
    )
    assert after.deserved(busy)[column] + after.deserved(idle)[column] == pytest.approx(12)
    assert queues.shares({column: 4}, 1).deserved(busy)[column] == 2
    queues.usage.forget("busy")
    queues.usage.forget("idle")
    assert queues.shares({column: 12}, 2).deserved(busy)[column] == 6


def _usage(name: str, seconds: float, hours: int) -> QueueUsage:
    return QueueUsage(
        queue=name, gpu_seconds=seconds, half_life_seconds=3600, as_of=START + timedelta(hours=hours)
    )


# ---------------------------------------------------------------------- rounds

TREE = [
    queue("dept-a", weight=2),
    queue("dept-b", weight=1),
    queue("a-one", parent="dept-a", weight=3),
    queue("a-two", parent="dept-a"),
    queue("group", parent="dept-b"),
    queue("b-one", parent="group"),
    queue("b-two", parent="group", weight=2),
]
LEAF_NAMES = ["a-one", "a-two", "b-one", "b-two"]


def _end_one(world: World, dice: random.Random) -> None:
    running = sorted({(pod.namespace, pod.gang) for pod in world.books.pods.values() if pod.node})
    world.remove_gang(dice.choice(running))


@pytest.mark.parametrize("seed", range(3))
def test_queues_that_always_wait_come_to_hold_what_they_deserve(seed) -> None:
    dice, world = random.Random(seed), World(Policy())
    for state in TREE:
        world.queue(state)
    for number in range(3):
        world.node(node(f"n{number}", gpu=8, cpu=64))
    for number in range(24):
        world.submit(job(f"first-{number}", gang=1, gpu=1, queue=LEAF_NAMES[number % 4] if seed else "b-one"))
    world.settle()
    for number in range(120):
        for name in LEAF_NAMES:
            if not world.model.queues.get(name).waiting:
                for extra in range(3):
                    world.submit(job(f"{name}-{number}-{extra}", gang=1, gpu=1, queue=name))
        _end_one(world, dice)
        world.settle()
    found = world.model.shares()
    column = world.model.resources.column(GPU)
    for name in ["dept-a", "dept-b", "group", *LEAF_NAMES]:
        one = world.model.queues.get(name)
        assert abs(one.held[column] - found.deserved(one)[column]) <= 1, name
    assert [found.deserved(world.model.queues.get(name))[column] for name in LEAF_NAMES] == pytest.approx(
        [12, 4, 8 / 3, 16 / 3]
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_guarantee_can_be_had_at_any_moment_of_any_history(seed) -> None:
    dice, world = random.Random(seed), World(Policy())
    owed = {"dept-a": 6, "a-two": 3, "b-one": 2, "b-two": 3}
    for state in TREE:
        amount = owed.get(state.name)
        world.queue(state.model_copy(update={"guarantee": {GPU: amount} if amount else None}))
    for number in range(4):
        world.node(node(f"n{number}", gpu=4, cpu=64))
    for number in range(150):
        name, size = dice.choice(LEAF_NAMES), dice.randint(1, 4)
        world.submit(job(f"j{number}", gang=size, replicas=size + dice.randint(0, 2), gpu=1, queue=name))
        world.settle()
        if dice.random() < 0.6 and any(pod.node for pod in world.books.pods.values()):
            _end_one(world, dice)
            world.settle()
        held = _held(world)
        lacks = {name: max(0, owed[name] - held[name]) for name in owed}
        kept = max(lacks["dept-a"], lacks["a-two"]) + lacks["b-one"] + lacks["b-two"]
        assert held["root"] + kept <= 16, (number, held)


def _held(world: World) -> dict[str, int]:
    """GPUs by queue, those of queues below included, out of the books."""
    held = dict.fromkeys([*world.books.queues, "root"], 0)
    for pod in world.books.pods.values():
        name = pod.queue if pod.node else ""
        while name:
            held[name] += pod.shape.requests[GPU]
            name = world.books.queues[name].parent if name in world.books.queues else ""
            held["root"] += 0 if name else pod.shape.requests[GPU]
    return held
