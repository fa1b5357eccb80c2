"""Plugins of others: what they say counts, what they say wrongly is named and harms nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from services.scheduler.core.configuration import configure
from services.scheduler.core.own import PluginError
from services.scheduler.core.policy import Policy
from shared.plugins import Plugin
from tests.scenarios.scenario import Scenario, check, job, node, passes, placed, queue, submits, waits
from tests.scenarios.world import World

FILE = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: ours
    onError: {on_error}
    arguments: {arguments}
"""


def policy(make: Callable[[Any], Plugin], on_error: str = "skip", arguments: str = "{}") -> Policy:
    found = configure(FILE.format(on_error=on_error, arguments=arguments), Policy(), {"ours": make})
    assert found.problems == ()
    return found.policy


def own(**methods: Callable[..., Any]) -> Callable[[Any], Plugin]:
    """Make a plugin of functions without self."""
    made = type("Ours", (Plugin,), {name: staticmethod(what) for name, what in methods.items()})
    return lambda _arguments: made()


ZONE_A = own(feasible=lambda _shape, nodes: nodes.where("zone", lambda zone: zone == "a"))
CHEAP = own(scores=lambda _shape, nodes: -nodes.numbers("price", 100.0))
SPREAD = own(scores=lambda _shape, nodes: -nodes.used("nvidia.com/gpu").astype(float))
ON_BIG = own(
    feasible=lambda shape, nodes: nodes.allocatable("nvidia.com/gpu") >= 4 * shape.requests["nvidia.com/gpu"]
)
LARGE_FIRST = own(order=lambda gangs: np.array([-gang.pods for gang in gangs], float))
ZONES = [node("n1", gpu=8, labels={"zone": "b"}), node("n2", gpu=8, labels={"zone": "a"})]
PRICES = [
    node("n1", gpu=2),
    node("n2", gpu=2, labels={"price": "3.5"}),
    node("n3", gpu=2, labels={"price": "?"}),
]


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(
            "pods run only where a plugin lets them",
            ZONES,
            [job("a", replicas=2, gpu=1)],
            {"a": placed(n2=2)},
            policy=policy(ZONE_A),
        ),
        Scenario(
            "a gang that a plugin refuses everywhere is told so",
            [node("n1", gpu=8)],
            [job("a", gpu=1)],
            {"a": waits("no-node-accepted", "1 is refused by a plugin (ours)")},
            policy=policy(ZONE_A),
        ),
        Scenario(
            "nodes that a plugin refuses are among the reasons",
            [*ZONES, node("n3", gpu=8)],
            [job("a", replicas=2, gpu=8)],
            {"a": waits("gang-too-large", "2 nodes are refused by a plugin (ours)")},
            policy=policy(ZONE_A),
        ),
        Scenario(
            "what a plugin says of a node follows the node's labels",
            [node("n1", gpu=8)],
            [job("a", gpu=1)],
            {"a": placed(n1=1)},
            then=[lambda world: world.node(node("n1", gpu=8, labels={"zone": "a"}))],
            policy=policy(ZONE_A),
        ),
        Scenario(
            "what a plugin says of a node follows the node's capacity",
            [node("n1", gpu=3)],
            [job("a", gpu=1)],
            {"a": placed(n1=1)},
            then=[lambda world: world.node(node("n1", gpu=4))],
            policy=policy(ON_BIG),
        ),
        Scenario(
            "a plugin is asked about each shape",
            [node("n1", gpu=4), node("n2", gpu=8)],
            [job("a", replicas=2, gpu=2), job("b", gpu=1)],
            {"a": placed(n2=2), "b": placed(n1=1)},
            policy=policy(ON_BIG),
        ),
        Scenario(
            "nodes that a plugin scores higher are filled first",
            PRICES,
            [job("a", replicas=3, gpu=1)],
            {"a": placed(n2=2, n1=1)},
            policy=policy(CHEAP),
        ),
        Scenario(
            "scores that fall with use spread pods",
            [node("n1", gpu=4), node("n2", gpu=4)],
            [job("a", replicas=4, gpu=1)],
            {"a": placed(n1=2, n2=2)},
            policy=policy(SPREAD),
        ),
        Scenario(
            "a plugin says which gang comes first",
            [node("n1", gpu=2)],
            [job("small", gpu=1), job("large", replicas=2, gpu=1, at=1)],
            {"large": placed(n1=2), "small": waits("no-room")},
            policy=policy(LARGE_FIRST),
        ),
    ],
    ids=lambda scenario: scenario.name,
)
def test_what_a_plugin_says_counts(scenario: Scenario) -> None:
    scenario.run()


WRONG = {
    "raised ZeroDivisionError: division by zero": lambda *_: 1 / 0,
    "answered with shape (3,), asked about 1": lambda *_: np.zeros(3, bool),
    "answered with float64, bool were asked for": lambda *_: np.zeros(1),
    "answered with shape (), asked about 1": lambda *_: None,
    "raised ValueError: assignment destination is read-only": lambda _, nodes: nodes.allocatable("cpu").fill(
        0
    ),
}


@pytest.mark.parametrize(("words", "feasible"), WRONG.items(), ids=WRONG.keys())
def test_a_wrong_answer_is_skipped_and_named(words: str, feasible: Callable[..., Any]) -> None:
    chosen = policy(own(feasible=feasible))
    Scenario("", [node("n1", gpu=1)], [job("a", gpu=1)], {"a": placed(n1=1)}, policy=chosen).run()
    assert set(chosen.own[0].failures) == {f"plugin ours: feasible: {words}"}


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_wrong(value: float) -> None:
    chosen = policy(own(scores=lambda _, nodes: np.full(len(nodes), value)))
    Scenario("", [node("n1", gpu=1)], [job("a", gpu=1)], {"a": placed(n1=1)}, policy=chosen).run()
    assert set(chosen.own[0].failures) == {"plugin ours: scores: answered with a number that is none"}


def test_with_fatal_errors_nothing_is_decided() -> None:
    world = World(policy(own(feasible=lambda *_: 1 / 0), on_error="fatal"))
    world.queue(queue("default"))
    world.node(node("n1", gpu=1))
    world.submit(job("a", gpu=1))
    with pytest.raises(PluginError, match="plugin ours: feasible: raised ZeroDivisionError"):
        world.decide()


def test_a_plugin_is_equal_to_one_that_is_configured_so() -> None:
    one = policy(CHEAP, arguments="{x: 1, y: [2]}")
    assert one == policy(CHEAP, arguments="{y: [2], x: 1}")
    assert one.digest == policy(CHEAP, arguments="{y: [2], x: 1}").digest
    for other in (policy(CHEAP, arguments="{x: 2}"), policy(CHEAP, "fatal", "{x: 1, y: [2]}")):
        assert one != other
        assert one.digest != other.digest


def test_a_plugin_that_comes_and_goes_leaves_nothing_behind() -> None:
    world = World()
    world.queue(queue("default"))
    for one in ZONES:
        world.node(one)
    submits(job("before", gpu=1))(world)
    world.settle()
    for name, chosen, where in (("with", policy(ZONE_A), "n2"), ("after", Policy(), "n1")):
        world.set_policy(chosen)
        submits(job(name, gpu=1))(world)
        world.settle()
        check(world, name, placed(**{where: 1}))


def test_room_is_kept_elsewhere_when_a_plugin_comes_that_does_not_let_the_gang_run_there() -> None:
    world = World()
    world.queue(queue("default"))
    for one in ZONES:
        world.node(one)
    submits(job("first", gpu=8, runs=3600))(world)
    submits(job("second", gpu=8, runs=7200))(world)
    world.settle()
    submits(job("waits", gpu=8))(world)
    passes(301)(world)
    world.settle()
    assert kept(world) == ["n1"]
    world.set_policy(policy(ZONE_A))
    world.settle()
    assert kept(world) == ["n2"]


def kept(world: World) -> list[str]:
    marks = (mark for mark in world.model.reservations)
    return [world.model.nodes.names[slot] for mark in marks for _, slots, _ in mark.places for slot in slots]


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda arguments: arguments["x"], "arguments: plugin ours: raised KeyError: 'x'"),
        (lambda arguments: int("x"), "arguments: plugin ours: invalid literal for int() with base 10: 'x'"),
        (lambda arguments: 3, "plugin ours: its maker returned a int, no shared.plugins.Plugin"),
    ],
)  # fmt: skip
def test_a_plugin_that_cannot_be_made_is_a_problem_of_the_file(make: Callable[..., Any], line: str) -> None:
    found = configure(FILE.format(on_error="skip", arguments="{}"), Policy(), {"ours": make})
    [problem] = found.problems
    assert str(problem) == f"tiers[0].plugins[1]{'.' if line.startswith('arg') else ': '}{line}"


def test_an_installed_plugin_does_not_take_the_place_of_one_of_volcanos() -> None:
    def make(arguments: object) -> Any:
        pytest.fail(f"asked with {arguments}")

    assert configure("actions: allocate\ntiers: [{plugins: [{name: gang}]}]", Policy(), {"gang": make}) == (
        configure("actions: allocate\ntiers: [{plugins: [{name: gang}]}]", Policy())
    )
