"""AdmissionReview in and out, and which rules stand behind which path."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.admission.core.defaults import Defaults, apply_defaults
from services.admission.core.patches import json_patch
from services.admission.core.resource_groups import ResourceGroup
from services.admission.core.review import MAX_REASONS, Request, Verdict, answer, read_review
from services.admission.core.view import FixedView
from services.admission.core.violations import Violation
from services.admission.core.webhooks import Rules, decide, names_asked_for
from shared.api.batch import Job
from shared.api.webhooks import HOOKS, PATHS
from shared.errors import ContractError
from tests.unit.admission.worlds import VALID, VIEW, put, spoiled

JOBS = next(hook.resource for hook in HOOKS if hook.path == "/jobs/validate")
QUEUES = next(hook.resource for hook in HOOKS if hook.path == "/queues/validate")


def review(**changes: Any) -> dict[str, Any]:
    request = {
        "uid": "u1",
        "kind": {"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"},
        "resource": {"group": "batch.volcano.sh", "version": "v1alpha1", "resource": "jobs"},
        "operation": "CREATE",
        "namespace": "team",
        "name": "train",
        "object": VALID,
        "oldObject": None,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | changes}


def request(
    resource=JOBS, operation: str = "CREATE", obj: Any = None, old: Any = None, **more: Any
) -> Request:
    return Request(
        "u1", operation, resource.group, resource.kind, resource.plural, object=obj, old=old, **more
    )


def test_a_review_is_read():
    read = read_review(json.dumps(review()).encode())
    assert (read.uid, read.operation, read.resource, read.namespace, read.name) == (
        "u1",
        "CREATE",
        "jobs",
        "team",
        "train",
    )
    assert (read.object, read.old) == (VALID, None)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not JSON"),
        (b"[]", "not an object"),
        (b"{}", "expected AdmissionReview"),
        (json.dumps({**review(), "apiVersion": "admission.k8s.io/v1beta1"}).encode(), "v1beta1"),
        (json.dumps({**review(), "request": None}).encode(), "request is missing"),
        (json.dumps(review(uid="")).encode(), "request.uid"),
        (json.dumps(review(operation=5)).encode(), "request.operation"),
        (json.dumps(review(kind="Job")).encode(), "request.kind"),
        (json.dumps(review(resource={})).encode(), "request.resource.resource"),
        (json.dumps(review(object="job")).encode(), "request.object"),
    ],
)  # fmt: skip
def test_what_is_no_review_is_refused_with_the_reason(body, says):
    with pytest.raises(ContractError, match=says) as caught:
        read_review(body)
    assert caught.value.reason == "bad-review"


def test_an_allowed_request_carries_its_patch():
    response = answer(request(), Verdict(patch=[{"op": "add", "path": "/a", "value": 1}]))["response"]
    assert (response["uid"], response["allowed"], response["patchType"]) == ("u1", True, "JSONPatch")
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "add", "path": "/a", "value": 1}]
    assert answer(request(), Verdict())["response"] == {"uid": "u1", "allowed": True}


def test_a_refusal_lists_every_violation_with_its_path():
    verdict = Verdict([Violation("a", "spec.x", "is wrong"), Violation("b", "spec.y[0]", "is worse")])
    response = answer(request(name="train"), verdict)["response"]
    status = response["status"]
    assert response["allowed"] is False
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"] == "spec.x: is wrong; spec.y[0]: is worse"
    assert [(cause["field"], cause["message"]) for cause in status["details"]["causes"]] == [
        ("spec.x", "is wrong"),
        ("spec.y[0]", "is worse"),
    ]
    assert (status["details"]["kind"], status["details"]["name"]) == ("Job", "train")


def test_a_refusal_of_a_thousand_reasons_says_how_many_it_leaves_out():
    verdict = Verdict([Violation("a", f"spec.x[{index}]", "is wrong") for index in range(1000)])
    causes = answer(request(), verdict)["response"]["status"]["details"]["causes"]
    assert len(causes) == MAX_REASONS + 1
    assert causes[-1]["message"] == "900 more violations are left out"


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab~/", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(deadline=None)  # a busy machine is not a failure
@given(
    st.dictionaries(st.text("ab~/", max_size=2), values), st.dictionaries(st.text("ab~/", max_size=2), values)
)
def test_a_patch_turns_one_object_into_the_other(before, after):
    patched = jsonpatch.apply_patch(copy.deepcopy(before), json_patch(before, after))
    assert json.dumps(patched, sort_keys=True) == json.dumps(after, sort_keys=True)


@settings(deadline=None)  # a busy machine is not a failure
@given(st.dictionaries(st.text(max_size=2), values))
def test_no_difference_is_no_patch(value):
    assert json_patch(value, copy.deepcopy(value)) == []


@pytest.mark.parametrize("path", PATHS)
def test_every_path_takes_its_kind_and_operations_only(path):
    hook = next(one for one in HOOKS if one.path == path)
    other = JOBS if hook.resource is not JOBS else QUEUES
    for operation in hook.operations:
        obj = None if operation == "DELETE" else {"metadata": {"name": "x"}, "spec": {}}
        obj = obj and {"apiVersion": hook.resource.api_version, "kind": hook.resource.kind, **obj}
        old = obj if operation == "UPDATE" else None
        assert isinstance(decide(path, request(hook.resource, operation, obj, old), VIEW, Rules()), Verdict)
        with pytest.raises(ContractError, match="is about"):
            decide(path, request(other, operation, obj, old), VIEW, Rules())
    for operation in {"CREATE", "UPDATE", "DELETE", "CONNECT"} - {*hook.operations}:
        with pytest.raises(ContractError, match="is asked about"):
            decide(path, request(hook.resource, operation, {}, {}), VIEW, Rules())


@pytest.mark.parametrize(
    ("operation", "obj", "old"), [("CREATE", None, None), ("UPDATE", None, {}), ("UPDATE", {}, None)]
)
def test_a_review_without_the_object_it_is_about_is_refused(operation, obj, old):
    with pytest.raises(ContractError, match="is missing"):
        decide("/jobs/validate", request(JOBS, operation, obj, old), VIEW, Rules())


def patched(path: str, one: Request, view: FixedView = VIEW, rules: Rules | None = None) -> Any:
    verdict = decide(path, one, view, rules or Rules())
    assert verdict.allowed
    return jsonpatch.apply_patch(copy.deepcopy(one.object), list(verdict.patch))


def test_jobs_get_their_defaults_and_nothing_else():
    job = patched(
        "/jobs/mutate",
        request(obj=spoiled(("spec/queue", ...), ("metadata/namespace", ...)), namespace="team"),
    )
    assert job["metadata"] == {"name": "train"}
    assert (job["spec"]["queue"], job["spec"]["schedulerName"], job["spec"]["maxRetry"]) == (
        "default",
        "volcano",
        3,
    )
    assert patched("/jobs/mutate", request(obj=job)) == job


def test_what_cannot_be_read_is_not_patched():
    assert decide("/jobs/mutate", request(obj=spoiled(("spec/maxRetry", "3"))), VIEW, Rules()) == Verdict()


def test_queues_get_their_defaults():
    queue = patched("/queues/mutate", request(QUEUES, obj={"metadata": {"name": "q"}, "spec": {}}))
    assert queue["spec"] == {"reclaimable": True, "weight": 1}


def test_a_podgroup_goes_to_the_queue_that_its_namespace_names():
    resource = next(hook.resource for hook in HOOKS if hook.path == "/podgroups/mutate")
    view = FixedView(VIEW.all_queues, namespaces={"team": "research"})
    one = request(resource, obj={"metadata": {"name": "g"}, "spec": {"queue": "default"}}, namespace="team")
    assert patched("/podgroups/mutate", one, view)["spec"] == {"queue": "research"}
    assert names_asked_for(one) == (["default"], ["team"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("default", ["queue-protected"]), ("parentQueue", ["queue-has-children"]), ("childQueue", [])],
)
def test_some_queues_may_not_be_deleted(name, expected):
    one = request(QUEUES, "DELETE", old={"metadata": {"name": name}}, name=name)
    assert [v.code for v in decide("/queues/validate", one, VIEW, Rules()).violations] == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], []),
        ([("metadata/labels", {"a": "b"}), ("metadata/finalizers", [])], []),
        ([("spec/tasks/1/replicas", 5), ("spec/minAvailable", 2)], []),
        ([("spec/priorityClassName", "high")], []),
        ([("spec/minAvailable", 9)], [("min-available-above-replicas", "spec.minAvailable")]),
        ([("spec/queue", "default"), ("spec/tasks/1/name", "other")], [("immutable", "spec.tasks[1].name"), ("immutable", "spec.queue")]),
        ([("spec/tasks/1/replicas", -1), ("spec/minAvailable", 1)], [("out-of-range", "spec.tasks[1].replicas")]),
    ],
)  # fmt: skip
def test_a_job_changes_only_where_it_may(changes, expected):
    one = request(operation="UPDATE", obj=spoiled(*changes), old=VALID)
    verdict = decide("/jobs/validate", one, VIEW, Rules())
    assert [(violation.code, violation.path) for violation in verdict.violations] == expected


def test_a_manifest_is_applied_again_though_its_tasks_lack_what_defaults_gave_them():
    """kubectl replaces the whole list of tasks; what a job has beside lists it leaves alone."""
    first = spoiled(("spec/tasks/0/name", ...), ("spec/tasks/1/template/spec/hostNetwork", True))
    made = apply_defaults(Job.model_validate(first), Defaults()).dump()
    again = copy.deepcopy(made)
    again["spec"]["tasks"] = copy.deepcopy(first["spec"]["tasks"])
    assert again != made
    assert decide("/jobs/validate", request(operation="UPDATE", obj=again, old=made), VIEW, Rules()).allowed
    put(again, "spec/tasks/1/maxRetry", 9)
    verdict = decide("/jobs/validate", request(operation="UPDATE", obj=again, old=made), VIEW, Rules())
    assert [one.path for one in verdict.violations] == ["spec.tasks[1].maxRetry"]


def test_a_job_that_newer_rules_would_refuse_can_still_be_labelled_and_cleaned_up():
    old = spoiled(("spec/minAvailable", 99))
    new = copy.deepcopy(old)
    new["metadata"]["finalizers"] = []
    assert decide("/jobs/validate", request(operation="UPDATE", obj=new, old=old), VIEW, Rules()).allowed


KINDS = {hook.path: hook for hook in HOOKS}
fields = st.sampled_from(
    ["spec", "metadata", "status", "annotations", "labels", "tasks", "members", "selector", "flows", "dependsOn", "targets",
     "queue", "parent", "capability", "guarantee", "resource", "schedule", "timeZone", "name", "tolerations", "nodeSelector",
     "schedulingGates", "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights", "volcano.sh/jdb-min-available", "schedulerName",
     "scheduling.volcano.sh/queue-allocation-gate", "networkTopology", "subGroupPolicy", "replicas", "regexMatch", "pattern"]
)  # fmt: skip
garbage = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 2**33)
    | st.text(max_size=4)
    | st.sampled_from(["true", "volcano", "1/x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=4),
    max_leaves=12,
)
EVERYTHING = Rules(
    gate=True,
    resource_groups=(
        ResourceGroup.model_validate(
            {
                "resourceGroup": "g",
                "object": {"key": "namespace", "value": ["n"]},
                "labels": {"a": "b"},
                "tolerations": [{}],
            }
        ),
    ),
)


@settings(deadline=None)  # a busy machine is not a failure
@given(
    st.sampled_from(PATHS),
    st.dictionaries(fields, garbage, max_size=4),
    st.dictionaries(fields, garbage, max_size=4),
    st.data(),
)
def test_whatever_the_objects_are_there_is_a_verdict(path, obj, old, data):
    hook = KINDS[path]
    operation = data.draw(st.sampled_from(hook.operations))
    named = {"apiVersion": hook.resource.api_version, "kind": hook.resource.kind}
    one = request(
        hook.resource, operation, None if operation == "DELETE" else obj | named, old | named if operation == "UPDATE" else None,
        namespace="n", name="x",
    )  # fmt: skip
    verdict = decide(path, one, VIEW, EVERYTHING)
    assert json.dumps(answer(one, verdict))
    assert all(violation.path or violation.message for violation in verdict.violations)
    names_asked_for(one)
    if verdict.allowed and one.object is not None:
        jsonpatch.apply_patch(copy.deepcopy(one.object), list(verdict.patch))
