"""The rules for podgroups, pods, hypernodes, job flows and cron jobs: every mistake with code and path."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from services.admission.core.cronjobs import validate_cronjob
from services.admission.core.hypernodes import validate_hypernode
from services.admission.core.jobflows import validate_jobflow
from services.admission.core.podgroups import apply_podgroup_defaults, validate_podgroup
from services.admission.core.pods import validate_pod
from services.admission.core.resource_groups import ResourceGroup, mutate_pod
from shared.api.cron import CronJob
from shared.api.flow import JobFlow
from shared.api.pods import Pod
from shared.api.scheduling import PodGroup
from shared.api.topology import HyperNode
from tests.unit.admission.worlds import VIEW

MIN, MAX = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"


def pairs(violations) -> list[tuple[str, str]]:
    return [(violation.code, violation.path) for violation in violations]


# ---------------------------------------------------------------------------------------------- podgroups
BOTH_TIERS = {"highestTierAllowed": 1, "highestTierName": "rack"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"queue": "research", "networkTopology": {"highestTierAllowed": 1}}, []),
        ({"queue": "parentQueue"}, []),
        ({"queue": "reserch"}, [("queue-not-found", "spec.queue")]),
        ({"queue": "closed"}, [("queue-not-open", "spec.queue")]),
        ({"queue": "closing", "networkTopology": BOTH_TIERS, "subGroupPolicy": [{}, {"networkTopology": BOTH_TIERS}]},
         [("queue-not-open", "spec.queue"), ("topology-tier-conflict", "spec.networkTopology"),
          ("topology-tier-conflict", "spec.subGroupPolicy[1].networkTopology")]),
    ],
)  # fmt: skip
def test_a_podgroup_needs_an_open_queue_and_one_way_to_name_a_tier(spec, expected):
    assert pairs(validate_podgroup(PodGroup.model_validate({"spec": spec}), VIEW)) == expected


@pytest.mark.parametrize(
    ("queue", "namespace_queue", "expected"),
    [("default", "research", "research"), ("", "research", "research"), ("default", "", "default"),
     ("other", "research", "other")],
)  # fmt: skip
def test_a_podgroup_of_the_default_queue_goes_to_its_namespaces(queue, namespace_queue, expected):
    group = PodGroup.model_validate({"spec": {"queue": queue}})
    assert apply_podgroup_defaults(group, namespace_queue).spec.queue == expected


# --------------------------------------------------------------------------------------------------- pods
def pod(annotations: dict[str, str], scheduler: str = "volcano") -> Pod:
    return Pod.model_validate(
        {"metadata": {"annotations": annotations}, "spec": {"schedulerName": scheduler}}
    )


@pytest.mark.parametrize("text", ["1", "12", "+3", "1%", "99%"])
def test_a_budget_is_a_positive_number_or_a_percentage(text):
    assert validate_pod(pod({MIN: text}), ["volcano"]) == []


@pytest.mark.parametrize("text", ["0", "-1", "", "half", "0%", "100%", "-5%", "1.5", "5%%", "%"])
def test_any_other_budget_is_refused_unless_the_pod_is_another_schedulers(text):
    assert pairs(validate_pod(pod({MAX: text}), ["volcano"])) == [
        ("invalid-budget", f"metadata.annotations[{MAX}]")
    ]
    assert validate_pod(pod({MAX: text}, "default-scheduler"), ["volcano", "pumice"]) == []


def test_the_two_budgets_exclude_each_other_and_are_judged_each():
    assert pairs(validate_pod(pod({MIN: "x", MAX: "1"}), ["volcano"])) == [
        ("invalid-budget", f"metadata.annotations[{MIN}]"),
        ("budget-conflict", f"metadata.annotations[{MAX}]"),
    ]


def group(**fields: Any) -> ResourceGroup:
    return ResourceGroup.model_validate({"resourceGroup": "gpu", **fields})


AFFINITY = {"nodeAffinity": {"x": 1}}
TOLERATION = {"key": "gpu", "operator": "Exists"}
GPU = group(
    object={"key": "namespace", "value": ["train", "infer"]},
    schedulerName="volcano",
    tolerations=[TOLERATION],
    labels={"pool": "gpu"},
    affinity='{"nodeAffinity": {"x": 1}}',
)


def mutated(
    spec: dict[str, Any], namespace: str, *groups: ResourceGroup, gate: bool = False, **annotations: str
):
    raw = {"metadata": {"annotations": annotations}, "spec": spec}
    return mutate_pod(raw, namespace, groups, gate=gate)["spec"]


def test_a_pod_gets_what_the_group_of_its_namespace_adds():
    assert mutated({"schedulerName": "default-scheduler"}, "infer", GPU) == {
        "schedulerName": "volcano",
        "tolerations": [TOLERATION],
        "nodeSelector": {"pool": "gpu"},
        "affinity": AFFINITY,
    }
    assert mutated({}, "other", GPU) == {}


def test_what_a_pod_has_stays_beside_what_the_group_adds():
    own = {"nodeSelector": {"zone": "a"}, "affinity": {"podAffinity": {}}, "tolerations": [{"key": "x"}]}
    assert mutated(own, "train", GPU) == {
        "schedulerName": "volcano",
        "nodeSelector": {"zone": "a", "pool": "gpu"},
        "affinity": {"podAffinity": {}},
        "tolerations": [{"key": "x"}, TOLERATION],
    }


def test_a_pod_that_is_placed_already_gets_the_same_as_one_that_is_to_be_placed():
    assert mutated({"nodeName": "n1"}, "train", GPU) == mutated({}, "train", GPU) | {"nodeName": "n1"}


def test_mutating_twice_is_mutating_once():
    once = mutated({}, "train", GPU, gate=True, **{"scheduling.volcano.sh/queue-allocation-gate": "true"})
    again = mutated(once, "train", GPU, gate=True, **{"scheduling.volcano.sh/queue-allocation-gate": "true"})
    assert again == once


def test_only_the_first_group_of_a_pod_counts():
    other = group(object={"key": "namespace", "value": ["train"]}, schedulerName="other")
    assert mutated({}, "train", other, GPU) == {"schedulerName": "other"}


@pytest.mark.parametrize(
    ("members", "annotations", "belongs"),
    [
        ({}, {"volcano.sh/resource-group": "gpu"}, True),
        ({}, {"volcano.sh/resource-group": "cpu"}, False),
        ({"key": "annotation", "value": ["team: a", "team: b"]}, {"team": "b"}, True),
        ({"key": "annotation", "value": [{"team": "a"}]}, {"team": "a"}, True),
        ({"key": "annotation", "value": ["team: a"]}, {"volcano.sh/resource-group": "gpu"}, False),
        ({"key": "annotation", "value": ["size: 1"]}, {"size": "1"}, True),
        ({"value": ["team: a"]}, {"team": "a"}, True),
    ],
)
def test_annotations_make_a_pod_a_member(members, annotations, belongs):
    one = group(object=members, schedulerName="chosen")
    assert mutated({}, "any", one, **annotations) == ({"schedulerName": "chosen"} if belongs else {})


@pytest.mark.parametrize(
    "members",
    [{"key": "label"}, {"key": "annotation", "value": ["team"]}, {"key": "annotation", "value": ["a: : b"]}],
)
def test_members_that_cannot_be_read_are_refused_at_the_start(members):
    with pytest.raises(ValidationError):
        group(object=members)


@pytest.mark.parametrize(
    ("gate", "text", "gated"), [(True, "true", True), (True, "false", False), (False, "true", False)]
)
def test_a_pod_gets_the_gate_that_it_asks_for_when_gates_are_on(gate, text, gated):
    name = "scheduling.volcano.sh/queue-allocation-gate"
    spec = mutated({"schedulingGates": [{"name": "own"}]}, "any", gate=gate, **{name: text})
    assert spec["schedulingGates"] == [{"name": "own"}, *([{"name": name}] if gated else [])]


# --------------------------------------------------------------------------------------------- hypernodes
def member(kind: str = "Node", **selector: Any) -> dict[str, Any]:
    return {"type": kind, "selector": selector}


def regex(pattern: str) -> dict[str, Any]:
    return member(regexMatch={"pattern": pattern})


AT = "spec.members[0].selector"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([member(exactMatch={"name": "node-1"}), regex("^rack-[0-9]+$")], []),
        ([member(labelMatch={"matchLabels": {"rack": "1"}})], []),
        ([], [("required", "spec.members")]),
        ([member("Pod", exactMatch={"name": "a"})], [("unsupported", "spec.members[0].type")]),
        ([member()], [("member-without-selector", AT)]),
        ([member(exactMatch={"name": "a"}, regexMatch={"pattern": "a"})], [("member-selector-conflict", AT)]),
        ([member(exactMatch={"name": ""})], [("required", f"{AT}.exactMatch.name")]),
        ([member(exactMatch={"name": "Node_1"})], [("invalid", f"{AT}.exactMatch.name")]),
        ([regex("")], [("required", f"{AT}.regexMatch.pattern")]),
        ([regex("a(b")], [("invalid-pattern", f"{AT}.regexMatch.pattern")]),
        ([regex("(?=a)b")], [("invalid-pattern", f"{AT}.regexMatch.pattern")]),
        ([regex("(?<!a)b")], [("invalid-pattern", f"{AT}.regexMatch.pattern")]),
        ([regex(r"(a)\1")], [("invalid-pattern", f"{AT}.regexMatch.pattern")]),
        ([regex("a++")], [("invalid-pattern", f"{AT}.regexMatch.pattern")]),
        ([regex(r"a\\1")], []),
        ([regex("(?P<rack>a)(?:b)(?i:c)")], []),
        ([regex("[[:alpha:]]")], [("invalid-pattern", f"{AT}.regexMatch.pattern")]),
        ([member(labelMatch={"matchLabels": {"a b": "1"}})], [("invalid", f"{AT}.labelMatch.matchLabels")]),
        ([member(), member("x", exactMatch={"name": "a"})],
         [("member-without-selector", AT), ("unsupported", "spec.members[1].type")]),
    ],
)  # fmt: skip
def test_a_hypernodes_members_have_a_type_and_one_selector_that_can_be_read(members, expected):
    assert pairs(validate_hypernode(HyperNode.model_validate({"spec": {"members": members}}))) == expected


# --------------------------------------------------------------------------------------------- job flows
def flow(name: str, *targets: str) -> dict[str, Any]:
    return {"name": name, "dependsOn": {"targets": list(targets)}} if targets else {"name": name}


@pytest.mark.parametrize(
    ("flows", "expected"),
    [
        ([], []),
        ([flow("a"), flow("b", "a"), flow("c", "a", "b")], []),
        ([flow("b", "a"), flow("a")], []),
        ([flow("a"), flow("a")], []),
        ([flow("a", "b"), flow("b", "a")], [("cyclic-dependency", "spec.flows[0].dependsOn")]),
        ([flow("a", "a")], [("cyclic-dependency", "spec.flows[0].dependsOn")]),
        ([flow("a", "z"), flow("b", "c", "y")],
         [("unknown-target", "spec.flows[0].dependsOn.targets[0]"), ("unknown-target", "spec.flows[1].dependsOn.targets[0]"),
          ("unknown-target", "spec.flows[1].dependsOn.targets[1]")]),
        ([flow("a", "z"), flow("b", "c"), flow("c", "b")],
         [("unknown-target", "spec.flows[0].dependsOn.targets[0]"), ("cyclic-dependency", "spec.flows[1].dependsOn")]),
        ([flow("a", "b"), flow("b", "a"), flow("b")], []),
    ],
)  # fmt: skip
def test_flows_wait_for_flows_that_there_are_and_not_in_circles(flows, expected):
    assert pairs(validate_jobflow(JobFlow.model_validate({"spec": {"flows": flows}}))) == expected


# --------------------------------------------------------------------------------------------- cron jobs
def cron(name: str = "nightly", **spec: Any) -> CronJob:
    return CronJob.model_validate({"metadata": {"name": name}, "spec": {"schedule": "@daily", **spec}})


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (cron(schedule="*/5 0-6 * * 1,3", timeZone="Europe/Berlin"), []),
        (cron(schedule="@every 90m", timeZone="Etc/UTC"), []),
        (cron(schedule=""), [("required", "spec.schedule")]),
        (cron(schedule="every day"), [("invalid-schedule", "spec.schedule")]),
        (cron(schedule="* * * * * *"), [("invalid-schedule", "spec.schedule")]),
        (cron(schedule="61 * * * *"), [("invalid-schedule", "spec.schedule")]),
        (cron(schedule="TZ=UTC 0 0 * * *"), [("zone-in-schedule", "spec.schedule")]),
        (cron(schedule="CRON_TZ=UTC 0 0 * * *"), [("zone-in-schedule", "spec.schedule")]),
        (cron(timeZone=""), [("invalid-time-zone", "spec.timeZone")]),
        (cron(timeZone="local"), [("invalid-time-zone", "spec.timeZone")]),
        (cron(timeZone="Mars/Base"), [("invalid-time-zone", "spec.timeZone")]),
        (cron(timeZone="../etc/passwd"), [("invalid-time-zone", "spec.timeZone")]),
        (cron("n" * 52), []),
        (cron("n" * 53), [("invalid-name", "metadata.name")]),
        (cron("n" * 53, schedule="x", timeZone="Local"),
         [("invalid-name", "metadata.name"), ("invalid-schedule", "spec.schedule"), ("invalid-time-zone", "spec.timeZone")]),
    ],
)  # fmt: skip
def test_a_cron_job_has_a_schedule_and_a_zone_that_can_be_read(one, expected):
    assert pairs(validate_cronjob(one)) == expected
