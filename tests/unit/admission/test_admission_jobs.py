"""The rules for new and changed jobs: each mistake has its code and its path."""

from __future__ import annotations

from typing import Any

import pytest

from services.admission.core.jobs import validate_job
from services.admission.core.view import FixedView
from shared.api.batch import Job
from tests.unit.admission.worlds import VALID, VIEW, spoiled, violations

TASK = "spec/tasks/1"
PARTITIONS = f"{TASK}/partitionPolicy"
ONE_CPU = {"requests": {"cpu": "1"}}


def test_a_valid_job_has_no_violations():
    assert violations(VALID) == []


CASES: list[tuple[str, list[tuple[str, Any]], list[tuple[str, str]]]] = [
    ("no tasks", [("spec/tasks", [])], [("no-tasks", "spec.tasks")]),
    ("negative minimum", [("spec/minAvailable", -1)], [("out-of-range", "spec.minAvailable")]),
    ("negative maxRetry", [("spec/maxRetry", -1)], [("out-of-range", "spec.maxRetry")]),
    ("negative ttl", [("spec/ttlSecondsAfterFinished", -1)], [("out-of-range", "spec.ttlSecondsAfterFinished")]),
    ("minSuccess of zero", [("spec/minSuccess", 0)], [("out-of-range", "spec.minSuccess")]),
    ("minimum above replicas", [("spec/minAvailable", 5)], [("min-available-above-replicas", "spec.minAvailable")]),
    ("more pods than one message tells of", [(f"{TASK}/replicas", 20_000), (f"{TASK}/minAvailable", 1)],
     [("too-many-pods", "spec.tasks")]),
    ("negative replicas", [(f"{TASK}/replicas", -2), (f"{TASK}/minAvailable", 0), ("spec/minAvailable", 1)],
     [("out-of-range", "spec.tasks[1].replicas")]),
    ("negative minimum of a task", [(f"{TASK}/minAvailable", -1)], [("out-of-range", "spec.tasks[1].minAvailable")]),
    ("negative maxRetry of a task", [(f"{TASK}/maxRetry", -1)], [("out-of-range", "spec.tasks[1].maxRetry")]),
    ("minimum of a task above its replicas", [(f"{TASK}/minAvailable", 4)],
     [("task-min-available-above-replicas", "spec.tasks[1].minAvailable")]),
    ("task name", [(f"{TASK}/name", "Worker_1")], [("invalid-task-name", "spec.tasks[1].name")]),
    ("long task name", [(f"{TASK}/name", "w" * 64)], [("invalid-task-name", "spec.tasks[1].name")]),
    ("two tasks of one name", [(f"{TASK}/name", "master")], [("duplicate-task-name", "spec.tasks[1].name")]),
    ("pod name too long", [(f"{TASK}/name", "w" * 60)], [("invalid-pod-name", "spec.tasks[1].name")]),
    ("host name too long", [(f"{TASK}/name", "w" * 54), (f"{TASK}/replicas", 200)],
     [("invalid-pod-name", "spec.tasks[1].name")]),
    ("job name", [("metadata/name", "-x")], [("invalid-name", "metadata.name"), ("invalid-pod-name", "spec.tasks[0].name"),
                                            ("invalid-pod-name", "spec.tasks[1].name")]),
    # policies
    ("event and exit code", [("spec/policies/0/exitCode", 1)], [("policy-event-and-exit-code", "spec.policies[0]")]),
    ("no trigger", [("spec/policies/0/event", ...)], [("policy-without-trigger", "spec.policies[0]")]),
    ("unknown event", [("spec/policies/0/event", "PodEvict")], [("unknown-event", "spec.policies[0].event")]),
    ("internal event", [("spec/policies/0/event", "OutOfSync")], [("internal-event", "spec.policies[0].event")]),
    ("unknown event in a list", [("spec/policies/0/events", ["PodFailed", "x"])],
     [("unknown-event", "spec.policies[0].events[1]")]),
    ("unknown action", [("spec/policies/0/action", "Restart")], [("unknown-action", "spec.policies[0].action")]),
    ("no action", [("spec/policies/0/action", ...)], [("unknown-action", "spec.policies[0].action")]),
    ("internal action", [("spec/policies/0/action", "SyncJob")], [("internal-action", "spec.policies[0].action")]),
    ("same event twice", [("spec/policies/1", {"event": "PodEvicted", "action": "AbortJob"})],
     [("duplicate-event", "spec.policies[1].event")]),
    ("any event and another", [("spec/policies/1", {"events": ["*"], "action": "AbortJob"})],
     [("any-event-not-alone", "spec.policies[1].events[0]")]),
    ("exit code zero", [("spec/policies/1/exitCode", 0)], [("exit-code-zero", "spec.policies[1].exitCode")]),
    ("same exit code twice", [("spec/policies/0", {"exitCode": 3, "action": "RestartJob"})],
     [("duplicate-exit-code", "spec.policies[1].exitCode")]),
    ("timeout", [("spec/policies/0/timeout", "soon")], [("invalid-duration", "spec.policies[0].timeout")]),
    ("policy of a task", [(f"{TASK}/policies", [{"event": "PodFailed", "action": "Explode"}])],
     [("unknown-action", "spec.tasks[1].policies[0].action")]),
    # partitions and topology
    ("partitions do not add up", [(PARTITIONS, {"totalPartitions": 2, "partitionSize": 2})],
     [("partition-size-mismatch", "spec.tasks[1].partitionPolicy")]),
    ("no partitions", [(PARTITIONS, {"totalPartitions": 0, "partitionSize": 3})],
     [("out-of-range", "spec.tasks[1].partitionPolicy.totalPartitions")]),
    ("empty partitions", [(PARTITIONS, {"totalPartitions": 3, "partitionSize": -1})],
     [("out-of-range", "spec.tasks[1].partitionPolicy.partitionSize")]),
    ("negative minimum of partitions", [(PARTITIONS, {"totalPartitions": 3, "partitionSize": 1, "minPartitions": -1})],
     [("out-of-range", "spec.tasks[1].partitionPolicy.minPartitions")]),
    ("too many partitions at least", [(PARTITIONS, {"totalPartitions": 1, "partitionSize": 3, "minPartitions": 2}),
                                      (f"{TASK}/minAvailable", 3)],
     [("min-partitions-above-total", "spec.tasks[1].partitionPolicy.minPartitions"),
      ("partition-min-available-mismatch", "spec.tasks[1].minAvailable")]),
    ("minimum of task and partitions differ", [(PARTITIONS, {"totalPartitions": 3, "partitionSize": 1, "minPartitions": 2}),
                                               (f"{TASK}/minAvailable", 1)],
     [("partition-min-available-mismatch", "spec.tasks[1].minAvailable")]),
    ("both tiers", [("spec/networkTopology", {"highestTierAllowed": 1, "highestTierName": "rack"})],
     [("topology-tier-conflict", "spec.networkTopology")]),
    ("negative tier", [("spec/networkTopology", {"highestTierAllowed": -1})],
     [("out-of-range", "spec.networkTopology.highestTierAllowed")]),
    ("both tiers of partitions", [(PARTITIONS, {"totalPartitions": 3, "partitionSize": 1, "networkTopology":
                                                {"highestTierAllowed": 0, "highestTierName": "rack"}})],
     [("topology-tier-conflict", "spec.tasks[1].partitionPolicy.networkTopology")]),
    ("unknown topology policy", [(f"{TASK}/topologyPolicy", "single-numa")],
     [("unsupported-topology-policy", "spec.tasks[1].topologyPolicy")]),
    ("part of a CPU and a topology policy", [("spec/tasks/0/topologyPolicy", "restricted"),
                                             ("spec/tasks/0/template/spec/containers/0/resources", {"requests": {"cpu": "1500m"}})],
     [("topology-policy-needs-whole-cpus", "spec.tasks[0].template.spec.containers[0].resources.requests[cpu]")]),
    ("no CPU and a topology policy", [("spec/tasks/0/topologyPolicy", "best-effort")],
     [("topology-policy-needs-whole-cpus", "spec.tasks[0].template.spec.containers[0].resources.requests[cpu]")]),
    # dependencies
    ("unknown dependency", [(f"{TASK}/dependsOn", {"name": ["master", "mastr"]})],
     [("unknown-dependency", "spec.tasks[1].dependsOn.name[1]")]),
    ("circle of two", [(f"{TASK}/dependsOn", {"name": ["master"]}), ("spec/tasks/0/dependsOn", {"name": ["worker"]})],
     [("cyclic-dependency", "spec.tasks[0].dependsOn")]),
    ("circle of one", [(f"{TASK}/dependsOn", {"name": ["worker"]})],
     [("cyclic-dependency", "spec.tasks[1].dependsOn")]),
    # plugins
    ("unknown plugin", [("spec/plugins/pytorh", [])], [("unknown-plugin", "spec.plugins[pytorh]")]),
    ("mpi without its master", [("spec/plugins/mpi", ["--master=boss"])],
     [("mpi-master-not-found", "spec.plugins[mpi]")]),
    # volumes
    ("no mount path", [("spec/volumes/0/mountPath", ...)], [("required", "spec.volumes[0].mountPath")]),
    ("colon in a mount path", [("spec/volumes/0/mountPath", "/a:b")], [("invalid", "spec.volumes[0].mountPath")]),
    ("same mount path twice", [("spec/volumes", [{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/a", "volumeClaim": {}}])],
     [("duplicate-mount-path", "spec.volumes[1].mountPath")]),
    ("no claim", [("spec/volumes/0/volumeClaimName", ...)], [("volume-without-claim", "spec.volumes[0]")]),
    ("both kinds of claim", [("spec/volumes/0/volumeClaim", {"accessModes": ["ReadWriteOnce"]})],
     [("volume-claim-conflict", "spec.volumes[0].volumeClaimName")]),
    ("name of a claim", [("spec/volumes/0/volumeClaimName", "My_Data")], [("invalid", "spec.volumes[0].volumeClaimName")]),
    ("running estimate", [("spec/runningEstimate", "2 days")], [("invalid-duration", "spec.runningEstimate")]),
    # queues
    ("unknown queue", [("spec/queue", "reserch")], [("queue-not-found", "spec.queue")]),
    ("closed queue", [("spec/queue", "closed")], [("queue-not-open", "spec.queue")]),
    ("closing queue", [("spec/queue", "closing")], [("queue-not-open", "spec.queue")]),
    ("root queue", [("spec/queue", "root")], [("queue-is-root", "spec.queue")]),
    ("queue with queues below", [("spec/queue", "parentQueue")], [("queue-not-leaf", "spec.queue")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_mistake_is_reported_with_its_code_and_path(changes, expected):
    assert violations(spoiled(*changes)) == expected


@pytest.mark.parametrize(
    "changes",
    [
        [("spec/queue", "childQueue")],
        [("spec/queue", ...)],
        [("spec/minAvailable", ...)],
        [("spec/policies", [{"event": "*", "action": "RestartJob"}])],
        [("spec/policies", [{"event": "PodFailed", "events": ["PodFailed"], "action": "RestartJob"}])],
        [("spec/policies", [{"exitCode": 5}])],
        [("spec/plugins", {"mpi": ["--master", "worker"]})],
        [("spec/plugins", {"mpi": ["-master=worker", "--port=22"]})],
        [(f"{TASK}/dependsOn", {"name": ["master"], "iteration": "any"})],
        [
            (f"{TASK}/topologyPolicy", "restricted"),
            (f"{TASK}/template/spec/initContainers/0/resources", ONE_CPU),
        ],
        [(f"{TASK}/topologyPolicy", "none")],
        [(f"{TASK}/replicas", 0), (f"{TASK}/minAvailable", 0), ("spec/minAvailable", 1)],
        [(PARTITIONS, {"totalPartitions": 3, "partitionSize": 1, "minPartitions": 2})],
        [("spec/volumes/0", {"mountPath": "/new", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}})],
        [("spec/networkTopology", {"mode": "soft", "highestTierName": "rack"})],
        [("metadata/name", "Train.1")],
    ],
)
def test_what_volcano_allows_is_allowed(changes):
    assert violations(spoiled(*changes)) == []


def test_every_mistake_is_reported_at_once():
    obj = spoiled(
        ("spec/queue", "nowhere"),
        ("spec/maxRetry", -1),
        ("spec/plugins/nothing", []),
        (f"{TASK}/name", "master"),
        (f"{TASK}/template/spec/containers/0/image", ""),
        ("spec/policies/0/event", "Nothing"),
        ("spec/policies/1/exitCode", 0),
    )
    assert {code for code, _ in violations(obj)} == {
        "queue-not-found",
        "out-of-range",
        "unknown-plugin",
        "duplicate-task-name",
        "required",
        "unknown-event",
        "exit-code-zero",
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("spec/queue", "reserch")], 'did you mean "research"?'),
        ([("spec/queue", "xyz")], 'use one of "childQueue", "default", "research"'),
        ([("spec/queue", "parentQueue")], 'use one of "childQueue"'),
        ([("spec/queue", "closed")], "pumice queue open closed"),
        ([("spec/plugins/pytorh", [])], 'did you mean "pytorch"?'),
        ([("spec/policies/0/event", "PodEvict")], 'did you mean "PodEvicted"?'),
        ([(f"{TASK}/dependsOn", {"name": ["mastr"]})], 'did you mean "master"?'),
        ([(f"{TASK}/dependsOn", {"name": ["worker"]})], "worker → worker"),
    ],
)
def test_a_message_says_what_to_do(changes, words):
    [violation] = validate_job(Job.model_validate(spoiled(*changes)), VIEW)
    assert words in violation.message


def test_a_message_says_when_no_queue_takes_jobs():
    [violation] = validate_job(Job.model_validate(VALID), FixedView())
    assert violation.message == 'there is no queue "research": no queue takes jobs now'


UPDATES: list[tuple[str, list[tuple[str, Any]], list[tuple[str, str]]]] = [
    ("nothing", [], []),
    ("minimum", [("spec/minAvailable", 2)], []),
    ("replicas", [(f"{TASK}/replicas", 9)], []),
    ("minimum of a task", [(f"{TASK}/minAvailable", 1)], []),
    ("priority class", [("spec/priorityClassName", "high")], []),
    ("status and labels", [("status", {"state": {"phase": "Running"}}), ("metadata/labels", {"a": "b"})], []),
    ("an equal quantity", [(f"{TASK}/template/spec/containers/0/resources/requests/cpu", "8000m")], []),
    ("an empty list instead of none", [(f"{TASK}/template/spec/imagePullSecrets", []), ("spec/networkTopology", None)], []),
    ("queue", [("spec/queue", "default")], [("immutable", "spec.queue")]),
    ("image", [(f"{TASK}/template/spec/containers/0/image", "trainer:2")],
     [("immutable", "spec.tasks[1].template.spec.containers[0].image")]),
    ("request", [(f"{TASK}/template/spec/containers/0/resources/requests/cpu", "9")],
     [("immutable", "spec.tasks[1].template.spec.containers[0].resources.requests[cpu]")]),
    ("an unknown field", [(f"{TASK}/template/spec/hostUsers", False)],
     [("immutable", "spec.tasks[1].template.spec.hostUsers")]),
    ("a policy more", [("spec/policies", [])], [("immutable", "spec.policies")]),
    ("two fields", [("spec/maxRetry", 9), ("spec/plugins/ssh", [])],
     [("immutable", "spec.plugins[ssh]"), ("immutable", "spec.maxRetry")]),
    ("a task less", [("spec/tasks/1", ...), ("spec/minAvailable", 1)], [("immutable", "spec.tasks")]),
    ("minimum above replicas", [("spec/minAvailable", 9)], [("min-available-above-replicas", "spec.minAvailable")]),
    ("minimum below zero", [("spec/minAvailable", -9)], [("out-of-range", "spec.minAvailable")]),
    ("replicas below the task's minimum", [(f"{TASK}/replicas", 2), (f"{TASK}/minAvailable", 3), ("spec/minAvailable", 1)],
     [("task-min-available-above-replicas", "spec.tasks[1].minAvailable")]),
    ("both tiers", [("spec/networkTopology", {"highestTierAllowed": 1, "highestTierName": "r"})],
     [("topology-tier-conflict", "spec.networkTopology"), ("immutable", "spec.networkTopology")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"), [case[1:] for case in UPDATES], ids=[case[0] for case in UPDATES]
)
def test_a_job_may_change_only_in_its_numbers_and_priority(changes, expected):
    assert violations(spoiled(*changes), old=VALID) == expected


def test_a_claim_name_filled_in_by_the_controller_is_no_change():
    old = spoiled(("spec/volumes/0", {"mountPath": "/new", "volumeClaim": {}}))
    new = spoiled(
        ("spec/volumes/0", {"mountPath": "/new", "volumeClaim": {}, "volumeClaimName": "train-pvc-1"})
    )
    assert violations(new, old=old) == []


def test_partitions_are_checked_again_when_replicas_change():
    policy = ("spec/tasks/1/partitionPolicy", {"totalPartitions": 3, "partitionSize": 1})
    assert violations(spoiled(policy, (f"{TASK}/replicas", 4)), old=spoiled(policy)) == [
        ("partition-size-mismatch", "spec.tasks[1].partitionPolicy")
    ]
