"""The defaults of jobs and queues are Volcano's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.admission.core.defaults import Defaults, apply_defaults
from services.admission.core.queues import apply_queue_defaults
from shared.api.batch import Job
from shared.api.scheduling import Queue
from tests.unit.admission.worlds import VALID, spoiled, violations


def defaulted(spec: dict[str, Any], settings: Defaults | None = None) -> dict[str, Any]:
    return apply_defaults(Job.model_validate({"spec": spec}), settings or Defaults()).dump()["spec"]


def test_an_empty_job_gets_queue_scheduler_and_retries():
    assert defaulted({}) == {"queue": "default", "schedulerName": "volcano", "maxRetry": 3}


def test_settings_say_what_the_defaults_are():
    settings = Defaults(queue="batch", scheduler="pumice", max_retry=5, namespace="team")
    assert defaulted({"tasks": [{}]}, settings) == {
        "queue": "batch",
        "schedulerName": "pumice",
        "maxRetry": 5,
        "tasks": [{"name": "default0", "minAvailable": 0, "maxRetry": 5}],
    }
    assert apply_defaults(Job(), settings).metadata.namespace == "team"


def test_a_task_gets_a_name_its_replicas_as_minimum_and_retries():
    spec = defaulted(
        {"tasks": [{"replicas": 2}, {"name": "w", "replicas": 3, "minAvailable": 1, "maxRetry": 7}]}
    )
    assert spec["tasks"] == [
        {"name": "default0", "replicas": 2, "minAvailable": 2, "maxRetry": 3},
        {"name": "w", "replicas": 3, "minAvailable": 1, "maxRetry": 7},
    ]
    assert spec["minAvailable"] == 3


def test_the_jobs_own_minimum_stays():
    assert defaulted({"minAvailable": 1, "tasks": [{"replicas": 2}]})["minAvailable"] == 1


@pytest.mark.parametrize(("partitions", "least"), [(2, 8), (0, 12)])
def test_partitions_give_the_tasks_minimum_when_they_have_one(partitions, least):
    policy = {"totalPartitions": 3, "partitionSize": 4, "minPartitions": partitions}
    [task] = defaulted({"tasks": [{"replicas": 12, "partitionPolicy": policy}]})["tasks"]
    assert task["minAvailable"] == least


@pytest.mark.parametrize(
    ("pod", "policy"),
    [
        ({"hostNetwork": True}, "ClusterFirstWithHostNet"),
        ({"hostNetwork": True, "dnsPolicy": "Default"}, "Default"),
        ({"hostNetwork": False}, None),
    ],
)
def test_a_pod_in_the_nodes_network_can_still_resolve_services(pod, policy):
    [task] = defaulted({"tasks": [{"template": {"spec": pod}}]})["tasks"]
    assert task["template"]["spec"].get("dnsPolicy") == policy


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ({"env": []}, {"env": []}),
        ({"tensorflow": []}, {"tensorflow": [], "svc": []}),
        ({"pytorch": ["--master=m"]}, {"pytorch": ["--master=m"], "svc": []}),
        ({"ray": []}, {"ray": [], "svc": []}),
        ({"mpi": []}, {"mpi": [], "svc": [], "ssh": []}),
        ({"mpi": [], "svc": ["--disable-network-policy=true"], "ssh": ["--ssh-port=2222"]},
         {"mpi": [], "svc": ["--disable-network-policy=true"], "ssh": ["--ssh-port=2222"]}),
    ],
)  # fmt: skip
def test_frameworks_bring_the_plugins_they_need_and_keep_arguments(plugins, expected):
    assert defaulted({"plugins": plugins})["plugins"] == expected


def test_what_a_job_says_and_what_we_do_not_know_stays():
    job = spoiled(
        ("spec/hello", [1, None]), ("spec/tasks/0/template/spec/hostUsers", False), ("metadata/labels", None)
    )
    after = apply_defaults(Job.model_validate(job), Defaults()).dump()
    assert after["spec"]["hello"] == [1, None]
    assert after["spec"]["tasks"][0]["template"]["spec"]["hostUsers"] is False
    assert after["metadata"]["labels"] is None
    assert after["spec"]["queue"] == "research"


def test_an_object_is_not_changed_in_place():
    obj = copy.deepcopy(VALID)
    apply_defaults(Job.model_validate(obj), Defaults())
    assert obj == VALID


tasks = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["", "a", "b"]),
        "replicas": st.integers(-1, 4),
        "minAvailable": st.integers(-1, 4) | st.none(),
        "maxRetry": st.integers(-1, 3),
        "template": st.fixed_dictionaries({}, optional={"spec": st.fixed_dictionaries({}, optional={
            "hostNetwork": st.booleans(), "dnsPolicy": st.sampled_from(["", "None"])})}),
        "partitionPolicy": st.fixed_dictionaries({}, optional={
            "totalPartitions": st.integers(-1, 3), "partitionSize": st.integers(-1, 3), "minPartitions": st.integers(-1, 3)}),
    },
)  # fmt: skip
specs = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.sampled_from(["", "research", None]),
        "minAvailable": st.integers(-1, 5),
        "maxRetry": st.integers(-1, 5),
        "tasks": st.lists(tasks, max_size=3),
        "plugins": st.dictionaries(st.sampled_from(["mpi", "svc", "ssh", "ray", "env"]), st.lists(st.just("--x"), max_size=1)),
    },
)  # fmt: skip


@given(specs)
def test_applying_defaults_twice_changes_nothing_more(spec):
    once = apply_defaults(Job.model_validate({"spec": spec}), Defaults())
    assert apply_defaults(once, Defaults()).dump() == once.dump()


@given(st.sets(st.sampled_from(
    ["spec/minAvailable", "spec/queue", "spec/plugins", "spec/policies", "spec/volumes", "spec/tasks/0/name",
     "spec/tasks/1/name", "spec/tasks/1/template/spec/tolerations", "spec/tasks/0/replicas"])))  # fmt: skip
def test_a_valid_job_that_leaves_things_out_is_valid_with_its_defaults(left_out):
    obj = spoiled(*((path, ...) for path in left_out))
    if "spec/tasks/0/replicas" in left_out and "spec/minAvailable" not in left_out:
        obj["spec"]["minAvailable"] = 3
    assert violations(obj) == []


def test_a_queue_gets_weight_and_is_reclaimable():
    assert apply_queue_defaults(Queue()).spec.dump() == {"reclaimable": True, "weight": 1}
    said = Queue.model_validate({"spec": {"reclaimable": False, "weight": 7}})
    assert apply_queue_defaults(said) is said


@pytest.mark.parametrize(
    ("path", "weights", "expected"),
    [
        ("sci/dev", "1/2", ("root/sci/dev", "1/1/2")),
        ("root/sci", "1/2", ("root/sci", "1/2")),
        ("sci", "", ("sci", "")),
    ],
)
def test_a_queues_path_begins_at_the_root(path, weights, expected):
    keys = ("volcano.sh/hierarchy", "volcano.sh/hierarchy-weights")
    queue = Queue.model_validate({"metadata": {"annotations": dict(zip(keys, (path, weights), strict=True))}})
    once = apply_queue_defaults(queue)
    assert tuple(once.metadata.annotations[key] for key in keys) == expected
    assert apply_queue_defaults(once) == once
