"""Models: what is read is written back unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from shared.api.base import KubeModel, json_name
from shared.api.batch import Job, JobPhase, JobSpec, JobStatus
from shared.api.bus import Command
from shared.api.core import ConfigMap, Event, Ingress, Node, Pod, PriorityClass, Secret, Service
from shared.api.cron import CronJob
from shared.api.flow import JobFlow, JobTemplate
from shared.api.meta import ObjectMeta, format_time, parse_time
from shared.api.scheduling import PodGroup, Queue, QueueState
from shared.api.topology import HyperNode
from shared.api.volumes import PersistentVolumeClaim

KINDS = [
    Command, ConfigMap, CronJob, Event, HyperNode, Ingress, Job, JobFlow, JobTemplate, Node, PersistentVolumeClaim, Pod,
    PodGroup, PriorityClass, Queue, Secret, Service,
]  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=6,
)
names = st.sampled_from(
    ["min_available", "creation_timestamp", "pod_ip", "x", "dump", "model_config", "api_version"]
)


def resolve(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    return definitions[node["$ref"].rpartition("/")[2]] if "$ref" in node else node


def objects(  # noqa: PLR0911 - one for each type
    node: dict[str, Any], definitions: dict[str, Any], depth: int = 0
) -> st.SearchStrategy[Any]:
    """Return values of a model's JSON Schema, with unknown fields, absent fields and nulls."""
    node = resolve(node, definitions)
    if "anyOf" in node:
        return st.one_of([objects(choice, definitions, depth) for choice in node["anyOf"]])
    match node.get("type"):
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(-3, 9)
        case "number":
            return st.sampled_from([0.5, 2.25])
        case "array":
            inner = objects(node["items"], definitions, depth + 1)
            return st.lists(inner, max_size=2 if depth < 8 else 0)
        case "object" if "properties" in node:
            fields = node["properties"]
            known = (
                {}
                if depth > 9
                else {
                    name: st.deferred(lambda f=f: objects(f, definitions, depth + 1) | st.none())
                    for name, f in fields.items()
                }
            )
            unknown = st.dictionaries(names | st.text(max_size=3), json_values, max_size=2).map(
                lambda extra: {k: v for k, v in extra.items() if k not in fields}
            )
            some = st.sets(st.sampled_from(sorted(known)), max_size=3) if known else st.just(set())
            return some.flatmap(
                lambda chosen: st.builds(
                    lambda own, extra: {**own, **extra}, st.fixed_dictionaries({k: known[k] for k in sorted(chosen)}), unknown
                )
            )  # fmt: skip
        case "object":
            inner = objects(node["additionalProperties"], definitions, depth + 1)
            return st.dictionaries(st.text(max_size=3), inner, max_size=2)
        case _:
            return st.sampled_from(node["enum"]) if "enum" in node else st.text(max_size=3)


STRATEGIES = {}
for kind in KINDS:
    schema = kind.model_json_schema()
    STRATEGIES[kind] = objects(schema, schema.get("$defs", {}))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_an_object_survives_reading_and_writing_unchanged(kind, data):
    obj = data.draw(STRATEGIES[kind])
    before = json.dumps(obj, sort_keys=True)
    dumped = kind.model_validate(obj).dump()
    assert json.dumps(dumped, sort_keys=True) == before
    assert json.dumps(obj, sort_keys=True) == before


def test_null_reads_as_absent_and_is_written_as_null():
    job = Job.model_validate(
        {"metadata": {"creationTimestamp": None}, "spec": {"tasks": None, "queue": None}}
    )
    assert (job.spec.tasks, job.spec.queue, job.metadata.creation_timestamp) == ([], "", None)
    assert job.dump() == {"metadata": {"creationTimestamp": None}, "spec": {"tasks": None, "queue": None}}


def test_an_absent_field_stays_absent():
    assert Job.model_validate({}).dump() == {}
    assert Job.model_validate({"spec": {}}).dump() == {"spec": {}}


def test_a_replaced_field_is_written_once_and_replaces_a_null():
    spec = JobSpec.model_validate({"queue": None, "maxRetry": None, "x": 1})
    assert spec.model_copy(update={"queue": "a"}).dump() == {"queue": "a", "maxRetry": None, "x": 1}
    assert spec.dump() == {"queue": None, "maxRetry": None, "x": 1}


def test_only_json_names_are_fields_when_reading():
    spec = JobSpec.model_validate({"min_available": 3})
    assert spec.min_available == 0
    assert spec.dump() == {"min_available": 3}


def test_python_names_are_fields_when_building():
    assert ObjectMeta(resource_version="7", owner_references=[]).dump() == {
        "resourceVersion": "7",
        "ownerReferences": [],
    }


@pytest.mark.parametrize(
    ("obj", "location"),
    [
        ({"spec": {"minAvailable": "3"}}, ("spec", "minAvailable")),
        ({"spec": {"minAvailable": 3.0}}, ("spec", "minAvailable")),
        ({"spec": {"minAvailable": True}}, ("spec", "minAvailable")),
        ({"spec": {"queue": 1}}, ("spec", "queue")),
        ({"spec": {"tasks": {}}}, ("spec", "tasks")),
        ({"spec": []}, ("spec",)),
        ({"metadata": {"labels": {"a": 1}}}, ("metadata", "labels", "a")),
        ({"spec": {"tasks": [{"template": {"spec": {"hostNetwork": "yes"}}}]}},
         ("spec", "tasks", 0, "template", "spec", "hostNetwork")),
        ({"status": {"state": {"phase": "Sleeping"}}}, ("status", "state", "phase")),
    ],
)  # fmt: skip
def test_a_wrong_type_is_an_error_at_its_place(obj, location):
    with pytest.raises(ValidationError) as caught:
        Job.model_validate(obj)
    assert [error["loc"] for error in caught.value.errors()] == [location]


def test_phases_are_enumerations_in_code_and_text_in_objects():
    job = Job.model_validate({"status": {"state": {"phase": "Running"}}})
    assert job.status.state.phase is JobPhase.RUNNING
    assert type(job.dump()["status"]["state"]["phase"]) is str
    queue = Queue.model_validate({"status": {"state": "Closing"}})
    assert queue.status.state is QueueState.CLOSING


def test_models_do_not_change_in_place():
    with pytest.raises(ValidationError):
        JobStatus().pending = 1  # type: ignore[misc]


def every_model(base: type[KubeModel]) -> list[type[KubeModel]]:
    return [model for child in base.__subclasses__() for model in (child, *every_model(child))]


def test_every_field_has_a_json_name_of_kubernetes_form():
    for model in every_model(KubeModel):
        for name, info in model.model_fields.items():
            assert info.alias in (json_name(name), name.rstrip("_")), f"{model.__name__}.{name}"
            assert "_" not in (info.alias or "")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("min_available", "minAvailable"), ("pod_ip", "podIP"), ("transition_id", "transitionID"), ("name", "name"),
     ("ttl_seconds_after_finished", "ttlSecondsAfterFinished"), ("cluster_ip", "clusterIP"), ("http_get", "httpGet")],
)  # fmt: skip
def test_json_names_keep_kubernetes_initialisms(name, expected):
    assert json_name(name) == expected


def test_times_are_read_and_written_in_utc():
    moment = parse_time("2026-03-01T10:00:00+02:00")
    assert format_time(moment) == "2026-03-01T08:00:00Z"
    assert format_time(parse_time("2026-03-01T08:00:00.123456Z"), micro=True) == "2026-03-01T08:00:00.123456Z"
    with pytest.raises(ValueError, match="time zone"):
        parse_time("2026-03-01T10:00:00")


def test_the_managing_owner_is_found():
    meta = ObjectMeta.model_validate(
        {
            "ownerReferences": [
                {"uid": "a"},
                {"uid": "b", "controller": True},
                {"uid": "c", "controller": False},
            ]
        }
    )
    assert meta.controller is not None
    assert meta.controller.uid == "b"
    assert ObjectMeta().controller is None


def test_an_objects_key_has_its_namespace_if_any():
    assert Job.model_validate({"metadata": {"name": "a", "namespace": "n"}}).key == "n/a"
    assert Node.model_validate({"metadata": {"name": "a"}}).key == "a"
