"""What the controller makes of a job: pods, podgroup, gang; and the smallest patch of a status."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.controller.core import gangs, podgroups
from services.controller.core.model import Priorities, precise, read_group, read_job
from services.controller.core.pods import make_pod
from services.controller.core.podview import PodView
from services.controller.core.status import Status, count_pods, merge_patch, read_status, write_status
from shared.api.batch import JobPhase
from shared.api.scheduling import PodGroupPhase
from tests.fakes.cluster import _merge
from tests.unit.controller.conftest import job

NOW = datetime(2026, 3, 1, 12, 0, 0, 250000, tzinfo=UTC)


def wanted(body=None, **spec):
    body = body or job(**spec)
    body["metadata"] |= {"uid": "u-1", "creationTimestamp": "2026-03-01T12:00:00Z", "resourceVersion": "1"}
    return read_job(body)


def group(one, generation=0, phase="Pending"):
    body = podgroups.make_podgroup(one, generation, Priorities(), NOW)
    body["metadata"] |= {"uid": "g-1", "creationTimestamp": "2026-03-01T12:00:00Z"}
    body["status"]["phase"] = phase
    return read_group(body)


def pod(name, *, task="worker", phase="Running", node="n", generation=0, **more) -> PodView:
    return PodView(name, f"uid-{name}", task, 0, generation, phase, node, **more)


# ------------------------------------------------------------------------------------------ reading
def test_what_a_job_leaves_out_is_as_the_admission_service_would_fill_it_in():
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = job()
    body["spec"] = {
        "tasks": [
            {"replicas": 2, "template": template},
            {"replicas": 3, "minAvailable": 1, "template": template},
        ]
    }
    one = wanted(body)
    assert (one.queue, one.scheduler, one.max_retry, one.min_available) == ("default", "volcano", 3, 3)
    assert [task.name for task in one.tasks] == ["default0", "default1"]
    assert next(iter(one.members())) == "train-default0-0"


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [
        ("2026-03-01T12:00:00.500000Z", timedelta(seconds=0.5)),
        ("2020-01-01T00:00:00Z", timedelta()),
        ("2030-01-01T00:00:00Z", timedelta(seconds=1)),
        ("nonsense", timedelta()),
        (None, timedelta()),
    ],
)
def test_a_note_of_the_exact_time_counts_only_inside_the_second_of_creation(claimed, expected):
    second = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert precise("2026-03-01T12:00:00Z", claimed) == second + expected


# --------------------------------------------------------------------------------------------- pods
TRACE = {
    "pumice.dev/traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "pumice.dev/tracestate": "pumice=0",
}


def test_a_pod_carries_volcanos_names_labels_and_annotations():
    body = job()
    body["metadata"]["annotations"] = {"volcano.sh/preemptable": "false", **TRACE}
    body["metadata"]["labels"] = {"volcano.sh/job-type": "tf", "team": "a"}
    body["spec"]["tasks"][1]["template"]["metadata"] = {"labels": {"app": "x"}, "annotations": {"k": "v"}}
    one = wanted(body)
    made = make_pod(one, Status(generation=2, retries=1), one.tasks[1], 2)
    meta = made["metadata"]
    assert meta["name"] == "train-worker-2"
    assert meta["ownerReferences"] == [
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "train",
            "uid": "u-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert meta["labels"] == {
        "app": "x",
        "volcano.sh/job-type": "tf",
        "volcano.sh/job-name": "train",
        "volcano.sh/job-namespace": "default",
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": "2",
    }
    assert meta["annotations"] == {
        "k": "v",
        "volcano.sh/preemptable": "false",
        "pumice.dev/traceparent": TRACE["pumice.dev/traceparent"],
        "scheduling.k8s.io/group-name": "train-u-1",
        "volcano.sh/job-name": "train",
        "volcano.sh/job-version": "2",
        "volcano.sh/job-retry-count": "1",
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": "2",
        "volcano.sh/template-uid": "train-worker",
    }
    assert made["spec"]["schedulerName"] == "volcano"
    assert "nodeName" not in made["spec"]
    assert make_pod(one, Status(), one.tasks[0], 0, node="n7")["spec"]["nodeName"] == "n7"


def test_a_template_is_never_changed_by_the_pods_made_of_it():
    one = wanted(volumes=[{"mountPath": "/data", "volumeClaimName": "claim"}])
    first = make_pod(one, Status(), one.tasks[0], 0)
    second = make_pod(one, Status(), one.tasks[0], 0)
    assert first == second
    assert first["spec"]["containers"][0]["volumeMounts"] == [{"name": "claim", "mountPath": "/data"}]
    assert first["spec"]["volumes"] == [{"name": "claim", "persistentVolumeClaim": {"claimName": "claim"}}]


def test_on_the_hosts_network_names_of_the_cluster_still_resolve():
    body = job()
    body["spec"]["tasks"][0]["template"]["spec"]["hostNetwork"] = True
    one = wanted(body)
    assert make_pod(one, Status(), one.tasks[0], 0)["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


# ---------------------------------------------------------------------------------------- podgroups
def test_a_podgroup_asks_for_what_the_minimum_needs_in_quota_names():
    made = podgroups.make_podgroup(wanted(), 0, Priorities(), NOW)
    assert made["metadata"]["name"] == "train-u-1"
    assert made["spec"]["minMember"] == 4
    assert made["spec"]["minTaskMember"] == {"master": 1, "worker": 3}
    assert made["spec"]["minResources"] == {
        "count/pods": "4",
        "cpu": "8",
        "nvidia.com/gpu": "32",
        "pods": "4",
        "requests.cpu": "8",
        "requests.nvidia.com/gpu": "32",
    }
    assert made["status"] == {"phase": "Pending"}


def task_of(name, replicas, cpu, *, minimum=None, priority=None):
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}
    if priority is not None:
        spec["priorityClassName"] = priority
    task = {"name": name, "replicas": replicas, "template": {"spec": spec}}
    return task if minimum is None else {**task, "minAvailable": minimum}


@pytest.mark.parametrize(
    ("minimum", "cpu"),
    [
        (1, "10"),  # below the sum of the tasks' minimums: the first pods in priority order
        (3, "21"),
        (4, "22"),
        (5, "23"),
    ],
)
def test_min_resources_takes_the_first_pods_by_priority_or_each_tasks_minimum_first(minimum, cpu):
    tasks = [task_of("low", 3, "1", minimum=3), task_of("high", 2, "10", minimum=2, priority="high")]
    one = wanted(tasks=tasks, minAvailable=minimum)
    found = podgroups.min_resources(one, Priorities({"high": 100}))
    assert str(found["cpu"]) == cpu


def test_with_room_beyond_the_tasks_minimums_further_pods_follow_in_priority_order():
    tasks = [task_of("low", 3, "1", minimum=1), task_of("high", 2, "10", minimum=1, priority="high")]
    found = podgroups.min_resources(wanted(tasks=tasks, minAvailable=3), Priorities({"high": 100}))
    assert str(found["cpu"]) == "21"


def test_kubectls_copy_of_the_manifest_is_not_inherited():
    body = job()
    body["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "a": "b",
        **TRACE,
    }
    made = podgroups.make_podgroup(wanted(body), 3, Priorities(), NOW)
    assert made["metadata"]["annotations"] == {
        "a": "b",
        **TRACE,
        "volcano.sh/job-version": "3",
        "pumice.dev/ready-since": "2026-03-01T12:00:00.250000Z",
        "pumice.dev/scale": "4:1/1,3/3:",
    }


FOUR = [pod(f"p{i}") for i in range(4)]
ENDED = [pod(f"p{i}", phase="Succeeded") for i in range(4)]


@pytest.mark.parametrize(
    ("before", "pods", "after"),
    [
        ("Pending", [], "Pending"),
        ("Pending", [pod("p0", node=None, phase="Pending")], "Pending"),
        ("Pending", FOUR[:1], "Inqueue"),
        ("Pending", [pod("p0", generation=1)], "Pending"),
        ("Pending", [pod("p0", deleting=True)], "Pending"),
        ("Pending", ENDED, "Inqueue"),
        ("Pending", ENDED[:3], "Pending"),
        ("Unknown", [], "Unknown"),
    ],
)
def test_pods_that_hold_room_or_are_enough_say_that_their_gang_was_let_in(before, pods, after):
    one = wanted()
    assert podgroups.let_in(group(one, phase=before), one, pods).phase == PodGroupPhase(after)


@pytest.mark.parametrize(
    ("before", "pods", "after"),
    [
        ("Pending", FOUR, "Pending"),
        ("Inqueue", [], "Inqueue"),
        ("Inqueue", FOUR[:3], "Inqueue"),
        ("Inqueue", FOUR, "Running"),
        ("Inqueue", [pod(f"p{i}", phase="Pending") for i in range(4)], "Running"),
        ("Running", [pod(f"p{i}", phase="Succeeded") for i in range(4)], "Completed"),
        ("Running", FOUR[:3], "Unknown"),
        ("Running", [*FOUR[:3], pod("p3", node=None, phase="Pending")], "Unknown"),
        ("Unknown", FOUR, "Running"),
        ("Running", [pod("p0", phase="Succeeded"), pod("p1", node=None, phase="Pending")], "Pending"),
        ("Running", [*FOUR[:3], pod("p3", deleting=True)], "Unknown"),
        ("Running", [*FOUR[:3], pod("p3", generation=1)], "Unknown"),
    ],
)
def test_the_podgroups_phase_follows_its_pods(before, pods, after):
    one = wanted()
    assert podgroups.group_phase(group(one, phase=before), one, pods) == PodGroupPhase(after)


# -------------------------------------------------------------------------------------------- gangs
def test_a_gang_names_its_members_and_each_tasks_shape():
    one = wanted()
    gang = gangs.gang_of(one, Status(), group(one), Priorities(default=7))
    assert gang is not None
    assert [(t.name, t.minimum, [m.pod for m in t.members]) for t in gang.tasks] == [
        ("master", 1, ["train-master-0"]),
        ("worker", 3, ["train-worker-0", "train-worker-1", "train-worker-2"]),
    ]
    assert gang.tasks[0].shape.requests == {"cpu": 2000, "nvidia.com/gpu": 8}
    assert (gang.min_member, gang.priority, gang.pool, gang.queue) == (4, 7, "default", "default")
    assert gang.ready_since == NOW


def test_there_is_no_gang_without_podgroup_for_another_generation_or_of_a_job_that_wants_no_pods():
    one = wanted()
    assert gangs.gang_of(one, Status(), None, Priorities()) is None
    assert gangs.gang_of(one, Status(generation=1), group(one), Priorities()) is None
    assert gangs.gang_of(one, Status(phase=JobPhase.ABORTED), group(one), Priorities()) is None


def test_a_member_whose_name_an_older_pod_has_waits():
    one = wanted()
    status = Status(phase=JobPhase.PENDING, generation=1)
    gang = gangs.gang_of(one, status, group(one, 1), Priorities(), [pod("train-worker-0", generation=0)])
    assert gang is not None
    assert not gangs.complete_enough(gang)
    assert sum(len(t.members) for t in gang.tasks) == 3


def test_pods_that_ended_need_no_place_when_others_do():
    one = wanted()
    status = Status(phase=JobPhase.PENDING)
    pods = [pod("train-master-0", task="master", phase="Succeeded"), pod("train-worker-0")]
    gang = gangs.gang_of(one, status, group(one, phase="Unknown"), Priorities(), pods)
    assert gang is not None
    assert gang.min_member == 3
    assert [(t.minimum, len(t.members)) for t in gang.tasks] == [(0, 0), (3, 3)]
    assert gangs.unplaced(gang, pods) == {"train-worker-1", "train-worker-2"}


def test_a_tasks_own_minimum_counts_only_when_all_of_them_fit_into_the_jobs():
    one = wanted(minAvailable=2)
    gang = gangs.gang_of(one, Status(), group(one), Priorities())
    assert gang is not None
    assert [t.minimum for t in gang.tasks] == [0, 0]
    assert gangs.reaches_minimum(one, ["worker", "worker"])
    assert not gangs.reaches_minimum(wanted(), ["worker"] * 4)


def test_priority_is_the_jobs_class_else_the_highest_of_its_pods():
    tasks = [task_of("a", 1, "1", priority="low"), task_of("b", 1, "1", priority="high")]
    classes = Priorities({"low": 1, "high": 5, "job": 3})
    plain = wanted(tasks=tasks, minAvailable=2)
    assert gangs.gang_of(plain, Status(), group(plain), classes).priority == 5
    classed = wanted(tasks=tasks, minAvailable=2, priorityClassName="job")
    assert gangs.gang_of(classed, Status(), group(classed), classes).priority == 3


@pytest.mark.parametrize(
    ("text", "value"), [(None, True), ("true", True), ("false", False), ("maybe", False)]
)
def test_pods_may_be_preempted_unless_they_say_no(text, value):
    body = job()
    if text is not None:
        body["metadata"]["annotations"] = {"volcano.sh/preemptable": text}
    one = wanted(body)
    assert gangs.gang_of(one, Status(), group(one), Priorities()).tasks[0].shape.preemptable is value


def test_where_pods_may_go_is_in_the_shape():
    body = job()
    spec = body["spec"]["tasks"][0]["template"]["spec"]
    spec["nodeSelector"] = {"gpu": "a100"}
    spec["tolerations"] = [
        {"key": "team", "operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ]
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
    spec["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term}],
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}]},
    }
    one = wanted(body)
    shape = gangs.gang_of(one, Status(), group(one), Priorities()).tasks[0].shape
    assert shape.node_selector == {"gpu": "a100"}
    assert shape.required_terms[0].expressions[0].values == ("a", "b")
    assert shape.preferred_terms[0].weight == 5
    assert [t.operator for t in shape.tolerations] == ["Exists", "Exists"]
    assert "podAntiAffinity" in shape.extras


# ------------------------------------------------------------------------------------------- status
VALUES = st.recursive(
    st.integers(1, 3)
    | st.text("ab", min_size=1, max_size=2)
    | st.lists(st.integers(0, 2), min_size=1, max_size=2),
    lambda inner: st.dictionaries(st.text("xyz", min_size=1, max_size=1), inner, min_size=1, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("xyz", min_size=1, max_size=1), VALUES, max_size=3)


@given(old=OBJECTS, new=OBJECTS)
def test_a_merge_patch_makes_the_old_object_the_new_one(old, new):
    patch = merge_patch(old, new)
    result = {**old}
    if patch:
        result = copy.deepcopy(old)
        _merge(result, patch)
    assert result == new
    assert (patch is None) == (old == new)


def test_a_status_survives_writing_and_reading():
    status = Status(generation=2, retries=1, controlled={"plugin-svc": "svc"}).move(
        JobPhase.PENDING, NOW, "r", "m"
    )
    status = status.move(JobPhase.RUNNING, NOW, "", "")
    assert read_status({"status": write_status(status)}) == status


def test_a_phase_has_one_condition_and_re_entering_moves_it_to_the_end():
    status = Status()
    for phase in (JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING, JobPhase.PENDING):
        status = status.move(phase, NOW, "", "")
    assert [c.phase for c in status.conditions] == ["Running", "Restarting", "Pending"]


def test_the_running_duration_is_from_running_to_the_end():
    status = Status().move(JobPhase.RUNNING, NOW, "", "")
    done = status.move(JobPhase.COMPLETED, NOW + timedelta(minutes=2, seconds=3), "", "")
    assert done.running_duration == "2m3s"


def test_killed_is_not_succeeded():
    pods = [pod("a", phase="Succeeded"), pod("b", phase="Succeeded", deleting=True), pod("c")]
    counts, by_task = count_pods(pods, frozenset({"c"}))
    assert (counts.succeeded, counts.running, counts.terminating) == (1, 0, 2)
    assert by_task == {"worker": {"Succeeded": 1}}


def test_the_scheduler_is_told_what_plugins_volumes_and_the_jobs_class_add():
    spec = {"containers": [{"name": "c", "image": "i"}], "hostNetwork": True}
    tasks = [{"name": name, "replicas": 1, "template": {"spec": spec}} for name in ("master", "worker")]
    volumes = [{"mountPath": "/data", "volumeClaimName": "data"}]
    one = wanted(
        tasks=tasks,
        minAvailable=2,
        plugins={"pytorch": ["--port=5000"]},
        volumes=volumes,
        priorityClassName="high",
    )
    shape = gangs.gang_of(one, Status(), group(one), Priorities({"high": 7})).tasks[1].shape
    assert shape.extras == {"claims": ["data"], "hostPorts": [["TCP", "0.0.0.0", 5000]]}
    assert shape.priority == 7
    assert make_pod(one, Status(), one.tasks[1], 0)["spec"]["priorityClassName"] == "high"
