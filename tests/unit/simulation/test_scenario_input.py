"""What is wrong with a scenario is said before anything runs: file, document, object, field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.simulation.worlds import GPU, job, node, pod, queue, scenario


def _problems(*objects: Any) -> list[str]:
    found = list(scenario(*objects).problems)
    assert found
    return found


def _changed(obj: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    change(obj)
    return obj


def a_class(kind: str, **fields: object) -> dict[str, Any]:
    """A priority class or storage class."""
    group = {"PriorityClass": "scheduling", "StorageClass": "storage"}[kind]
    return {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "metadata": {"name": "c"}, **fields}


def claim(size: str | None) -> dict[str, Any]:
    """A claim on so much storage."""
    requests = {} if size is None else {"storage": size}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": requests}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (
            node("a", at="soon"),
            "document 1 (Node a): metadata.annotations[pumice.dev/at]: 'soon' is not a duration",
        ),
        (node("a", at="-5s"), "metadata.annotations[pumice.dev/at]: -5s is before the beginning"),
        (node("a", at="5s", delete_at="5s"), "metadata.annotations[pumice.dev/delete-at]: 5s is not after"),
        (node("a", run_for="5s"), "metadata.annotations[pumice.dev/run-for]: means nothing here"),
        (node("a", load="cpu=75,disk=1"), '[pumice.dev/load]: "cpu=75,disk=1" is not as cpu=75,memory=40'),
        (node("a", load="cpu=101"), '[pumice.dev/load]: "cpu=101" is not as cpu=75,memory=40'),
        (node("a", load="cpu=nan"), '[pumice.dev/load]: "cpu=nan" is not as cpu=75,memory=40'),
        (node("a", load="cpu=1,cpu=2"), '[pumice.dev/load]: "cpu=1,cpu=2" is not as cpu=75,memory=40'),
        (pod("p", load="cpu=1"), "[pumice.dev/load]: means nothing here; it is for nodes"),
        (
            job("j", runfor="5s"),
            'metadata.annotations[pumice.dev/runfor]: is not known; did you mean "pumice.dev/run-for"?',
        ),
        (
            job("j", exit_code="300"),
            '(Job default/j): metadata.annotations[pumice.dev/exit-code]: "300" is no exit code',
        ),
        (job("j", replicas=-1), "(Job default/j): spec.tasks[0].replicas"),
        (job("j", spec={"queue": "nope"}), 'spec.queue: there is no queue "nope"'),
        (
            pod("p", spec={"containers": [{"name": "c", "resources": {"requests": {"cpu": "x"}}}]}),
            "'x' is not a quantity",
        ),
        (claim("lots"), "spec.resources.requests.storage: 'lots' is not a quantity"),
        (claim("-1Gi"), "spec.resources.requests.storage: -1Gi must be greater than zero"),
        (claim(None), "spec.resources.requests.storage: a claim asks for some storage"),
        (a_class("PriorityClass", value=10**14), "(PriorityClass c): value: "),
        (a_class("PriorityClass", value=10**9 + 1), "value: 1000000001 is more than 1000000000"),
        (
            a_class("PriorityClass", preemptionPolicy="Sometimes"),
            'preemptionPolicy: "Sometimes" is not one of',
        ),
        (a_class("StorageClass", volumeBindingMode="Later"), 'volumeBindingMode: "Later" is not one of'),
        (queue("q", spec={"parent": "nope"}), "(Queue q): spec.parent"),
        (queue("q", spec={"weight": "2"}), "(Queue q): spec.weight: must be an integer"),
        (
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}},
            "(Node a): status.allocatable: a node needs",
        ),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {}}, "document 1 (Node): metadata.name: required"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": "a"}, "document 1 (Node): metadata.name: required"),
        (["a list"], "document 1: is no object"),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, "document 1: kind: required, a text"),
        ({"kind": "Node", "metadata": {"name": "a"}}, "document 1: apiVersion: required, a text"),
        ({"apiVersion": "v1", "kind": ["Node"]}, "document 1: kind: required, a text"),
    ],
)
def test_each_mistake_is_a_line_with_its_place(broken: Any, line: str) -> None:
    found = _problems(broken)
    assert all(one.startswith("test.yaml: document 1") for one in found)
    assert any(line in one for one in found), found


def test_every_mistake_of_every_document_is_told() -> None:
    found = _problems(node("a", at="x"), job("j", replicas=-1, at="y"))
    assert {one.split(" (")[0] for one in found} == {"test.yaml: document 1", "test.yaml: document 2"}
    assert len(found) >= 3


def test_a_job_is_judged_by_the_queues_that_are_there_when_it_appears() -> None:
    assert scenario(queue("q", at="5s"), job("j", at="5s", spec={"queue": "q"}))
    assert any(
        "there is no queue" in one for one in _problems(queue("q", at="5s"), job("j", spec={"queue": "q"}))
    )
    gone = queue("q", delete_at="3s")
    assert any("there is no queue" in one for one in _problems(gone, job("j", at="5s", spec={"queue": "q"})))


def test_a_policy_under_another_name_is_named_as_not_heeded() -> None:
    data = {"volcano-scheduler.conf": "actions: allocate"}
    meta = {"name": "ours", "namespace": "my-volcano"}
    found = scenario({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    [note] = found.notes
    assert "(ConfigMap my-volcano/ours): data[volcano-scheduler.conf]: not heeded" in note
    assert "volcano-system/volcano-scheduler-configmap" in note


def test_unknown_kinds_are_named_and_skipped() -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    batch = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "b"}}
    notes = scenario(deployment, batch, node("a")).notes
    assert notes == (
        "test.yaml: document 1: Deployment of apps/v1 is no kind that is simulated; skipped",
        "test.yaml: document 2: Job of batch/v1 is no kind that is simulated; skipped",
    )


def _budget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({"minAvailable": -1}, 'spec.minAvailable: "-1" is neither a whole number'),
        ({"minAvailable": "some"}, 'spec.minAvailable: "some" is neither a whole number'),
        ({"maxUnavailable": "101%"}, 'spec.maxUnavailable: "101%" is neither a whole number'),
        ({"minAvailable": []}, "spec.minAvailable: must be a string or a number, not a list"),
        ({"minAvailable": 1, "maxUnavailable": 1}, "spec: has both minAvailable and maxUnavailable"),
        ({"selector": ["a"]}, "spec.selector: must be an object, not a list"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "is"}]}},
            'spec.selector.matchExpressions[0].operator: "is" is not one of In, NotIn, Exists, DoesNotExist',
        ),
        ({"minAvailabel": 1}, 'spec.minAvailabel: there is no field "minAvailabel"'),
    ],
)
def test_a_disruption_budget_that_cannot_be_is_told(spec: dict[str, Any], line: str) -> None:
    assert any(line in one for one in _problems(_budget(**spec)))


@pytest.mark.parametrize(
    "spec", [{}, {"minAvailable": 0}, {"minAvailable": "50%"}, {"maxUnavailable": "100%"}, {"selector": {}}]
)
def test_disruption_budgets_that_can_be_are_taken(spec: dict[str, Any]) -> None:
    assert len(scenario(_budget(**spec)).entries) == 3


def test_an_annotation_that_is_no_text_is_told_once() -> None:
    number: Any = 5
    (problem,) = _problems(node("a", at=number))
    assert "metadata.annotations[pumice.dev/at]: must be a string, not the number 5" in problem


def _hypernode(name: str, member: str, **notes: str) -> dict[str, Any]:
    members = [{"type": "HyperNode", "selector": {"exactMatch": {"name": member}}}]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": node(name, **notes)["metadata"],
        "spec": {"tier": 1, "members": members},
    }


def test_a_circle_of_hypernodes_is_told_and_everything_else_goes_on() -> None:
    read = scenario(_hypernode("a", "b"), _hypernode("b", "c"), _hypernode("c", "a"), node("n"))
    assert read.notes == (
        "test.yaml: document 3 (HyperNode c): is a member of itself, at some depth: no gang is placed in it",
    )
    assert len(read.entries) == 6


def test_hypernodes_that_are_not_there_together_are_no_circle() -> None:
    assert scenario(_hypernode("a", "b", delete_at="5s"), _hypernode("b", "a", at="5s")).notes == ()


def test_a_priority_class_that_no_document_is_is_told() -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    named = [job(name, spec={"priorityClassName": name}) for name in ("high", "hihg")]
    (note,) = scenario(*named, {**high, "value": 5}).notes
    assert note.startswith("test.yaml: document 2 (Job default/hihg): spec.priorityClassName: no document")


def test_a_pod_that_waits_for_another_scheduler_is_named() -> None:
    (note,) = scenario(pod("p", spec={"schedulerName": ""})).notes
    assert "waits for default-scheduler, which is not simulated" in note


def test_a_pod_cannot_change() -> None:
    assert any("earlier document" in one for one in _problems(pod("p"), pod("p", at="5s")))


def test_what_only_a_kubelet_needs_may_be_left_out() -> None:
    bare = job("j")
    del bare["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["image"]
    resources = {"requests": {GPU: 1}}
    bare["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"] = resources
    assert scenario(bare)


def test_a_list_is_the_objects_in_it() -> None:
    found = scenario({"apiVersion": "v1", "kind": "List", "items": [node("a"), node("b")]})
    assert {entry.ref[2] for entry in found.entries} == {"root", "default", "a", "b"}


def test_the_first_queues_are_there_unless_the_scenario_has_its_own() -> None:
    own = scenario(queue("default", spec={"weight": 7}))
    assert [entry.raw["spec"]["weight"] for entry in own.entries if entry.ref[2] == "default"] == [7]


def test_a_wrong_policy_in_a_config_map_is_told_at_its_place() -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "volcano-system", "name": "volcano-scheduler-configmap"},
        "data": {"volcano-scheduler.conf": 'actions: "allocate, dance"\n'},
    }
    (found,) = _problems(config)
    assert "data[volcano-scheduler.conf]" in found
    assert "dance" in found
