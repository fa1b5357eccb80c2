"""Pods through the verbs: defaults, refusals, binding, graceful deletion."""

from __future__ import annotations

import pytest
from simulated_world import Cluster, pod, refusal


def test_a_new_pod_has_the_servers_defaults():
    made = Cluster().create("pods", pod("p"))
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    spec = made["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["schedulerName"]) == (
        "Always",
        "ClusterFirst",
        "default-scheduler",
    )
    assert (spec["priority"], spec["preemptionPolicy"], spec["terminationGracePeriodSeconds"]) == (
        0,
        "PreemptLowerPriority",
        30,
    )
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert made["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_quality_of_service_follows_from_requests_and_limits(resources: dict, quality: str):
    body = pod("p")
    body["spec"]["containers"][0]["resources"] = resources
    assert Cluster().create("pods", body)["status"]["qosClass"] == quality


def test_quantities_are_stored_in_canonical_form_and_limits_become_requests():
    body = pod("p")
    body["spec"]["containers"][0]["resources"] = {
        "limits": {"cpu": "1000m", "memory": "1024Mi", "nvidia.com/gpu": 8}
    }
    resources = Cluster().create("pods", body)["spec"]["containers"][0]["resources"]
    assert (
        resources["requests"] == resources["limits"] == {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}
    )


def test_every_violation_is_told():
    body = {"metadata": {"name": "B_"}, "spec": {"containers": [{"name": "C_"}], "restartPolicy": "No"}}
    status = refusal(Cluster().create, "pods", body)
    assert status["code"] == 422
    fields = [cause["field"] for cause in status["details"]["causes"]]
    assert fields == [
        "metadata.name",
        "spec.containers[0].name",
        "spec.containers[0].image",
        "spec.restartPolicy",
    ]


def test_unknown_fields_warn_or_are_refused():
    cluster = Cluster()
    body = pod("p", colour="red")
    assert "colour" not in cluster.create("pods", body)["spec"]
    assert cluster.warnings == ['unknown field "spec.colour"']
    status = refusal(cluster.create, "pods", pod("q", colour="red"), validation="Strict")
    assert (
        status["message"]
        == 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.colour"'
    )


def test_wrong_types_are_a_bad_request():
    status = refusal(Cluster().create, "pods", {"metadata": {"name": "p"}, "spec": {"containers": "x"}})
    assert status["message"] == (
        'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field '
        "PodSpec.spec.containers of type []v1.Container"
    )


def test_generated_names_differ():
    cluster = Cluster()
    names = {
        cluster.create("pods", {**pod(""), "metadata": {"generateName": "p-"}})["metadata"]["name"]
        for _ in range(20)
    }
    assert len(names) == 20
    assert all(name.startswith("p-") and len(name) == 7 for name in names)


def test_a_second_pod_of_a_name_exists_already():
    cluster = Cluster()
    cluster.create("pods", pod("p"))
    assert refusal(cluster.create, "pods", pod("p"))["reason"] == "AlreadyExists"


def test_a_namespace_must_exist():
    status = refusal(Cluster().create, "pods", pod("p"), namespace="nope")
    assert (status["code"], status["message"]) == (404, 'namespaces "nope" not found')


def test_a_dry_run_stores_nothing():
    cluster = Cluster()
    assert cluster.create("pods", pod("p"), dry_run=True)["status"]["phase"] == "Pending"
    assert cluster.get("pods", "p") is None


def test_priority_comes_from_the_class():
    cluster = Cluster()
    cluster.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": "high"}, "value": 1000})
    assert cluster.create("pods", pod("p", priorityClassName="high"))["spec"]["priority"] == 1000
    status = refusal(cluster.create, "pods", pod("q", priorityClassName="nope"))
    assert status["message"] == 'pods "q" is forbidden: no PriorityClass with name nope was found'


def test_a_pod_is_bound_once():
    cluster = Cluster()
    cluster.create("pods", pod("p"))
    assert cluster.bind("p", "n1")["status"] == "Success"
    bound = cluster.get("pods", "p")
    assert bound is not None
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    status = refusal(cluster.bind, "p", "n2")
    assert status["message"] == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )


def test_the_spec_of_a_pod_is_fixed_but_for_its_image():
    cluster = Cluster()
    made = cluster.create("pods", pod("p"))
    containers = [made["spec"]["containers"][0] | {"image": "busybox:2"}]
    changed = cluster.update("pods", made | {"spec": made["spec"] | {"containers": containers}})
    assert changed["metadata"]["generation"] == 2
    status = refusal(cluster.update, "pods", changed | {"spec": changed["spec"] | {"hostname": "x"}})
    assert status["message"].startswith(
        'Pod "p" is invalid: spec: Forbidden: pod updates may not change fields'
    )


def test_main_and_status_are_written_separately():
    cluster = Cluster()
    made = cluster.create("pods", pod("p"))
    cluster.update("pods", made | {"status": {"phase": "Running"}})
    assert (cluster.get("pods", "p") or {})["status"]["phase"] == "Pending"
    cluster.update(
        "pods", made | {"status": {"phase": "Running"}, "spec": made["spec"] | {"nodeName": "x"}}, "status"
    )
    held = cluster.get("pods", "p") or {}
    assert held["status"]["phase"] == "Running"
    assert "nodeName" not in held["spec"]


def test_an_update_of_an_older_version_is_a_conflict():
    cluster = Cluster()
    made = cluster.create("pods", pod("p"))
    cluster.bind("p", "n1")
    assert refusal(cluster.update, "pods", made)["reason"] == "Conflict"


def test_an_unbound_pod_goes_at_once():
    cluster = Cluster()
    cluster.create("pods", pod("p"))
    cluster.delete("pods", "p")
    assert cluster.get("pods", "p") is None


def test_a_bound_pod_has_its_grace_and_goes_when_the_kubelet_says_so():
    cluster = Cluster()
    cluster.create("pods", pod("p"))
    cluster.bind("p", "n1")
    marked = cluster.delete("pods", "p")
    assert (marked["metadata"]["deletionGracePeriodSeconds"], marked["metadata"]["deletionTimestamp"]) == (
        30,
        "2026-01-01T00:00:30Z",
    )
    shorter = cluster.delete("pods", "p", gracePeriodSeconds=5)
    assert shorter["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:05Z"
    cluster.delete("pods", "p", gracePeriodSeconds=0)
    assert cluster.get("pods", "p") is None


def test_a_deletion_may_name_a_uid():
    cluster = Cluster()
    made = cluster.create("pods", pod("p"))
    status = refusal(cluster.delete, "pods", "p", preconditions={"uid": "other"})
    assert (status["code"], status["reason"]) == (409, "Conflict")
    cluster.delete("pods", "p", preconditions={"uid": made["metadata"]["uid"]})
    assert cluster.get("pods", "p") is None


def test_finalizers_hold_an_object_until_they_are_taken_off():
    cluster = Cluster()
    cluster.create("pods", {**pod("p"), "metadata": {"name": "p", "finalizers": ["a.b/c"]}})
    marked = cluster.delete("pods", "p")
    assert marked["metadata"]["deletionTimestamp"]
    more = marked | {"metadata": marked["metadata"] | {"finalizers": ["a.b/c", "x.y/z"]}}
    assert "no new finalizers can be added" in refusal(cluster.update, "pods", more)["message"]
    cluster.update("pods", marked | {"metadata": marked["metadata"] | {"finalizers": []}})
    assert cluster.get("pods", "p") is None
