"""What is said of a job that asks for more than this version does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.controller.core.checks import not_applied
from services.controller.core.jobbudgets import budget_problem, job_budget
from services.controller.core.shapes import revocable
from services.controller.core.tasktopology import task_topology, topology_problem
from shared.api.names import JDB_MAX_UNAVAILABLE as MOST
from shared.api.names import JDB_MIN_AVAILABLE as LEAST
from shared.api.names import PREEMPTABLE
from shared.api.names import REVOCABLE_ZONE as ZONE
from shared.api.names import TASK_TOPOLOGY_AFFINITY as NEAR
from shared.api.names import TASK_TOPOLOGY_ANTI_AFFINITY as APART
from shared.api.names import TASK_TOPOLOGY_TASK_ORDER as ORDER
from shared.events.contracts import JobBudget, TaskTopology
from tests.unit.controller.worlds import task, wanted


def annotated(task: dict, annotations: dict) -> dict:
    return {**task, "template": {**task["template"], "metadata": {"annotations": annotations}}}


PARTS = {"totalPartitions": 2, "partitionSize": 2}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ()),
        ({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}, ()),
        ({"tasks": [task("a", topologyPolicy="none")]}, ()),
        (
            {"tasks": [task("a"), task("b", topologyPolicy="best-effort")]},
            ("topologyPolicy of tasks: the scheduler's policy does not name numa-aware",),
        ),
        (
            {"tasks": [annotated(task("a"), {"volcano.sh/vgpu-podgroup-policy": "spread"})]},
            ("annotation volcano.sh/vgpu-podgroup-policy of pods",),
        ),
        ({"tasks": [task("a", 4, partitionPolicy=PARTS, minAvailable=2)]}, ()),
    ],
)
def test_what_is_not_applied_is_named(spec, expected):
    assert not_applied(wanted(**spec)) == expected


@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        ("sla-waiting-time", "soon", "'soon' is not a duration: write for example 90s, 10m or 1h30m"),
        (
            "volcano.sh/sla-waiting-time",
            "1 h",
            "'1 h' is not a duration: write for example 90s, 10m or 1h30m",
        ),
        ("volcano.sh/cooldown-time", "600", "'600' is not a duration: write for example 90s, 10m or 1h30m"),
        ("pumice.dev/run-time", "-1h", "-1h is less than nothing"),
    ],
)
def test_annotations_that_should_be_times_and_are_none_are_named(key, text, says):
    job = wanted()
    assert not_applied(replace(job, annotations={**job.annotations, key: text})) == (
        f"annotation {key}: {says}",
    )


def test_a_cool_down_of_pods_that_is_no_time_is_named():
    one = annotated(task("a"), {"volcano.sh/cooldown-time": "later"})
    (said,) = not_applied(wanted(tasks=[one]))
    assert said.startswith("annotation volcano.sh/cooldown-time of task a: 'later' is not a duration")


def test_times_that_can_be_read_are_applied():
    job = wanted(tasks=[annotated(task("a"), {"volcano.sh/cooldown-time": "0"})])
    times = {"sla-waiting-time": "1h", "volcano.sh/cooldown-time": "600s", "pumice.dev/run-time": "1h30m"}
    assert not_applied(replace(job, annotations={**job.annotations, **times})) == ()


@pytest.mark.parametrize(
    ("policy", "applied"),
    [
        ("tiers: [{plugins: [{name: gang}]}, {plugins: [{name: numa-aware, arguments: {weight: 2}}]}]", True),
        ('{"tiers": [{"plugins": [{"name": "numa\\u002daware"}]}]}', True),
        ("# numa-aware comes later\ntiers: [{plugins: [{name: gang}]}]", False),
        ("tiers: [{plugins: [{name: not-numa-aware, arguments: {of: numa-aware}}]}]", False),
        ("tiers: [3, {plugins: numa-aware}, {plugins: [numa-aware]}]", False),
        ("numa-aware", False),
        ("", False),
        ("tiers: [", True),  # which policy the scheduler keeps is not known here
    ],
)
def test_numa_policies_are_applied_where_the_schedulers_policy_names_the_plugin(policy, applied):
    said = not_applied(wanted(tasks=[task("a", topologyPolicy="restricted")]), policy)
    assert said == (
        () if applied else ("topologyPolicy of tasks: the scheduler's policy does not name numa-aware",)
    )


@pytest.mark.parametrize(
    ("annotations", "budget", "problem"),
    [
        ({}, None, None),
        ({LEAST: "3"}, JobBudget(min_available=3), None),
        ({MOST: "20%"}, JobBudget(max_unavailable=2), None),
        ({MOST: "1", LEAST: "3"}, JobBudget(min_available=3), None),
        ({MOST: "-1"}, None, f"{MOST}: not a number of pods or a part such as 20%: '-1'"),
        ({LEAST: "few"}, None, f"{LEAST}: not a number of pods or a part such as 20%: 'few'"),
    ],
)
def test_a_budget_of_a_job_is_read_from_annotations(annotations, budget, problem):
    assert job_budget(annotations, 7) == budget
    assert budget_problem(annotations) == problem


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, False),
        ({PREEMPTABLE: "true"}, True),
        ({PREEMPTABLE: "false"}, False),
        ({ZONE: "*"}, True),
        ({ZONE: "z", PREEMPTABLE: "true"}, False),
    ],
)
def test_a_pod_runs_where_it_may_have_to_go_if_it_says_so(annotations, expected):
    assert revocable(annotations) == expected


@pytest.mark.parametrize(
    ("annotations", "topology", "problem"),
    [
        ({}, None, None),
        ({NEAR: ""}, None, None),
        ({ORDER: "ps"}, None, None),
        (
            {NEAR: "ps,worker;worker", APART: "ps", ORDER: "worker,ps"},
            TaskTopology(
                affinity=(("ps", "worker"), ("worker",)), anti_affinity=(("ps",),), order=("worker", "ps")
            ),
            None,
        ),
        ({NEAR: " ps , worker ;"}, TaskTopology(affinity=(("ps", "worker"),)), None),
        ({NEAR: "ps,chief", APART: "ps"}, None, f"{NEAR}: there is no task chief"),
        ({NEAR: "ps", APART: "ps,ps"}, None, f"{APART}: task ps is there twice"),
        ({NEAR: "ps", ORDER: "chief"}, None, f"{ORDER}: there is no task chief"),
    ],
)
def test_a_topology_of_tasks_is_read_from_annotations_whole_or_not_at_all(annotations, topology, problem):
    tasks = ("ps", "worker")
    assert task_topology(annotations, tasks) == topology
    assert topology_problem(annotations, tasks) == problem
