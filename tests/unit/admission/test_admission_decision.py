"""Decisions about raw submissions: no job at all, wrong types, every violation, names that are taken."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.admission.core.decision import Admitted, Rejected, Repeated, decide
from services.admission.core.defaults import Defaults
from services.admission.core.jobs import validate_job
from services.admission.core.reading import salvage_job
from services.admission.core.view import FixedView, JobInfo
from shared.api.batch import Job
from shared.errors import ContractError
from tests.unit.admission.worlds import VALID, VIEW, put, spoiled

TASK = "spec/tasks/1"


def outcome(obj: dict[str, Any], view: FixedView = VIEW) -> list[tuple[str, str]] | str:
    match decide("s1", obj, view, Defaults()):
        case Admitted():
            return "admitted"
        case Repeated():
            return "repeated"
        case Rejected(_, _, violations):
            return [(violation.code, violation.path) for violation in violations]


def test_a_valid_job_is_admitted_with_its_defaults():
    decision = decide("s1", VALID, VIEW, Defaults())
    assert isinstance(decision, Admitted)
    job = decision.job.dump()
    assert job["spec"]["schedulerName"] == "volcano"
    assert job["spec"]["tasks"][1]["minAvailable"] == 3
    assert job["metadata"] == VALID["metadata"]


def test_a_job_without_a_namespace_goes_to_the_default_one():
    decision = decide("s1", spoiled(("metadata/namespace", ...)), VIEW, Defaults())
    assert isinstance(decision, Admitted)
    assert decision.job.metadata.namespace == "default"


def test_a_submitted_status_is_dropped():
    decision = decide("s1", spoiled(("status", {"state": {"phase": "Sleeping"}})), VIEW, Defaults())
    assert isinstance(decision, Admitted)
    assert "status" not in decision.job.dump()


@pytest.mark.parametrize(
    ("version", "kind"),
    [("batch/v1", "Job"), ("batch.volcano.sh/v1alpha1", "CronJob"), ("batch.volcano.sh/v1", "Job"), (None, "Job"),
     ("batch.volcano.sh/v1alpha1", None), ({}, [])],
)  # fmt: skip
def test_what_is_no_job_is_a_contract_error(version, kind):
    with pytest.raises(ContractError) as caught:
        salvage_job({**VALID, "apiVersion": version, "kind": kind})
    assert caught.value.reason == "not-a-job"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("spec/maxRetry", "3")], [("wrong-type", "spec.maxRetry")]),
        ([("spec/maxRetry", 3.5)], [("wrong-type", "spec.maxRetry")]),
        ([("spec/tasks", {})], [("wrong-type", "spec.tasks")]),
        ([("spec/tasks/1", "worker")], [("wrong-type", "spec.tasks[1]")]),
        ([("spec", [])], [("wrong-type", "spec")]),
        ([("metadata", "train")], [("wrong-type", "metadata")]),
        ([("metadata/labels", {"a": 1})], [("wrong-type", "metadata.labels[a]")]),
        ([("metadata/labels", ["a"])], [("wrong-type", "metadata.labels")]),
        ([("spec/plugins", {"svc": "x"})], [("wrong-type", "spec.plugins[svc]")]),
        ([("spec/plugins", ["svc"])], [("wrong-type", "spec.plugins")]),
        ([(f"{TASK}/template/spec/containers/0/image", 5)], [("wrong-type", "spec.tasks[1].template.spec.containers[0].image")]),
        ([(f"{TASK}/template/spec/containers/0/resources/requests/cpu", ["1"])],
         [("wrong-type", "spec.tasks[1].template.spec.containers[0].resources.requests[cpu]")]),
        ([(f"{TASK}/template/spec/hostNetwork", "yes")], [("wrong-type", "spec.tasks[1].template.spec.hostNetwork")]),
        ([("spec/policies/1/exitCode", "3")], [("wrong-type", "spec.policies[1].exitCode")]),
    ],
)  # fmt: skip
def test_a_wrong_type_is_a_violation_at_its_path(changes, expected):
    obj = spoiled(*changes)
    found = outcome(obj)
    assert isinstance(found, list)
    assert [one for one in found if one in expected] == expected
    assert [one for one in found if one[0] == "wrong-type"] == [
        one for one in expected if one[0] == "wrong-type"
    ]
    read = salvage_job(obj).violations
    assert [(violation.code, violation.path) for violation in read] == [
        one for one in expected if one[0] == "wrong-type"
    ]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("metadata/annotations", {"example.com/a.b": 5}, "must be a string, not the number 5"),
        (f"{TASK}/template/spec/nodeSelector", {"a.b/c": True}, "must be a string, not true or false"),
        (f"{TASK}/template/spec/containers/0/resources/requests", {"example.com/card": ["1"]},
         "must be a string or a number, not a list"),
    ],
)  # fmt: skip
def test_what_is_wanted_is_said_also_of_a_key_with_dots(path, value, message):
    (found,) = salvage_job(spoiled((path, value))).violations
    assert found.message == message


def test_five_mistakes_are_five_violations_wrong_types_among_them():
    obj = spoiled(
        ("metadata/name", "My_Job"),
        ("spec/maxRetry", "3"),
        ("spec/queue", "reserch"),
        (f"{TASK}/template/spec/containers/0/resources/requests/gpu", 1),
        ("spec/policies/0/action", "Restart"),
    )
    assert outcome(obj) == [
        ("wrong-type", "spec.maxRetry"),
        ("invalid-name", "metadata.name"),
        ("invalid", "spec.tasks[1].template.spec.containers[0].resources.requests[gpu]"),
        ("unknown-action", "spec.policies[0].action"),
        ("queue-not-found", "spec.queue"),
    ]


def test_a_wrong_type_does_not_bring_false_consequences():
    assert outcome(spoiled((f"{TASK}/replicas", "3"))) == [("wrong-type", "spec.tasks[1].replicas")]


def test_a_number_computed_from_a_wrong_one_is_not_reported_again():
    obj = spoiled((f"{TASK}/replicas", 2**31), ("spec/minAvailable", ...))
    assert outcome(obj) == [("too-many-pods", "spec.tasks"), ("out-of-range", "spec.tasks[1].replicas")]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("metadata/name", ...)], [("required", "metadata.name")]),
        ([("metadata/name", "Train")], [("invalid-name", "metadata.name")]),
        ([("metadata/namespace", "a.b")], [("invalid-namespace", "metadata.namespace")]),
        ([("metadata/labels", {"a": "b c"})], [("invalid", "metadata.labels[a]")]),
        ([("metadata/annotations", {"": "x"})], [("invalid", "metadata.annotations")]),
        ([("spec/priorityClassName", "High!")], [("invalid", "spec.priorityClassName")]),
        ([("spec/schedulerName", "s" * 64)], [("too-long", "spec.schedulerName")]),
        ([("spec/networkTopology", {"mode": "firm"})], [("unsupported", "spec.networkTopology.mode")]),
        ([("spec/ttlSecondsAfterFinished", 2**31)], [("out-of-range", "spec.ttlSecondsAfterFinished")]),
        ([(f"{TASK}/partitionPolicy", {"totalPartitions": 3})], [("out-of-range", "spec.tasks[1].partitionPolicy.partitionSize")]),
    ],
)  # fmt: skip
def test_what_the_api_server_would_refuse_is_refused(changes, expected):
    assert outcome(spoiled(*changes)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("spec/minAvailble", 2)], "admitted"),
        ([("spec/minAvailable", ...), ("spec/minAvailble", 2)], [("unknown-field", "spec.minAvailble")]),
        ([(f"{TASK}/replica", 2)], "admitted"),
        ([(f"{TASK}/replicas", ...), (f"{TASK}/replica", 2), ("spec/minAvailable", 1)], [("unknown-field", "spec.tasks[1].replica")]),
        ([(f"{TASK}/template/spec/containers/0/volumeMount", [])], "admitted"),
        ([(f"{TASK}/template/spec/containers/0/workingdir", "/")],
         [("unknown-field", "spec.tasks[1].template.spec.containers[0].workingdir")]),
        ([(f"{TASK}/template/spec/serviceAccount", "x"), (f"{TASK}/template/spec/resourceClaims", [])], "admitted"),
        ([("spec/somethingOfALaterVersion", {"a": 1})], "admitted"),
    ],
)  # fmt: skip
def test_a_field_that_looks_like_a_slip_of_one_that_is_missing_is_refused(changes, expected):
    assert outcome(spoiled(*changes)) == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (JobInfo("u1", "s0"), [("already-exists", "metadata.name")]),
        (JobInfo("u1", None), [("already-exists", "metadata.name")]),
        (JobInfo("u1", "s0", deleting=True), [("already-exists", "metadata.name")]),
        (JobInfo(None, "s0"), [("already-exists", "metadata.name")]),
        (JobInfo("u1", "s1"), "repeated"),
        (JobInfo(None, "s1"), "repeated"),
    ],
)
def test_a_name_that_is_taken_is_refused_unless_by_the_same_submission(known, expected):
    assert outcome(VALID, FixedView(VIEW.all_queues, {("team", "train"): known})) == expected


def test_a_submission_that_was_admitted_is_repeated_even_when_its_job_is_gone():
    assert outcome(VALID, FixedView(VIEW.all_queues, admitted=frozenset({"s1"}))) == "repeated"


def test_a_taken_name_is_reported_with_the_other_violations():
    view = FixedView(VIEW.all_queues, {("team", "train"): JobInfo("u1", "s0")})
    assert outcome(spoiled(("spec/queue", "root")), view) == [
        ("queue-is-root", "spec.queue"),
        ("already-exists", "metadata.name"),
    ]


keys = st.text(max_size=5) | st.integers(0, 9) | st.booleans() | st.none()
any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


def places(node: Any, path: str = "") -> list[str]:
    """Return the path of every value in an object."""
    if isinstance(node, dict):
        inside = [(str(key), value) for key, value in node.items()]
    elif isinstance(node, list):
        inside = [(str(index), value) for index, value in enumerate(node)]
    else:
        return [path]
    return [
        path,
        *(place for key, value in inside for place in places(value, f"{path}/{key}" if path else key)),
    ]


PLACES = [place for place in places(VALID) if place not in ("", "apiVersion", "kind")]
OTHER_FIELDS = [
    "spec/tasks/1/dependsOn", "spec/tasks/1/partitionPolicy", "spec/networkTopology", "spec/minSuccess", "status",
    "spec/tasks/1/template/spec/affinity", "spec/tasks/1/template/spec/resources", "spec/runningEstimate",
    "spec/tasks/1/template/spec/containers/0/livenessProbe", "spec/tasks/1/topologyPolicy",
]  # fmt: skip


@given(st.dictionaries(st.sampled_from(PLACES + OTHER_FIELDS), any_json, max_size=4))
def test_whatever_is_in_a_job_the_decision_is_made(damage):
    obj = spoiled()
    for place, value in damage.items():
        try:
            put(obj, place, value)
        except (TypeError, IndexError, KeyError, AttributeError):
            continue  # an outer place was replaced already
    decision = decide("s1", obj, VIEW, Defaults())
    if isinstance(decision, Rejected):
        assert decision.violations
        assert all(violation.code and violation.message for violation in decision.violations)
    if isinstance(decision, Admitted):
        assert Job.model_validate(decision.job.dump()) == decision.job
        assert validate_job(decision.job, VIEW) == []


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status", "x"]), any_json))
def test_any_json_of_the_right_kind_gets_a_decision(content):
    decision = decide("s1", {"apiVersion": VALID["apiVersion"], "kind": "Job", **content}, VIEW, Defaults())
    assert isinstance(decision, (Admitted, Rejected))


def nested(depth: int) -> Any:
    value: Any = 1
    for number in range(depth):
        value = [value] if number % 2 else {"x": value}
    return value


@pytest.mark.parametrize("place", ["x", "spec/x", "spec/tasks/0/template/spec/x", "metadata/annotations"])
def test_a_job_nested_too_deeply_is_a_contract_error(place):
    with pytest.raises(ContractError) as caught:
        decide("s1", spoiled((place, nested(900))), VIEW, Defaults())
    assert caught.value.reason == "invalid-data"
    assert outcome(spoiled(("spec/x", nested(80)))) == "admitted"


def test_keys_that_yaml_reads_as_numbers_are_text():
    obj = spoiled(("metadata/labels", {8080: "web", True: "x", None: "y"}), ("spec/x", {1: 2}))
    decision = decide("s1", obj, VIEW, Defaults())
    assert isinstance(decision, Admitted)
    assert decision.job.metadata.labels == {"8080": "web", "true": "x", "null": "y"}
    assert outcome(spoiled(("metadata/labels", {8080: 80}))) == [("wrong-type", "metadata.labels[8080]")]


@given(st.dictionaries(st.text(max_size=10), any_json))
def test_any_other_json_is_no_job(content):
    with pytest.raises(ContractError):
        decide("s1", content, VIEW, Defaults())
