"""Volcano's ``rescheduling`` in a configuration: what it comes to, and each thing that is wrong with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import yaml

from services.scheduler.core.configuration import Configured, configure
from services.scheduler.core.load import Levelling
from services.scheduler.core.policy import Policy

PATH = "tiers[0].plugins[0]"
ARGUMENTS = f"{PATH}.arguments"
SOURCE = {"address": "http://prometheus:9090"}
EXAMPLE = """
actions: "enqueue, allocate, backfill, shuffle"
tiers:
- plugins:
  - name: rescheduling
    arguments:
      interval: 10m
      metricsPeriod: 10m
      strategies:
      - name: lowNodeUtilization
        params:
          thresholds: {cpu: 20, memory: 30.5, pods: "40"}
          targetThresholds: {cpu: 50, memory: 60}
          thresholdPriorityClassName: high
          nodeFit: true
      queueSelector: [a, b, a]
metrics: {address: "http://prometheus:9090"}
"""


def read(
    actions: str = "allocate, shuffle", metrics: object = SOURCE, switch: bool = True, **arguments: object
) -> Configured:
    plugin: dict[str, object] = {"name": "rescheduling", "arguments": arguments}
    if not switch:
        plugin["enabledVictim"] = False
    document = {"actions": actions, "tiers": [{"plugins": [plugin]}], "metrics": metrics}
    return configure(yaml.safe_dump(document), Policy())


def strategies(name: str = "lowNodeUtilization", **params: object) -> list[dict[str, Any]]:
    return [{"name": name, "params": params}]


def test_who_leaves_which_nodes_is_said_by_the_strategy() -> None:
    found = configure(EXAMPLE, Policy())
    assert (found.problems, found.notes) == ((), ())
    assert found.policy.levelling == Levelling(
        (20.0, 30.5, 40.0), (50.0, 60.0, 100.0), timedelta(minutes=10), queues=("a", "b"), spared="high"
    )
    assert found.source is not None


def test_volcanos_own_bounds_hold_where_a_file_names_none_and_then_nobody_leaves() -> None:
    for arguments in ({}, {"strategies": []}, {"strategies": [{"name": "lowNodeUtilization"}]}):
        found = read(**arguments)
        assert found.problems == ()
        assert found.policy.levelling == Levelling()
        words = "plugin rescheduling taken, but without targetThresholds below 100 it changes nothing"
        assert found.notes == (f"{PATH}.name: {words}",)


def test_without_the_action_or_the_switch_or_a_source_nobody_leaves() -> None:
    bounds = strategies(thresholds={"cpu": 20}, targetThresholds={"cpu": 50})
    assert read(strategies=bounds).notes == ()
    taken = f"{PATH}.name: plugin rescheduling taken, but without"
    still = read("allocate", strategies=bounds)
    assert still.policy.levelling is None
    assert still.notes == (f"{taken} the action shuffle it changes nothing",)
    blind = read(metrics=None, strategies=bounds)
    assert blind.notes == (f"{taken} a part metrics, which says where figures come from, it changes nothing",)
    off = read(switch=False, strategies=bounds)
    assert (off.policy.levelling, off.notes) == (None, ())
    assert configure("actions: allocate", Policy(levelling=Levelling())).policy.levelling is None


def test_another_period_than_that_of_the_figures_is_said_not_to_be_done() -> None:
    bounds = strategies(thresholds={"cpu": 20}, targetThresholds={"cpu": 50})
    found = read(strategies=bounds, metricsPeriod="5m")
    assert found.problems == ()
    words = "taken, but figures are means of 10m, whatever it says"
    assert found.notes == (f"{ARGUMENTS}.metricsPeriod: {words}",)


@pytest.mark.parametrize(
    ("arguments", "path", "says"),
    [
        ({"interval": "0s"}, "interval", "a time of 1s or more"),
        ({"intervall": "5m"}, "intervall", "did you mean interval?"),
        ({"metricsPeriod": "soon"}, "metricsPeriod", "a time such as 90s"),
        ({"strategies": {}}, "strategies", "a list of one strategy, lowNodeUtilization"),
        ({"strategies": strategies() * 2}, "strategies", "a list of one strategy, lowNodeUtilization"),
        ({"strategies": [1]}, "strategies", "each with name, params"),
        ({"strategies": [{"nam": "x"}]}, "strategies", "and not nam"),
        ({"strategies": strategies("highNodeUtilization")}, "strategies", "and not 'highNodeUtilization'"),
        ({"strategies": [{"name": "lowNodeUtilization", "params": [1]}]}, "strategies", "params are a mapping"),
        ({"strategies": strategies(threshold={})}, "strategies", "and not threshold"),
        ({"strategies": strategies(thresholds={"gpu": 1})}, "strategies", "and not gpu"),
        ({"strategies": strategies(thresholds=[1])}, "strategies", "each with cpu, memory, pods"),
        (
            {"strategies": strategies(targetThresholds={"cpu": 101})},
            "strategies",
            "targetThresholds.cpu is a number from 0 to 100",
        ),
        (
            {"strategies": strategies(thresholds={"cpu": 60}, targetThresholds={"cpu": 50})},
            "strategies",
            "60 is more than 50",
        ),
        (
            {"strategies": strategies(targetThresholds={"memory": 50})},
            "strategies",
            "thresholds.memory is no more than targetThresholds.memory (100 if not named): 100 is more than 50",
        ),
        ({"strategies": strategies(nodeFit=False)}, "strategies", "nobody leaves without room elsewhere"),
        (
            {"strategies": strategies(thresholdPriorityClassName=5)},
            "strategies",
            "thresholdPriorityClassName is a text",
        ),
        ({"queueSelector": "a"}, "queueSelector", "a list of names"),
        ({"labelSelector": {"a": "b"}}, "labelSelector", "refused: facts about pods do not tell all their labels"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(arguments: dict[str, object], path: str, says: str) -> None:
    [problem] = read(**arguments).problems
    assert problem.path == f"{ARGUMENTS}.{path}"
    assert says in problem.message
