"""Plugins of others that vote on victims, and that say what queues get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from services.scheduler.core.configuration import configure
from services.scheduler.core.own import PluginError
from services.scheduler.core.policy import Policy
from shared.events import contracts as c
from shared.plugins import Plugin
from tests.scenarios.scenario import (
    GPU,
    PENDING,
    RUNNING,
    Scenario,
    job,
    node,
    placed,
    queue,
    sets,
    submits,
    waits,
)
from tests.scenarios.world import World

HEAD = "actions: allocate, preempt, reclaim\ntiers:\n"
OURS = "- plugins: [{name: priority}]\n"


def own(**methods: Callable[..., Any]) -> Callable[[Any], Plugin]:
    """Make a plugin of functions without self."""
    made = type("Ours", (Plugin,), {name: staticmethod(what) for name, what in methods.items()})
    return lambda _arguments: made()


def policy(tiers: str, **makers: Callable[[Any], Plugin]) -> Policy:
    """The policy of tiers, each one line with the names of its plugins."""
    lines = [
        f"- plugins: [{', '.join(f'{{name: {name}}}' for name in line.split())}]\n"
        for line in tiers.split("|")
    ]
    found = configure(HEAD + OURS + "".join(lines), Policy(), makers)
    assert found.problems == ()
    return found.policy


def low(name: str, **wants: Any) -> c.Gang:
    return job(name, **{"gang": 1, "gpu": 1, "priority": 1, **wants})


def high(name: str = "high", **wants: Any) -> c.Gang:
    return job(name, **{"gang": 1, "gpu": 1, "priority": 100, "at": 60, **wants})


def says(test: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda _gang, pods: test(pods)


SPARE_A = own(preemptable=says(lambda pods: pods.gangs != "a"))
SPARE_B = own(preemptable=says(lambda pods: pods.gangs != "b"))
SPARE_ALL = own(preemptable=says(lambda pods: np.zeros(len(pods), bool)))
FOR_URGENT = own(preemptable=lambda gang, pods: np.full(len(pods), gang.name.startswith("urgent")))
NOT_FROM_A = own(reclaimable=says(lambda pods: pods.queues != "a"))
BROKEN = own(preemptable=says(lambda pods: 1 / 0))
TWO = [node("n1", gpu=2)]
AB = [low("a", at=1), low("b", at=2)]


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(
            "a plugin says whose pods are not evicted",
            TWO,
            [low("a", at=2), low("b", at=1)],
            {"high": RUNNING, "a": RUNNING, "b": PENDING},
            then=[submits(high())],
            policy=policy("ours", ours=SPARE_A),
            evicted=["b-worker-0"],
        ),
        Scenario(
            "those that vote in one tier must agree",
            TWO,
            AB,
            {"high": waits("no-room"), "a": RUNNING, "b": RUNNING},
            then=[submits(high())],
            policy=policy("ours theirs", ours=SPARE_A, theirs=SPARE_B),
        ),
        Scenario(
            "the first tier that leaves anybody decides",
            TWO,
            AB,
            {"high": RUNNING, "a": RUNNING},
            then=[submits(high())],
            policy=policy("ours|theirs|gang", ours=SPARE_ALL, theirs=SPARE_A),
            evicted=["b-worker-0"],
        ),
        Scenario(
            "a wrong vote in the last tier lets nobody go whom the tier before spares",
            TWO,
            AB,
            {"high": waits("no-room"), "a": RUNNING, "b": RUNNING},
            then=[submits(high())],
            policy=policy("gang|ours", ours=BROKEN),
        ),
        Scenario(
            "they must agree with Volcano's in the tier",
            [node("n1", gpu=3)],
            [low("a", gang=1, replicas=2), low("b", at=2)],
            {"high": waits("no-room"), "a": placed(2), "b": RUNNING},
            then=[submits(high())],
            policy=policy("ours gang", ours=SPARE_A),
        ),
        Scenario(
            "a gang of which one pod must stay does not go at all",
            TWO,
            [low("a", gang=2)],
            {"high": waits("no-room"), "a": RUNNING},
            then=[submits(high())],
            policy=policy("ours", ours=own(preemptable=says(lambda pods: pods.names != "a-worker-1"))),
        ),
        Scenario(
            "it may say so for one gang and not for another of the same priority and queue",
            [node("n1", gpu=1)],
            [low("a")],
            {"high": waits("no-room"), "urgent": RUNNING},
            then=[submits(high()), submits(high("urgent", at=90, cpu=2))],
            policy=policy("ours", ours=FOR_URGENT),
            evicted=["a-worker-0"],
        ),
        Scenario(
            "a vote on preemption is none on what is taken back from other queues",
            TWO,
            [low("a", queue="a"), low("b", queue="a")],
            {"claims": RUNNING},
            [queue("a"), queue("b")],
            then=[submits(job("claims", gang=1, gpu=1, queue="b", at=60))],
            policy=policy("ours|proportion", ours=SPARE_ALL),
            evicted=["b-worker-0"],
        ),
        Scenario(
            "a plugin says from which queues nothing is taken back",
            TWO,
            [low("a", queue="a"), low("b", queue="a")],
            {"claims": waits("no-room"), "a": RUNNING, "b": RUNNING},
            [queue("a"), queue("b")],
            then=[submits(job("claims", gang=1, gpu=1, queue="b", at=60))],
            policy=policy("ours|proportion", ours=NOT_FROM_A),
        ),
    ],
    ids=lambda scenario: scenario.name,
)
def test_votes_on_victims_count(scenario: Scenario) -> None:
    scenario.run()


def test_a_plugin_sees_what_there_is_to_know_of_pods() -> None:
    seen: list[object] = []

    def look(gang: Any, pods: Any) -> Any:
        columns = (pods.namespaces, pods.names, pods.gangs, pods.queues, pods.nodes, pods.priorities)
        seen.append((gang.name, len(pods), *(column.tolist() for column in columns)))
        seen.append((pods.requests(GPU).tolist(), pods.requests("unknown").tolist()))
        seen.append(pods.bound_at.dtype.kind)
        return np.ones(len(pods), bool)

    chosen = policy("ours", ours=own(preemptable=look))
    Scenario("", [node("n1", gpu=1)], [low("a")], {"high": RUNNING}, then=[submits(high())], policy=chosen,
             evicted=["a-worker-0"]).run()  # fmt: skip
    assert seen[:3] == [
        ("high", 1, ["ns"], ["a-worker-0"], ["a"], ["default"], ["n1"], [1]),
        ([1], [0]),
        "f",
    ]
    assert not chosen.own[0].failures


WRONG = {
    "raised ZeroDivisionError: division by zero": lambda *_: 1 / 0,
    "answered with shape (0,), asked about 1": lambda *_: np.zeros(0, bool),
    "answered with int64, bool were asked for": lambda _, pods: pods.priorities,
    "raised ValueError: assignment destination is read-only": lambda _, pods: pods.priorities.fill(0),
}


@pytest.mark.parametrize(("words", "vote"), WRONG.items(), ids=WRONG.keys())
def test_a_wrong_vote_is_skipped_and_named(words: str, vote: Callable[..., Any]) -> None:
    chosen = policy("ours", ours=own(preemptable=vote))
    Scenario("", [node("n1", gpu=1)], [low("a")], {"high": RUNNING}, then=[submits(high())], policy=chosen,
             evicted=["a-worker-0"]).run()  # fmt: skip
    assert set(chosen.own[0].failures) == {f"plugin ours: preemptable: {words}"}


def test_a_tier_in_which_nobody_else_votes_is_passed_over_when_its_vote_is_wrong() -> None:
    chosen = policy("ours|gang", ours=BROKEN)
    Scenario("", [node("n1", gpu=1)], [low("a")], {"high": waits("no-room"), "a": RUNNING},
             then=[submits(high())], policy=chosen).run()  # fmt: skip


def test_with_fatal_errors_nobody_is_evicted() -> None:
    file = HEAD + OURS + "- plugins: [{name: ours, onError: fatal}]"
    world = World(configure(file, Policy(), {"ours": BROKEN}).policy)
    world.queue(queue("default"))
    world.node(node("n1", gpu=1))
    world.submit(low("a"))
    world.settle()
    world.submit(high())
    with pytest.raises(PluginError, match="plugin ours: preemptable: raised ZeroDivisionError"):
        world.decide()
    assert world.books.evicted == []


# ---------------------------------------------------------------------- shares

FOUR = [node("n1", gpu=4)]
THRICE_A = own(shares=lambda queues: np.array([3.0 if one.name == "a" else 1.0 for one in queues]))
DOUBLE_NAMED = own(shares=lambda queues: np.array([2.0 if one.deserved else 1.0 for one in queues]))


def jobs(name: str, count: int) -> list[c.Gang]:
    return [job(f"{name}{number}", gang=1, gpu=1, queue=name, at=number) for number in range(count)]


def held(scenario: Scenario) -> dict[str, int]:
    """Return how many GPUs each queue holds in the end."""
    world = World(scenario.policy)
    for state in (queue("default"), *scenario.queues):
        world.queue(state)
    for one in scenario.nodes:
        world.node(one)
    for gang in scenario.jobs:
        world.submit(gang)
    world.settle()
    for step in scenario.then:
        step(world)
        world.settle()
    found: dict[str, int] = {}
    for pod in world.books.pods.values():
        if pod.node is not None:
            found[pod.queue] = found.get(pod.queue, 0) + 1
    return found


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        (
            Scenario(
                "a queue's weight counts as many times as a plugin says",
                FOUR,
                [*jobs("a", 4), *jobs("b", 4)],
                queues=[queue("a"), queue("b")],
                policy=policy("ours|proportion", ours=THRICE_A),
            ),
            {"a": 3, "b": 1},
        ),
        (
            Scenario(
                "and so does what it names as deserved",
                FOUR,
                [*jobs("a", 4), *jobs("b", 4)],
                queues=[queue("a", deserved={"gpu": 1}), queue("b", deserved={"gpu": 1})],
                policy=policy("ours|capacity", ours=THRICE_A),
            ),
            {"a": 3, "b": 1},
        ),
        (
            Scenario(
                "what several plugins say is multiplied",
                [node("n1", gpu=5)],
                [*jobs("a", 5), *jobs("b", 5)],
                queues=[queue("a", priority=0), queue("b", deserved={"gpu": 1})],
                policy=policy("ours theirs|proportion", ours=DOUBLE_NAMED, theirs=own(
                    shares=lambda queues: np.array([2.0 if one.name == "b" else 1.0 for one in queues])
                )),
            ),
            {"a": 1, "b": 4},
        ),
        (
            Scenario(
                "it is asked again when the queue changes",
                FOUR,
                [*jobs("a", 4), *jobs("b", 4)],
                queues=[queue("a"), queue("b")],
                then=[sets(queue("b", deserved={"gpu": 3}))],
                policy=policy("ours|proportion", ours=own(
                    shares=lambda queues: np.array([3.0 if one.deserved else 1.0 for one in queues])
                )),
            ),
            {"a": 1, "b": 3},
        ),
        (
            Scenario(
                "it does not get more than its capability by that",
                FOUR,
                [*jobs("a", 4), *jobs("b", 4)],
                queues=[queue("a", gpu=2), queue("b")],
                policy=policy("ours|proportion", ours=THRICE_A),
            ),
            {"a": 2, "b": 2},
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Scenario) else "",
)  # fmt: skip
def test_what_a_plugin_says_of_shares_counts(scenario: Scenario, expected: dict[str, int]) -> None:
    assert held(scenario) == expected


SHARES_WRONG = {
    "answered with a number that is not from 0.001 to 1000": lambda queues: np.zeros(len(queues)),
    "answered with a number that is none": lambda queues: np.full(len(queues), np.nan),
    "answered with shape (1,), asked about 3": lambda queues: np.ones(1),
    "raised KeyError: 'team'": lambda queues: [one.deserved["team"] for one in queues if one.deserved],
}


@pytest.mark.parametrize(("words", "shares"), SHARES_WRONG.items(), ids=SHARES_WRONG.keys())
def test_a_wrong_share_is_skipped_and_named(words: str, shares: Callable[..., Any]) -> None:
    chosen = policy("ours|proportion", ours=own(shares=shares))
    queues = [queue("a"), queue("b", deserved={"gpu": 1})]
    assert held(Scenario("", FOUR, [*jobs("a", 4), *jobs("b", 4)], queues=queues, policy=chosen)) == {
        "a": 2,
        "b": 2,
    }
    assert set(chosen.own[0].failures) == {f"plugin ours: shares: {words}"}


def test_shares_are_as_named_again_when_the_plugin_goes() -> None:
    world = World(policy("ours|proportion", ours=THRICE_A))
    world.queue(queue("a", weight=2, deserved={"gpu": 2}))
    world.settle()
    one, gpus = world.model.queues.get("a"), world.model.resources.column(GPU)
    assert (one.weight, one.deserved) == (6, {gpus: 6})
    world.set_policy(policy("proportion"))
    world.settle()
    assert (one.weight, one.deserved) == (2, {gpus: 2})
