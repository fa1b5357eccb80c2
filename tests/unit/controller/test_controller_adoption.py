"""What PodGroup a plain pod gets, for each kind of owner; whose pods make which gang; phases and conditions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from services.controller.core.adoption import changed_spec, make_podgroup, owner_of
from services.controller.core.holding import Held
from services.controller.core.members import group_of, read_member
from services.controller.core.model import Priorities
from services.controller.core.plaingangs import plain_gang, read_plain_group, ready_to_decide
from services.controller.core.plainstatus import plain_phase, plain_status_patch, waiting_patch
from shared.api import names
from shared.api.scheduling import PodGroupPhase
from shared.events.contracts import GangRef, GangReport, Reason, Shape
from tests.unit.controller.conftest import EPOCH

VOLCANO = ("volcano",)
AMOUNTS = {"cpu": "2", "memory": "1Gi"}
PENDING, INQUEUE, RUNNING = PodGroupPhase.PENDING, PodGroupPhase.INQUEUE, PodGroupPhase.RUNNING
UNKNOWN, COMPLETED = PodGroupPhase.UNKNOWN, PodGroupPhase.COMPLETED


def pod(
    name="p", owner: tuple[str, str] | None = None, *, phase="Pending", node="", deleting=False, **meta
) -> dict:
    references = []
    if owner is not None:
        api_version, kind = owner
        references = [
            {
                "apiVersion": api_version,
                "kind": kind,
                "name": "own",
                "uid": "o",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"u-{name}",
        "ownerReferences": references,
        **meta,
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    container = {"name": "c", "image": "i", "resources": {"requests": AMOUNTS}}
    spec = {"schedulerName": "volcano", "priorityClassName": "high", "containers": [container]}
    return {
        "metadata": metadata,
        "spec": spec | ({"nodeName": node} if node else {}),
        "status": {"phase": phase},
    }


def owner(**annotations) -> dict:
    return {"metadata": {"name": "own", "uid": "o", "annotations": annotations}}


def made(one: dict, of: dict | None = None) -> dict:
    return make_podgroup(one, of, EPOCH)


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        (("apps/v1", "ReplicaSet"), True),
        (("apps/v1", "StatefulSet"), True),
        (("apps/v1", "DaemonSet"), True),
        (("batch/v1", "Job"), True),
        (("ray.io/v1", "RayCluster"), False),
        (("sparkoperator.k8s.io/v1beta2", "SparkApplication"), False),
        (("v1", "Pod"), False),  # executors of a Spark driver
    ],
)
def test_pods_of_one_owner_share_a_group_which_the_owner_takes_along(kind, read):
    one = pod(owner=kind)
    assert group_of(one, VOLCANO) == "podgroup-o"
    found = owner_of(one)
    assert (found is not None) == read
    group = made(one)
    assert group["metadata"]["name"] == "podgroup-o"
    reference = {"apiVersion": kind[0], "kind": kind[1], "name": "own", "uid": "o", "controller": True}
    assert group["metadata"]["ownerReferences"] == [reference]
    assert group["spec"]["minMember"] == 1


def test_a_bare_pods_group_is_its_own():
    group = made(pod())
    assert group["metadata"]["name"] == group_of(pod(), VOLCANO) == "podgroup-u-p"
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-p", "controller": True}
    assert group["metadata"]["ownerReferences"] == [reference]
    assert group["spec"]["priorityClassName"] == "high"
    assert group["spec"]["minResources"]["requests.cpu"] == "2"


def test_a_pod_that_names_its_group_is_of_that_one_and_pods_of_jobs_and_others_of_none():
    assert group_of(pod(annotations={names.GROUP_NAME: "spark"}), VOLCANO) == "spark"
    assert group_of(pod(owner=("batch.volcano.sh/v1alpha1", "Job")), VOLCANO) is None
    assert group_of(pod(), ("another",)) is None


@pytest.mark.parametrize(
    ("on_owner", "on_pod", "minimum"),
    [
        ("3", None, 3),
        (None, "2", 2),
        ("3", "2", 3),
        ("0", None, 0),
        ("-1", None, 1),
        ("many", None, 1),
        (None, None, 1),
    ],
)
def test_the_minimum_is_the_owners_then_the_pods_then_one(on_owner, on_pod, minimum):
    one = pod(annotations={names.GROUP_MIN_MEMBER: on_pod} if on_pod else {})
    spec = made(one, owner(**{names.GROUP_MIN_MEMBER: on_owner}) if on_owner else None)["spec"]
    assert spec["minMember"] == minimum
    assert spec["minResources"]["cpu"] == str(2 * minimum)


def test_queue_and_annotations_are_the_pods_before_the_owners():
    of = owner(
        **{names.GROUP_QUEUE_NAME: "a", names.PREEMPTABLE: "true", names.QOS_LEVEL: "1", "other/x": "y"}
    )
    own = {names.GROUP_QUEUE_NAME: "b", names.PREEMPTABLE: "false", names.JOB_VERSION: "7"}
    group = made(pod(annotations=own, labels={names.REVOCABLE_ZONE: "*", "app": "web"}), of)
    assert group["spec"]["queue"] == "b"
    annotations = {
        key: value for key, value in group["metadata"]["annotations"].items() if "pumice" not in key
    }
    assert annotations == {names.PREEMPTABLE: "false", names.QOS_LEVEL: "1"}
    assert group["metadata"]["labels"] == {names.REVOCABLE_ZONE: "*"}
    assert "queue" not in made(pod())["spec"]


@pytest.mark.parametrize(
    ("mode", "tier", "topology"),
    [
        ("Soft", "2", {"mode": "soft", "highestTierAllowed": 2}),
        ("sideways", None, {"mode": "hard"}),
        (None, "1", {"mode": "hard", "highestTierAllowed": 1}),
        (None, None, None),
    ],
)
def test_the_network_topology_is_the_pods(mode, tier, topology):
    given = {names.NETWORK_TOPOLOGY_MODE: mode, names.NETWORK_TOPOLOGY_HIGHEST_TIER: tier}
    one = pod(annotations={key: value for key, value in given.items() if value})
    assert made(one)["spec"].get("networkTopology") == topology


def test_a_spec_is_renewed_only_where_it_differs():
    group = made(pod(), owner())
    group["spec"]["queue"] = "default"  # as the API server fills in
    assert changed_spec(group, pod(), owner()) is None
    patch = changed_spec(group, pod(), owner(**{names.GROUP_MIN_MEMBER: "2"}))
    assert patch is not None
    assert set(patch["spec"]) == {"minMember", "minResources"}
    assert (patch["spec"]["minMember"], patch["spec"]["minResources"]["pods"]) == (2, "2")


# ----------------------------------------------------------------------------- gangs, phases, conditions


def plain(minimum=2, phase="Pending", conditions=(), **spec):
    body = {
        "metadata": {
            "name": "g",
            "namespace": "default",
            "uid": "g-1",
            "creationTimestamp": "2026-03-01T12:00:00Z",
        },
        "spec": {"minMember": minimum, **spec},
        "status": {"phase": phase, **({"conditions": list(conditions)} if conditions else {})},
    }
    return read_plain_group(body)


def members(*pods: dict):
    return [read_member(one) for one in pods]


def gang_of(group, pods):
    return plain_gang(group, pods, Priorities(), lambda _: Shape())


def test_a_gang_is_the_living_pods_and_what_succeeded_counts_for_its_minimum():
    pods = members(
        pod("a"),
        pod("b", node="n", phase="Running"),
        pod("c", node="n", phase="Succeeded"),
        pod("d", node="n", phase="Failed"),
        pod("e", deleting=True),
    )
    gang = gang_of(plain(minimum=3), pods)
    assert [member.pod for task in gang.tasks for member in task.members] == ["a", "b"]
    assert gang.min_member == 2
    assert ready_to_decide(gang, pods)


def test_what_a_group_will_need_in_all_is_told_in_base_units_without_names_of_quotas():
    """Spark's driver: a minimum of one, resources of the whole application."""
    asked = {"cpu": "7500m", "memory": "1Gi", "requests.cpu": "9", "limits.cpu": "9", "count/pods": "4"}
    gang = gang_of(plain(minimum=1, minResources=asked), members(pod("driver")))
    assert gang.min_resources == {"cpu": 7500, "memory": 1 << 30}


def test_what_the_minimum_of_a_group_made_here_needs_is_not_told_again():
    driver = pod("driver")
    raw = {**make_podgroup(driver, None, EPOCH), "status": {}}
    raw["metadata"]["uid"] = "g-1"
    assert raw["spec"]["minResources"]
    assert gang_of(read_plain_group(raw), members(driver)).min_resources == {}


def test_tasks_have_minimums_of_their_own_only_where_the_groups_covers_them():
    def role(name: str) -> dict:
        return pod(name, annotations={names.TASK_SPEC: name})

    strict = gang_of(plain(minimum=2, minTaskMember={"driver": 1, "worker": 1}), members(role("worker")))
    assert [(task.name, task.minimum, len(task.members)) for task in strict.tasks] == [
        ("driver", 1, 0),
        ("worker", 1, 1),
    ]
    loose = gang_of(plain(minimum=1, minTaskMember={"driver": 1, "worker": 1}), members(role("worker")))
    assert [task.minimum for task in loose.tasks] == [0, 0]


@pytest.mark.parametrize(
    ("before", "pods", "after"),
    [
        (PENDING, [pod("a"), pod("b")], PENDING),
        (PENDING, [pod("a", node="n"), pod("b")], PENDING),
        (PENDING, [pod("a", node="n"), pod("b", node="n")], RUNNING),
        (PENDING, [], INQUEUE),
        (INQUEUE, [pod("a")], INQUEUE),
        (INQUEUE, [pod("a", node="n"), pod("b", node="n")], RUNNING),
        (RUNNING, [pod("a", node="n", phase="Running"), pod("b")], UNKNOWN),
        (RUNNING, [pod("a", node="n", phase="Running"), pod("b", node="n", deleting=True)], UNKNOWN),
        (UNKNOWN, [pod("a", node="n"), pod("b", node="n")], RUNNING),
        (RUNNING, [pod("a")], PENDING),
        (RUNNING, [], INQUEUE),
        (RUNNING, [pod("a", node="n", phase="Succeeded"), pod("b", node="n", phase="Failed")], COMPLETED),
        (
            COMPLETED,
            [pod("a", node="n", phase="Failed"), pod("b", node="n", phase="Failed"), pod("c")],
            RUNNING,
        ),
    ],
)
def test_the_phase_follows_the_pods(before, pods, after):
    assert plain_phase(plain(phase=before), members(*pods), queue_open=True) is after


def test_a_group_without_pods_does_not_enter_a_queue_that_is_closed():
    assert plain_phase(plain(), [], queue_open=False) is PENDING


def report(code="no-room", message="0 of 2 fit") -> GangReport:
    return GangReport(
        gang=GangRef(namespace="default", name="g", uid="g-1"),
        queue="default",
        waiting_since=EPOCH,
        position=1,
        queue_length=1,
        reason=Reason(code=code, message=message),
        at=EPOCH,
    )


@pytest.mark.parametrize(
    ("code", "reason"), [("no-room", "NotEnoughResources"), ("waiting-for-members", "NotEnoughTasks")]
)
def test_a_status_once_written_is_not_written_again(code, reason):
    pods = members(pod("a"))
    first = plain_status_patch(plain(), PENDING, pods, report=report(code), decision="", now=EPOCH)
    assert [(one["type"], one["reason"]) for one in first["status"]["conditions"]] == [
        ("Unschedulable", reason)
    ]
    again = plain(conditions=first["status"]["conditions"])
    assert plain_status_patch(again, PENDING, pods, report=report(code), decision="", now=EPOCH) is None


def test_a_gang_that_started_says_so_instead_of_why_it_waited():
    waiting = plain_status_patch(plain(), PENDING, members(pod("a")), report=report(), decision="", now=EPOCH)
    group = plain(conditions=waiting["status"]["conditions"])
    pods = members(pod("a", node="n", phase="Running"), pod("b", node="n", phase="Running"))
    patch = plain_status_patch(group, RUNNING, pods, report=None, decision="d-1", now=EPOCH)
    assert patch["status"]["running"] == 2
    assert [(one["type"], one["transitionID"]) for one in patch["status"]["conditions"]] == [
        ("Scheduled", "d-1")
    ]


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({}, "0 of 2 fit"),
        ({"position": 2, "queue_length": 3}, "0 of 2 fit; place 2 of 3 in queue default"),
        ({"outlook": "nobody can say when"}, "0 of 2 fit; nobody can say when"),
        (
            {"estimated_start": EPOCH, "estimated_start_p90": EPOCH, "outlook": "when ns/a ends on n1"},
            "0 of 2 fit; may start at 2026-03-01T12:00:00Z, when ns/a ends on n1",
        ),
        (
            {"estimated_start": EPOCH, "estimated_start_p90": EPOCH + timedelta(hours=1)},
            "0 of 2 fit; may start at 2026-03-01T12:00:00Z (p90 2026-03-01T13:00:00Z)",
        ),
    ],
)
def test_a_condition_says_why_the_place_and_when_it_may_start(told, says):
    event = report().model_copy(update=told)
    patch = plain_status_patch(plain(), PENDING, members(pod("a")), report=event, decision="", now=EPOCH)
    assert [one["message"] for one in patch["status"]["conditions"]] == [says]


def test_a_waiting_pod_says_when_it_may_start_once_that_is_known():
    known = report().model_copy(update={"estimated_start": EPOCH})
    later = report().model_copy(update={"estimated_start": EPOCH + timedelta(hours=1)})
    first = waiting_patch(members(pod("a"))[0], None, report(), EPOCH)
    patch = waiting_patch(members({**pod("a"), "status": first["status"]})[0], None, known, EPOCH)
    assert patch["status"]["conditions"][0]["message"].endswith("; may start at 2026-03-01T12:00:00Z")
    assert waiting_patch(members({**pod("a"), "status": patch["status"]})[0], None, later, EPOCH) is None


def test_a_waiting_pod_says_that_no_node_takes_it_once():
    patch = waiting_patch(members(pod("a"))[0], None, report(), EPOCH)
    condition = patch["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "Unschedulable",
    )
    told = pod("a")
    told["status"]["conditions"] = patch["status"]["conditions"]
    assert waiting_patch(members(told)[0], None, report(message="1 of 2 fit"), EPOCH) is None
    gated = pod("a")
    gated["spec"]["schedulingGates"] = [{"name": "wait"}]
    for other in (gated, pod("b", node="n"), pod("c", deleting=True)):
        assert waiting_patch(members(other)[0], None, report(), EPOCH) is None


def test_what_holds_a_pod_is_said_before_that_it_lacks_room_and_anew_when_it_is_another():
    held = Held("pod-unreadable", "pod b cannot be read", frozenset({"b"}), whole=False)
    said = {
        name: waiting_patch(members(pod(name))[0], held, report(), EPOCH)["status"]["conditions"][0]
        for name in ("a", "b")
    }
    assert {name: one["reason"] for name, one in said.items()} == {
        "a": "Unschedulable",
        "b": "SchedulerError",
    }
    told = pod("b")
    told["status"]["conditions"] = [said["b"]]
    [again] = members(told)
    assert waiting_patch(again, held, None, EPOCH) is None
    assert waiting_patch(again, None, None, EPOCH) is None
    for other in ((replace(held, message="more words"), None), (None, report())):
        assert waiting_patch(again, *other, EPOCH) is not None
