"""A configuration file of Volcano's becomes a policy, or each thing that is wrong with it is named."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Literal

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.scheduler.core.configuration import Source, configure
from services.scheduler.core.configuration.found import Code
from services.scheduler.core.configuration.reader import ACTIONS, PLUGINS
from services.scheduler.core.configuration.terms import SWITCHES, Action, Stand
from services.scheduler.core.configuration.terms import Plugin as Word
from services.scheduler.core.load import LoadLimit, LoadScore
from services.scheduler.core.policy import (
    Defragmentation,
    FitRule,
    Fragmentation,
    Grouping,
    Policy,
    Proportion,
    Scarce,
    Sharing,
    StrategyFit,
    Window,
    Zones,
)
from shared.plugins import Plugin
from tests.unit.scheduler.volcano_files import BUILT_IN, CI, HELM

BOTH: tuple[Literal["priority", "share"], ...] = ("priority", "share")
PLAIN = 'actions: "enqueue, allocate, backfill"\ntiers:\n'


def lines(text: str, *own: str) -> list[str]:
    makers = {name: lambda _arguments: Plugin() for name in own}
    return [str(problem) for problem in configure(text, Policy(), makers).problems]


def tiers(*plugins: dict[str, object]) -> str:
    return yaml.safe_dump({"actions": "allocate", "tiers": [{"plugins": list(plugins)}]})


@pytest.mark.parametrize("text", [BUILT_IN, HELM, CI], ids=["built-in", "helm", "ci"])
def test_the_files_that_volcano_comes_with_are_taken(text: str) -> None:
    assert lines(text) == []


def test_volcanos_own_weights_hold_where_a_file_names_none() -> None:
    scores = configure(HELM, Policy()).policy.scores
    assert (scores.node_affinity_weight, scores.taint_weight) == (2.0, 3.0)
    assert scores.binpack_weight == 1.0
    weights = [scores.resource_weight(name) for name in ("cpu", "memory", "pods", "nvidia.com/gpu")]
    assert weights == [1.0, 1.0, 0.0, 0.0]


def test_a_plugin_that_is_not_named_is_off_and_so_is_one_whose_switch_is_off() -> None:
    bare = configure(BUILT_IN, Policy()).policy.scores
    assert bare.binpack_weight == 0.0
    off: list[dict[str, object]] = [
        {"name": name, "enableNodeOrder": False} for name in ("binpack", "nodeorder")
    ]
    for text in (tiers({"name": "gang"}), tiers(*off)):
        scores = configure(text, Policy()).policy.scores
        assert (scores.binpack_weight, scores.node_affinity_weight, scores.taint_weight) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("plugins", "sharing"),
    [
        ([], Sharing("mixed", False, (), ("broken",))),
        (
            ["priority", "gang", "drf", "proportion"],
            Sharing("proportion", False, BOTH, ("priority", "broken", "share")),
        ),
        (["drf", "capacity", "priority"], Sharing("capacity", False, BOTH, ("share", "priority", "broken"))),
        ([{"name": "capacity", "enableHierarchy": True}], Sharing("capacity", True, BOTH, ("broken",))),
        ([{"name": "drf", "enableHierarchy": True}], Sharing("drf", True, BOTH, ("broken", "share"))),
        ([{"name": "proportion", "enableQueueOrder": False}], Sharing("proportion", False, (), ("broken",))),
        ([{"name": "priority", "enableJobOrder": False}], Sharing("mixed", False, (), ("broken",))),
        (
            [{"name": "sla", "arguments": {"sla-waiting-time": "1h30m"}}],
            Sharing("mixed", False, (), ("broken", "deadline"), timedelta(minutes=90)),
        ),
    ],
)
def test_who_comes_first_follows_from_the_plugins_that_are_named(
    plugins: list[str | dict[str, object]], sharing: Sharing
) -> None:
    named: list[dict[str, object]] = [{"name": one} if isinstance(one, str) else one for one in plugins]
    found = configure(tiers(*named), Policy())
    assert found.problems == ()
    assert found.policy.sharing == sharing


def test_parts_of_gpus_are_laid_and_nodes_compared_as_deviceshare_says() -> None:
    arguments = {
        "deviceshare.VGPUEnable": True,
        "deviceshare.SchedulePolicy": "spread",
        "deviceshare.ScheduleWeight": 10,
        "deviceshare.KnownGeometriesCMNamespace": "kube-system",
    }
    found = configure(tiers({"name": "deviceshare", "arguments": arguments}), Policy())
    assert found.problems == ()
    assert (found.policy.scores.device_policy, found.policy.scores.device_weight) == ("spread", 10.0)
    off = {"name": "deviceshare", "enableNodeOrder": False, "arguments": arguments}
    scores = configure(tiers(off), Policy()).policy.scores
    assert (scores.device_policy, scores.device_weight) == ("spread", 0.0)
    assert configure(tiers({"name": "gang"}), Policy()).policy.scores.device_policy == ""


def test_the_node_lock_is_said_not_to_be_done_and_npus_are_refused() -> None:
    lock = {"name": "deviceshare", "arguments": {"deviceshare.NodeLockEnable": True}}
    found = configure(tiers(lock), Policy())
    assert found.problems == ()
    assert ["nodes are not locked" in note for note in found.notes] == [True]
    npus = {"name": "deviceshare", "arguments": {"deviceshare.AscendHAMiVNPUEnable": True}}
    [line] = lines(tiers(npus))
    assert line.endswith("refused: parts of NPUs are not placed yet")


def test_who_may_be_evicted_is_said_by_actions_and_by_the_plugins_of_each_tier() -> None:
    helm = configure(HELM, Policy()).policy.eviction
    assert (helm.preempt, helm.reclaim) == (False, False)
    ci = configure(CI, Policy()).policy.eviction
    assert (ci.preempt, ci.reclaim) == (True, True)
    assert ci.preempt_filters == (("conformance",),)
    assert ci.reclaim_filters == (("gang", "conformance"),)
    tiers_ = [{"plugins": [{"name": "cdp"}]}, {"plugins": [{"name": "gang"}, {"name": "drf"}]}]
    two = yaml.safe_dump(
        {"actions": "allocate, gangpreempt", "tiers": [*tiers_, {"plugins": [{"name": "drf"}]}]}
    )
    found = configure(two.replace("- name: drf\n", "- name: pdb\n", 1), Policy()).policy.eviction
    assert (found.preempt, found.reclaim) == (True, False)
    assert found.preempt_filters == (("cdp", "conformance"), ("gang", "pdb", "conformance"))


@pytest.mark.parametrize(
    ("plugin", "grouping"),
    [
        ({}, Grouping()),
        (
            {"enableHierarchy": True, "arguments": {"strict": False, "enablePreferredOrder": True}},
            Grouping(strict=False, ordered=True, hierarchy=True),
        ),
        ({"enablePredicate": False}, Grouping(filters=False)),
        ({"enableNodeOrder": False}, Grouping(scores=False)),
        ({"enablePredicate": False, "enableNodeOrder": False}, None),
    ],
)
def test_groups_of_nodes_are_heeded_as_the_plugin_says(
    plugin: dict[str, object], grouping: Grouping | None
) -> None:
    found = configure(tiers({"name": "nodegroup", **plugin}), Policy(grouping=Grouping(strict=False)))
    assert found.problems == ()
    assert found.policy.grouping == grouping
    assert configure(tiers({"name": "gang"}), Policy(grouping=Grouping())).policy.grouping is None


def test_zones_are_open_as_the_plugin_says_and_cleared_where_shuffle_is_named() -> None:
    def zones(actions: str = "allocate, shuffle", **plugin: object) -> Zones | None:
        text = tiers({"name": "tdm", **plugin}).replace("allocate", actions)
        found = configure(text, Policy())
        assert found.problems == ()
        return found.policy.zones

    hours = {"tdm.revocable-zone.b": "22:00-06:30", "tdm.revocable-zone.a": "08:00-09:00"}
    windows = (Window("a", 480, 540), Window("b", 1320, 390))
    assert zones(arguments=hours) == Zones(windows)
    assert zones(arguments={"tdm.evict.period": "90s"}) == Zones(period=timedelta(seconds=90))
    assert zones("allocate") == zones(enabledVictim=False) == Zones(evicts=False)
    assert zones(enablePredicate=False, enableNodeOrder=False) == Zones(filters=False, scores=False)
    assert configure(tiers({"name": "gang"}), Policy(zones=Zones())).policy.zones is None


def test_gangs_move_where_the_action_is_named_and_as_its_arguments_say() -> None:
    def moves(actions: str, **arguments: object) -> Defragmentation:
        text = tiers({"name": "gang"}).replace("allocate", actions)
        if arguments:
            text += yaml.safe_dump({"configurations": [{"name": "defragment", "arguments": arguments}]})
        found = configure(text, Policy())
        assert found.problems == ()
        return found.policy.defragmentation

    assert moves("allocate") == Defragmentation()
    assert moves("allocate, defragment") == Defragmentation(enabled=True)
    assert moves("allocate, defragment", after="90s", threshold=0.5) == Defragmentation(
        enabled=True, after=timedelta(seconds=90), threshold=0.5
    )
    chosen = moves("allocate, defragment", period="10s", mostPods=3, rest="2h")
    assert (chosen.period, chosen.most_pods, chosen.rest) == (timedelta(seconds=10), 3, timedelta(hours=2))


@pytest.mark.parametrize(
    ("argument", "value", "says"),
    [
        ("period", "0s", "a time of 1s or more"),
        ("threshold", 1.5, "from 0 to 1"),
        ("mostPods", 0, "1 or more"),
        ("after", "soon", "a time such as 90s"),
    ],
)
def test_how_gangs_move_cannot_be_just_anything(argument, value, says) -> None:
    text = tiers({"name": "gang"}).replace("allocate", "allocate, defragment")
    text += yaml.safe_dump({"configurations": [{"name": "defragment", "arguments": {argument: value}}]})
    (problem,) = configure(text, Policy()).problems
    assert problem.path == f"configurations[0].arguments.{argument}"
    assert says in problem.message


def test_tdm_votes_on_who_is_preempted_and_on_the_order_of_gangs() -> None:
    text = tiers({"name": "priority"}, {"name": "tdm"}).replace("allocate", "allocate, preempt, reclaim")
    policy = configure(text, Policy()).policy
    assert policy.eviction.preempt_filters == (("tdm", "conformance"),)
    assert policy.eviction.reclaim_filters == (("conformance",),)
    assert policy.sharing.gang_order == ("priority", "broken", "lasting")


@pytest.mark.parametrize(
    "hours", ["8:00-9:00", "08:00", "24:00-01:00", "08:60-09:00", "08:00-09:00-10:00", 8]
)
def test_hours_that_are_none_are_refused(hours: object) -> None:
    [line] = lines(tiers({"name": "tdm", "arguments": {"tdm.revocable-zone.a": hours}}))
    assert line.startswith("tiers[0].plugins[0].arguments.tdm.revocable-zone.a: must be hours such as")


def test_gangs_are_cut_only_down_to_their_minimum_where_whole_ones_may_not_go() -> None:
    wish = [{"name": "gangpreempt", "arguments": {"allowWholeBundle": False}}]
    cases: list[tuple[list[object], tuple[tuple[str, ...], ...]]] = [
        ([], (("conformance", "gang"),)),
        ([{"name": "cdp"}], (("cdp", "conformance", "gang"),)),
    ]
    for plugins, filters in cases:
        document = {
            "actions": "allocate, gangpreempt",
            "tiers": [{"plugins": plugins}],
            "configurations": wish,
        }
        assert configure(yaml.safe_dump(document), Policy()).policy.eviction.preempt_filters == filters


def test_what_a_file_cannot_say_stays_as_the_settings_have_it() -> None:
    base = Policy(hold=timedelta(seconds=7))
    assert configure(HELM, base).policy.hold == timedelta(seconds=7)


def test_weights_of_resources_are_read_as_volcano_writes_them() -> None:
    arguments = {
        "binpack.weight": 10,
        "binpack.cpu": "5",
        "binpack.resources": "nvidia.com/gpu, example.com/foo",
        "binpack.resources.nvidia.com/gpu": 2,
    }
    found = configure(tiers({"name": "binpack", "arguments": arguments}), Policy())
    assert found.problems == ()
    scores = found.policy.scores
    names = ("cpu", "memory", "nvidia.com/gpu", "example.com/foo", "example.com/bar")
    assert [scores.resource_weight(name) for name in names] == [5.0, 1.0, 2.0, 1.0, 0.0]
    assert scores.binpack_weight == 10.0


def test_no_score_counts_that_is_not_named() -> None:
    scores = configure(tiers({"name": "gang"}), Policy()).policy.scores
    assert all(getattr(scores, one.name) == 0.0 for one in fields(scores) if one.name.endswith("_weight"))
    assert (scores.strategy_fit, scores.fragmentation, scores.extra) == (None, None, ())


def test_scarce_resources_are_those_that_sra_names() -> None:
    def scarce(sra: object) -> tuple[Scarce | None, list[str]]:
        text = tiers({"name": "resource-strategy-fit", "arguments": {"sra": sra}})
        return configure(text, Policy()).policy.scores.scarce, lines(text)

    whole = {"enable": True, "resources": "nvidia.com/gpu, example.com/x", "weight": 10}
    found = Scarce(10.0, (("nvidia.com/gpu", 1.0), ("example.com/x", 3.0)))
    assert scarce({**whole, "resourceWeight": {"example.com/x": 3}}) == (found, [])
    assert scarce({**whole, "enable": False}) == (None, [])
    for wrong in ({"enable": True, "resources": "x"}, {**whole, "weigth": 1}, [1]):
        assert len(scarce(wrong)[1]) == 1


def test_what_stays_free_beside_scarce_resources_is_said_by_proportional() -> None:
    def kept(part: object, **plugin: object) -> tuple[tuple[Proportion, ...], list[str]]:
        text = tiers({"name": "resource-strategy-fit", "arguments": {"proportional": part}, **plugin})
        return configure(text, Policy()).policy.proportions, lines(text)

    whole = {"enable": True, "resources": "nvidia.com/gpu", "resourceProportion": {"nvidia.com/gpu.cpu": 4}}
    assert kept(whole) == ((Proportion("nvidia.com/gpu", 4000.0, 1e9),), [])
    assert kept(whole, enablePredicate=False) == ((), [])
    assert kept({**whole, "enable": False}) == ((), [])
    for wrong in ({"enable": True}, {**whole, "resourceProportion": {"gpu.cpu": 1}}, {"resource": "x"}):
        assert len(kept(wrong)[1]) == 1


def test_tasks_of_a_job_wish_for_places_with_the_weight_that_is_named() -> None:
    def weight(**plugin: object) -> float:
        found = configure(tiers({"name": "task-topology", **plugin}), Policy())
        assert found.problems == ()
        return found.policy.scores.task_topology_weight

    assert weight() == 1.0
    assert weight(arguments={"task-topology.weight": 10}) == 10.0
    assert weight(enableNodeOrder=False) == 0.0


def test_fragmentation_is_a_plugin_of_our_own() -> None:
    arguments = {"fragmentation.weight": 8, "fragmentation.enough-cpu": 4}
    named = configure(tiers({"name": "fragmentation", "arguments": arguments}), Policy())
    assert named.problems == ()
    assert named.policy.scores.fragmentation == Fragmentation(8.0, 3.2, 4.0)
    assert (
        configure(tiers({"name": "fragmentation"}), Policy()).policy.scores.fragmentation == Fragmentation()
    )


def test_scores_of_nodeorder_and_strategies_by_resource_are_read() -> None:
    order = configure(tiers({"name": "nodeorder"}), Policy()).policy.scores
    weights = (order.least_requested_weight, order.most_requested_weight, order.balanced_weight)
    assert weights == (1.0, 0.0, 1.0)
    assert (order.pod_affinity_weight, order.pod_spread_weight) == (2.0, 2.0)
    assert order.strategy_fit is None
    plain = configure(tiers({"name": "resource-strategy-fit"}), Policy()).policy.scores.strategy_fit
    assert plain == StrategyFit(10.0, (FitRule("cpu"), FitRule("memory")))
    resources = {"cpu": {"weight": 3}, "nvidia.com/gpu*": {"type": "MostAllocated", "weight": 2}}
    text = tiers({"name": "resource-strategy-fit", "arguments": {"resources": resources}})
    found = configure(text, Policy())
    assert found.problems == ()
    rules = (FitRule("cpu", weight=3.0), FitRule("nvidia.com/gpu*", most=True, weight=2.0))
    assert found.policy.scores.strategy_fit == StrategyFit(10.0, rules)


@pytest.mark.parametrize(
    "resources", [[], {"cpu": 1}, {"cpu": {"kind": 1}}, {"*cpu": {}}, {"cpu": {"type": "All"}}]
)
def test_a_strategy_that_is_none_is_refused(resources: object) -> None:
    [line] = lines(tiers({"name": "resource-strategy-fit", "arguments": {"resources": resources}}))
    assert line.startswith("tiers[0].plugins[0].arguments.resources: must be a mapping")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "not a mapping with actions and tiers"),
        ("actions: [", "line 1, column 11: expected the node content, but found '<stream end>'"),
        (PLAIN + "- plugins: []\ntiers: []\n", "line 4, column 1: tiers is there twice"),
        (PLAIN + "tier: []\n", "tier: unknown part; did you mean tiers?"),
        ('actions: "allocate, bakfill"\n', "actions[1]: unknown action 'bakfill'; did you mean backfill?"),
        ('actions: "allocate, gangPreempt"', "actions[1]: unknown action 'gangPreempt'; did you mean gangpreempt?"),
        ("actions: [allocate]\n", "actions: must name actions, separated by commas"),
        ('actions: "enqueue"\n', "actions: allocate is missing: gangs are always placed where there is room"),
        (PLAIN + "  plugins: []\n", "tiers: must be a list"),
        (PLAIN + "- plugin: []\n", "tiers[0].plugin: unknown part; did you mean plugins?"),
        (tiers({"name": "binpak"}), "tiers[0].plugins[0].name: unknown plugin 'binpak'; did you mean binpack?"),
        (tiers({"nam": "gang"}), "tiers[0].plugins[0].name: must name a plugin"),
        (tiers({"name": "gang"}, {"name": "gang"}), "tiers[0].plugins[1].name: plugin gang is named twice"),
        (
            tiers({"name": "gang", "enableJobOrdr": True}),
            "tiers[0].plugins[0].enableJobOrdr: unknown switch; did you mean enableJobOrder?",
        ),
        (
            tiers({"name": "gang", "enableJobReady": "no"}),
            "tiers[0].plugins[0].enableJobReady: must be true or false; is 'no'",
        ),
        (
            tiers({"name": "gang", "enableJobReady": False}),
            "tiers[0].plugins[0].enableJobReady: cannot be switched off: it is always done",
        ),
        (
            tiers({"name": "predicates", "arguments": {"predicate.TaintTolerationEnable": False}}),
            "tiers[0].plugins[0].arguments.predicate.TaintTolerationEnable: cannot be switched off: it is always done",
        ),
        (
            tiers({"name": "binpack", "arguments": {"binpack.wieght": 1}}),
            "tiers[0].plugins[0].arguments.binpack.wieght: unknown argument; did you mean binpack.weight?",
        ),
        (
            tiers({"name": "binpack", "arguments": {"binpack.weight": "lots"}}),
            "tiers[0].plugins[0].arguments.binpack.weight: must be a number of 0 or more; is 'lots'",
        ),
        (
            tiers({"name": "binpack", "arguments": {"binpack.weight": -1}}),
            "tiers[0].plugins[0].arguments.binpack.weight: must be a number of 0 or more; is -1",
        ),
        (tiers({"name": "binpack", "arguments": 3}), "tiers[0].plugins[0].arguments: must be a mapping"),
        (
            tiers({"name": "proportion"}, {"name": "drf", "enableHierarchy": True}),
            (
                "tiers[0].plugins[1].enableHierarchy: drf with hierarchy and proportion exclude each other: "
                "name capacity, or proportion without it"
            ),
        ),
        (
            PLAIN + "configurations:\n- name: alocate\n",
            "configurations[0].name: unknown action 'alocate'; did you mean allocate?",
        ),
        (
            PLAIN + "configurations:\n- name: allocate\n  arguments: {predicateErrorCacheEnable: perhaps}\n",
            "configurations[0].arguments.predicateErrorCacheEnable: must be true or false; is 'perhaps'",
        ),
        (
            PLAIN + "metrics: {type: prometheus}\n",
            "metrics.address: is missing: where is the source?",
        ),
        (PLAIN + "metrics: [prometheus]\n", "metrics: must be a mapping"),
        (
            PLAIN + "metrics: {type: elasticsearch, address: http://x}\n",
            "metrics.type: refused: only Prometheus itself is asked",
        ),
        (
            PLAIN + "metrics: {address: prometheus.example}\n",
            "metrics.address: must be a URL such as http://prometheus:9090; is 'prometheus.example'",
        ),
        (
            PLAIN + "metrics: {address: 'http://x/?a=b'}\n",
            "metrics.address: must be a URL such as http://prometheus:9090; is 'http://x/?a=b'",
        ),
        (
            PLAIN + "metrics: {address: http://x, interval: 10ms}\n",
            "metrics.interval: must be a time of a second or more; is '10ms'",
        ),
        (
            PLAIN + "metrics: {address: http://x, tls: {insecureSkipVerfy: true}}\n",
            "metrics.tls.insecureSkipVerfy: unknown argument; did you mean tls.insecureSkipVerify?",
        ),
        (
            tiers({"name": "usage", "arguments": {"thresholds": {"cpu": 101}}}),
            "tiers[0].plugins[0].arguments.thresholds: must be a mapping whose cpu is a number from 0 to 100; is {'cpu': 101}",
        ),
        (
            tiers({"name": "usage", "arguments": {"estimator": {"burst_ratio": 0.5}}}),
            "tiers[0].plugins[0].arguments.estimator: must be a mapping whose burst_ratio is 0 (facts about pods do not tell their limits); is {'burst_ratio': 0.5}",
        ),
        (
            tiers({"name": "usage", "arguments": {"estimator": {"be_cpu": "much"}}}),
            "tiers[0].plugins[0].arguments.estimator: must be a mapping whose be_cpu is a quantity of 0 or more; is {'be_cpu': 'much'}",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(text: str, line: str) -> None:
    assert lines(text) == [line]


USAGE = """
actions: allocate
tiers:
- plugins:
  - name: usage
    arguments:
      usage.weight: 3
      cpu.weight: 2
      memory.weight: 1
      thresholds: {cpu: 70, mem: 60}
      estimator: {request_ratio: 0.5, burst_ratio: 0, risk_threshold: 0.8, risk_factor: 2, be_cpu: 100m, be_mem: 1Gi}
metrics:
  type: prometheus
  address: http://prometheus:9090/
  interval: 1m
  tls: {insecureSkipVerify: "true"}
"""  # fmt: skip


def test_usage_says_what_real_load_means_and_metrics_where_it_is_told() -> None:
    found = configure(USAGE, Policy())
    assert (found.problems, found.notes) == ((), ())
    assert found.policy.scores.load == LoadScore(
        3.0, 2.0, 1.0, timedelta(minutes=1), 0.5, 0.8, 2.0, unasked_cpu=100.0, unasked_memory=float(1 << 30)
    )
    assert found.policy.load_limit == LoadLimit(70, 60)
    assert found.source == Source("http://prometheus:9090", timedelta(minutes=1), verify=False)
    plain = configure(tiers({"name": "usage"}), Policy())
    assert (plain.policy.scores.load, plain.policy.load_limit) == (LoadScore(), LoadLimit())
    assert plain.source is None
    words = (
        "plugin usage taken, but no part metrics says where figures come from: without any it changes nothing"
    )
    assert plain.notes == (f"tiers[0].plugins[0].name: {words}",)
    whole = {"estimator": {"be_cpu": 250, "be_mem": 200}}
    assert configure(tiers({"name": "usage", "arguments": whole}), Policy()).policy == plain.policy
    off = {"name": "usage", "enablePredicate": False, "enableNodeOrder": False}
    policy = configure(tiers(off), Policy()).policy
    assert (policy.scores.load, policy.load_limit) == (None, None)


BINPACK = "tiers[0].plugins[0].arguments.binpack"


@pytest.mark.parametrize(
    ("listed", "notes"),
    [
        ({"binpack.resources": "a.com/x", "binpack.resources.a.com/x": 2}, ()),
        (
            {"binpack.resources": "a.com/x", "binpack.resources.a.com/y": 2},
            (
                f"{BINPACK}.resources.a.com/y: taken, but binpack.resources does not list it: it changes nothing",
            ),
        ),
    ],
)
def test_a_weight_of_a_resource_that_does_not_count_is_said(
    listed: dict[str, object], notes: tuple[str, ...]
) -> None:
    found = configure(tiers({"name": "binpack", "arguments": listed}), Policy())
    assert (found.problems, found.notes) == ((), notes)


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
def test_arguments_of_an_action_hold_for_that_action(action: str) -> None:
    text = (
        f"actions: allocate, {action}\n"
        "configurations: [{name: gangpreempt, arguments: {allowWholeBundle: false}}]\n"
        "tiers: [{plugins: [{name: priority}]}]\n"
    )
    found = configure(text, Policy())
    spared = any("gang" in tier for tier in found.policy.eviction.preempt_filters)
    assert spared == (action == "gangpreempt")
    words = "taken, but gangpreempt is not among the actions: they change nothing"
    assert found.notes == (() if spared else (f"configurations[0].arguments: {words}",))


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (PLAIN + "metrics: {address: http://x}\n", "metrics: taken, but without the plugins usage and rescheduling figures change nothing"),
        (
            USAGE.replace("interval: 1m", "interval: 5m"),
            "metrics.interval: taken, but figures count for 5 minutes, then none do until they are told anew",
        ),
        (USAGE.replace("interval: 1m", "interval: 299s"), None),
    ],
)  # fmt: skip
def test_figures_that_nobody_needs_or_that_come_too_rarely_are_said(text: str, note: str | None) -> None:
    found = configure(text, Policy())
    assert found.problems == ()
    assert found.notes == (() if note is None else (note,))
    assert found.source is not None


def test_metrics_may_be_named_as_volcano_reads_them_with_dots() -> None:
    text = (
        PLAIN + 'metrics: {address: "https://x", tls.insecureSkipVerify: "false", elasticsearch.index: i}\n'
    )
    found = configure(text, Policy())
    assert found.problems == ()
    assert found.source == Source("https://x")


def test_every_problem_of_a_file_is_told_at_once() -> None:
    text = tiers({"name": "gang", "enableX": True}, {"name": "binpack", "arguments": {"a": 1, "b": 2}})
    assert len(lines(text.replace("allocate", "allocate, nothing"))) == 4


@pytest.mark.parametrize("name", [one.name for one in PLUGINS.values() if one.stand is Stand.REFUSED])
def test_a_plugin_that_we_do_not_do_is_refused_with_the_reason(name: str) -> None:
    [line] = lines(tiers({"name": name}))
    assert line == f"tiers[0].plugins[0].name: plugin {name} refused: {PLUGINS[name].why}"


def test_everything_refused_or_not_done_says_why() -> None:
    words: list[Word | Action] = [*PLUGINS.values(), *ACTIONS.values()]
    for word in words:
        for one in (word, *word.arguments):
            assert one.why or one.stand not in (Stand.REFUSED, Stand.LACKING), (word.name, one.name)


def test_every_switch_of_a_plugin_is_one_that_exists() -> None:
    assert {switch for plugin in PLUGINS.values() for switch in plugin.votes} <= set(SWITCHES)


def test_every_default_is_a_value_that_may_be_written() -> None:
    """The defaults are typed by hand: each can be read."""
    for plugin in PLUGINS.values():
        for one in plugin.arguments:
            text = tiers({"name": plugin.name, "arguments": {one.name: one.default}})
            wrong = [problem for problem in configure(text, Policy()).problems if problem.code is Code.VALUE]
            assert one.default is None or not wrong, (plugin.name, one.name)


# ---------------------------------------------------------------------- whatever is written

CALM = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
WORDS = st.sampled_from(
    ["actions", "tiers", "plugins", "name", "arguments", "configurations", *PLUGINS, *ACTIONS, *SWITCHES]
    + [one.name for plugin in PLUGINS.values() for one in plugin.arguments]
)
LEAVES = st.one_of(
    WORDS, st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.dates()
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.integers(), inner, max_size=4),
)
PLUGIN_LISTS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(sorted(PLUGINS))},
        optional={"arguments": st.dictionaries(WORDS, TREES, max_size=3), "enableJobOrder": TREES},
    ),
    max_size=3,
)


@CALM
@given(TREES, PLUGIN_LISTS)
def test_no_document_makes_the_reader_fail(tree: object, plugins: list[dict[str, object]]) -> None:
    for document in (tree, {"actions": tree, "tiers": [{"plugins": plugins}], "configurations": tree}):
        found = configure(yaml.safe_dump(document), Policy())
        assert isinstance(found.policy, Policy)
        for problem in found.problems:
            assert "\n" not in str(problem)


@CALM
@given(st.text(max_size=80))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    found = configure(text, Policy())
    assert found.problems
    assert all("\n" not in str(problem) for problem in found.problems)


def test_own_plugins_are_named_like_any_with_what_becomes_of_their_errors() -> None:
    text = tiers({"name": "quiet", "onError": "fatal", "arguments": {"x": [1]}})
    assert lines(text, "quiet") == []
    assert lines(text) == ["tiers[0].plugins[0].name: unknown plugin 'quiet'"]
    wrong = tiers({"name": "quiet", "onError": "ignore", "enableJobOrder": True})
    assert lines(wrong, "quiet") == [
        "tiers[0].plugins[0].enableJobOrder: unknown part of an own plugin",
        "tiers[0].plugins[0].onError: must be one of skip, fatal; is 'ignore'",
    ]


def test_problems_have_kinds() -> None:
    [problem] = configure('actions: "enqueue"\n', Policy()).problems
    assert problem.code is Code.ALWAYS
