"""No starvation: random streams of gangs on small clusters, in virtual time.

Where every gang runs for as long as it declared, a gang that has a reservation starts by the time which that
said, whatever else arrives. Where nobody declares anything, every gang still starts.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from services.scheduler.core.decisions import Decision
from services.scheduler.core.policy import Backfill, Eviction, Policy
from tests.scenarios.scenario import job, node, queue
from tests.scenarios.world import START, Key, World

BACKFILL = Backfill(margin=timedelta(0), in_all=3)
POLICY = Policy(
    hold=timedelta(seconds=60), backfill=BACKFILL, eviction=Eviction(preempt=False, reclaim=False)
)
QUEUES = ["a", "b"]


class Stream:
    """Gangs arrive, are placed at once when the scheduler says so, and end when they have run."""

    def __init__(self, dice: random.Random, *, declared: float, policy: Policy = POLICY) -> None:
        self.dice = dice
        self.declared = declared
        self.world = World(policy)
        for name in QUEUES:
            self.world.queue(queue(name))
        for number in range(dice.randint(2, 5)):
            self.world.node(node(f"n{number}", gpu=4, cpu=8))
        self.gpus = 4 * len(self.world.books.nodes)
        self.ends: list[tuple[datetime, Key]] = []
        self.runs: dict[Key, float] = {}
        self.started: dict[Key, datetime] = {}
        self.promised: dict[Key, datetime] = {}
        self.reserved: set[Key] = set()

    def arrive(self, number: int) -> None:
        dice = self.dice
        gpu = dice.choice([1, 1, 2, 4])
        most = self.gpus // 4 if gpu == 4 else 3
        runs = float(dice.choice([20, 60, 100, 300, 900]))
        key = ("ns", f"j{number}")
        self.runs[key] = runs
        self.world.submit(
            job(
                key[1],
                gang=dice.randint(1, most),
                gpu=gpu,
                queue=dice.choice(QUEUES),
                at=(self.world.now - START).total_seconds(),
                runs=runs if dice.random() < self.declared else None,
            )
        )

    def advance(self, seconds: float) -> None:
        """Let time pass, from one end to the next."""
        until = self.world.now + timedelta(seconds=seconds)
        while self.ends and min(self.ends)[0] <= until:
            self.world.now, key = min(self.ends)
            self.ends.remove((self.world.now, key))
            self.world.remove_gang(key)
            self.settle()
        self.world.now = until
        self.settle()

    def settle(self) -> None:
        for _ in range(20):
            found = self.world.decide()
            if not found:
                return
            for decision in found:
                self.note(decision)
                self.world.carry_out(decision)
        raise AssertionError("the scheduler does not come to rest")

    def note(self, decision: Decision) -> None:
        key = (decision.namespace, decision.name)
        if decision.rows:
            self.started[key] = self.world.now
            self.ends.append((self.world.now + timedelta(seconds=self.runs[key]), key))
        for row in decision.reservations:
            self.reserved.add(key)
            if row.starts is not None:
                self.promised[key] = min(row.starts, self.promised.get(key, row.starts))

    def drain(self) -> None:
        """Nothing arrives any more."""
        for _ in range(200):
            if not self.world.model.unplaced:
                return
            self.advance(100)


@pytest.mark.parametrize("seed", range(16))
def test_a_reserved_gang_starts_by_the_time_that_was_expected_if_run_times_are_kept(seed) -> None:
    stream = Stream(random.Random(seed), declared=1.0)
    for number in range(60):
        stream.arrive(number)
        stream.advance(stream.dice.choice([0, 5, 20, 60]))
    stream.drain()
    assert stream.promised
    for key, at in stream.promised.items():
        assert stream.started[key] <= at + timedelta(milliseconds=1), key


@pytest.mark.parametrize("seed", range(3))
def test_a_gang_of_the_whole_cluster_starts_though_smaller_ones_never_stop_coming(seed) -> None:
    """The smaller ones fill the cluster and end one at a time: only what is reserved lets the large one start."""
    started = {}
    for enabled in (True, False):
        policy = replace(POLICY, backfill=replace(BACKFILL, enabled=enabled))
        stream = Stream(random.Random(seed), declared=seed / 2, policy=policy)
        number = 0
        large = job("large", gang=stream.gpus // 4, gpu=4, queue="a", at=50)
        stream.runs["ns", "large"] = 100.0
        for step in range(120):
            if step == 5:
                stream.world.submit(large)
            for _ in range(2):
                key = ("ns", f"j{number}")
                stream.runs[key] = float(stream.dice.choice([30, 50, 70]))
                runs = stream.runs[key] if stream.dice.random() < stream.declared else None
                at = (stream.world.now - START).total_seconds()
                stream.world.submit(job(key[1], gang=1, gpu=2, queue="a", at=at, runs=runs))
                number += 1
            stream.advance(5)
        started[enabled] = ("ns", "large") in stream.started
    assert started == {True: True, False: False}
