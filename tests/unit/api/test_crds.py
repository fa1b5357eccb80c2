"""The CRD manifests: fresh, structural, and Volcano's names, columns and limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from shared.api.crds import CRDS, DIRECTORY, file_name, manifest, render
from simulator.core.errors import Cause
from simulator.core.rules import check

BY_KIND = {crd.resource.kind: manifest(crd) for crd in CRDS}
PROBE = ("spec", "flows", "[]", "dependsOn", "probe")
SELECTOR = ("spec", "members", "[]", "selector")


def version(kind: str) -> dict[str, Any]:
    return BY_KIND[kind]["spec"]["versions"][0]


def schema(kind: str, *path: str) -> dict[str, Any]:
    node = version(kind)["schema"]["openAPIV3Schema"]
    for step in path:
        node = node["items"] if step == "[]" else node["properties"][step]
    return node


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("properties", {}).values():
        yield from nodes(child)
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from nodes(node[key])


@pytest.mark.parametrize("crd", CRDS, ids=lambda crd: crd.resource.kind)
def test_the_manifests_on_disk_are_those_of_the_models(crd):
    assert (DIRECTORY / file_name(crd)).read_text(encoding="utf-8") == render(crd), (
        "deploy/crds is stale: run python -m shared.api.crds"
    )


def test_there_is_no_manifest_without_a_model():
    assert {path.name for path in DIRECTORY.glob("*.yaml")} == {file_name(crd) for crd in CRDS}


@pytest.mark.parametrize(
    ("kind", "name", "short", "scope", "api_version"),
    [
        ("Job", "jobs.batch.volcano.sh", ["vcjob", "vj"], "Namespaced", "v1alpha1"),
        ("PodGroup", "podgroups.scheduling.volcano.sh", ["pg", "podgroup-v1beta1"], "Namespaced", "v1beta1"),
        ("Queue", "queues.scheduling.volcano.sh", ["q", "queue-v1beta1"], "Cluster", "v1beta1"),
        ("Command", "commands.bus.volcano.sh", None, "Namespaced", "v1alpha1"),
        ("JobFlow", "jobflows.flow.volcano.sh", ["jf"], "Namespaced", "v1alpha1"),
        ("JobTemplate", "jobtemplates.flow.volcano.sh", ["jt"], "Namespaced", "v1alpha1"),
        ("CronJob", "cronjobs.batch.volcano.sh", ["cronvcjob", "cronvj"], "Namespaced", "v1alpha1"),
        ("HyperNode", "hypernodes.topology.volcano.sh", ["hn"], "Cluster", "v1alpha1"),
    ],
)
def test_names_and_scope_are_volcanos(kind, name, short, scope, api_version):
    crd = BY_KIND[kind]
    assert crd["metadata"]["name"] == name
    assert crd["spec"]["names"].get("shortNames") == short
    assert crd["spec"]["scope"] == scope
    assert version(kind)["name"] == api_version


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("Job", ["STATUS", "minAvailable", "RUNNINGS", "AGE", "QUEUE"]),
        ("PodGroup", ["STATUS", "minMember", "RUNNINGS", "AGE", "QUEUE"]),
        ("Queue", ["PARENT"]),
        ("Command", []),
        ("JobFlow", ["Status", "Age"]),
        ("JobTemplate", []),
        ("CronJob", []),
        ("HyperNode", ["Tier", "TierName", "NodeCount", "Age"]),
    ],
)
def test_columns_are_volcanos_and_the_queue_is_wide(kind, columns):
    shown = version(kind).get("additionalPrinterColumns", [])
    assert [column["name"] for column in shown] == columns
    assert all(column.get("priority") == 1 for column in shown if column["name"] == "QUEUE")


@pytest.mark.parametrize(
    ("kind", "has"),
    [
        ("Job", True),
        ("Queue", True),
        ("PodGroup", False),
        ("Command", False),
        ("JobFlow", True),
        ("JobTemplate", True),
        ("CronJob", True),
        ("HyperNode", True),
    ],
)
def test_a_podgroup_has_no_status_subresource(kind, has):
    assert ("status" in version(kind).get("subresources", {})) is has


@pytest.mark.parametrize(
    ("kind", "path", "facts"),
    [
        ("Job", ("spec", "maxRetry"), {"default": 3, "minimum": 0}),
        ("Job", ("spec", "queue"), {"default": "default", "maxLength": 253}),
        ("Job", ("spec", "tasks"), {"minItems": 1}),
        ("Job", ("spec", "schedulerName"), {"maxLength": 63}),
        ("Job", ("spec", "minSuccess"), {"minimum": 1}),
        ("Job", ("spec", "tasks", "[]", "name"), {"maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}),
        ("Job", ("spec", "tasks", "[]", "partitionPolicy"), {"required": ["totalPartitions", "partitionSize"]}),
        ("Job", ("spec", "volumes", "[]"), {"required": ["mountPath"]}),
        ("Job", ("status", "state", "phase"), {"enum": ["Pending", "Aborting", "Aborted", "Running", "Restarting",
                                                        "Completing", "Completed", "Terminating", "Terminated", "Failed"]}),
        ("Queue", ("spec", "weight"), {"default": 1, "minimum": 1, "maximum": 65535}),
        ("Queue", ("spec", "dequeueStrategy"), {"default": "traverse", "enum": ["fifo", "traverse"]}),
        ("PodGroup", ("spec", "queue"), {"default": "default"}),
        ("PodGroup", ("spec", "networkTopology", "mode"), {"default": "hard", "enum": ["hard", "soft"]}),
        ("PodGroup", ("spec", "subGroupPolicy", "[]", "subGroupSize"), {"default": 1, "minimum": 1}),
        ("Command", ("target",), {"required": ["apiVersion", "kind", "name", "uid"]}),
        ("JobFlow", ("spec", "flows", "[]"), {"required": ["name"]}),
        ("JobFlow", ("spec", "flows", "[]", "name"), {"minLength": 1}),
        ("JobFlow", ("spec", "jobRetainPolicy"), {"enum": ["retain", "delete"]}),
        ("JobFlow", ("status", "state", "phase"), {"enum": ["Succeed", "Terminating", "Failed", "Running", "Pending"]}),
        ("JobFlow", (*PROBE, "tcpSocketList", "[]"), {"required": ["port"]}),
        ("JobFlow", (*PROBE, "tcpSocketList", "[]", "port"), {"minimum": 0, "maximum": 65535}),
        ("JobFlow", (*PROBE, "httpGetList", "[]", "httpHeader"), {"required": ["name", "value"]}),
        ("JobFlow", (*PROBE, "taskStatusList", "[]", "phase"), {"maxLength": 63}),
        ("JobFlow", ("status", "jobStatusList", "[]", "restartCount"), {"minimum": 0}),
        ("JobTemplate", ("spec", "maxRetry"), {"default": 3, "minimum": 0}),
        ("CronJob", ("spec",), {"required": ["schedule", "jobTemplate"]}),
        ("CronJob", ("spec", "concurrencyPolicy"), {"default": "Allow", "enum": ["Allow", "Forbid", "Replace"]}),
        ("CronJob", ("spec", "suspend"), {"default": False}),
        ("CronJob", ("spec", "startingDeadlineSeconds"), {"minimum": 0, "format": "int64"}),
        ("CronJob", ("spec", "successfulJobsHistoryLimit"), {"default": 3, "minimum": 0}),
        ("CronJob", ("spec", "failedJobsHistoryLimit"), {"default": 1, "minimum": 0}),
        ("CronJob", ("spec", "jobTemplate", "spec", "queue"), {"default": "default"}),
        ("CronJob", ("status", "active"), {"x-kubernetes-list-type": "atomic"}),
        ("CronJob", ("status", "active", "[]"), {"x-kubernetes-map-type": "atomic"}),
        ("HyperNode", ("spec",), {"required": ["tier"]}),
        ("HyperNode", ("spec", "tier"), {"minimum": 0}),
        ("HyperNode", ("spec", "members"), {"minItems": 1}),
        ("HyperNode", ("spec", "members", "[]"), {"required": ["type"]}),
        ("HyperNode", (*SELECTOR, "exactMatch"), {"required": ["name"]}),
        ("HyperNode", (*SELECTOR, "exactMatch", "name"), {"minLength": 1, "maxLength": 253}),
        ("HyperNode", (*SELECTOR, "labelMatch"), {"x-kubernetes-map-type": "atomic"}),
        ("HyperNode", ("status", "conditions", "[]"), {"required": ["type", "status", "lastTransitionTime", "reason",
                                                                    "message"]}),
    ],
)  # fmt: skip
def test_defaults_and_limits_are_volcanos(kind, path, facts):
    node = schema(kind, *path)
    assert {key: node.get(key) for key in facts} == facts


@pytest.mark.parametrize("kind", list(BY_KIND))
def test_schemas_are_structural(kind):
    allowed = {
        "type", "description", "properties", "items", "additionalProperties", "required", "enum", "pattern", "format",
        "minimum", "maximum", "minLength", "maxLength", "minItems", "default", "anyOf",
        "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-map-type",
        "x-kubernetes-list-type", "x-kubernetes-validations",
    }  # fmt: skip
    for node in nodes(version(kind)["schema"]["openAPIV3Schema"]):
        assert set(node) <= allowed, node
        assert "type" in node or node.get("x-kubernetes-int-or-string") is True, node
        assert ("anyOf" in node) is bool(node.get("x-kubernetes-int-or-string"))
        assert not ("properties" in node and "additionalProperties" in node)


def test_a_patch_needs_nothing_and_nothing_is_filled_in_that_it_does_not_name():
    patch = schema("JobFlow", "spec", "flows", "[]", "patch", "jobSpec")
    assert [node for node in nodes(patch) if "default" in node or "required" in node] == []
    assert patch["properties"]["maxRetry"]["minimum"] == 0
    assert [node for node in nodes(schema("JobTemplate", "spec")) if "default" in node]


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({}, "Either ExactMatch or RegexMatch or LabelMatch must be specified"),
        ({"exactMatch": {"name": "a"}, "regexMatch": {"pattern": "a"}}, "Only one of ExactMatch, RegexMatch, or LabelMatch"),
        ({"exactMatch": {"name": "a"}, "labelMatch": {}}, "Only one of ExactMatch, RegexMatch, or LabelMatch"),
        ({"regexMatch": {"pattern": "a"}, "labelMatch": {}}, "Only one of ExactMatch, RegexMatch, or LabelMatch"),
        ({"labelMatch": {}}, None),
    ],
)  # fmt: skip
def test_a_member_is_selected_in_exactly_one_way(selector, message):
    causes: list[Cause] = []
    check(schema("HyperNode", *SELECTOR), selector, None, "spec", causes)
    assert [message in cause.message for cause in causes] == ([True] if message else [])


def test_a_pod_template_keeps_fields_that_we_do_not_know():
    template = schema("Job", "spec", "tasks", "[]", "template", "spec")
    assert template["x-kubernetes-preserve-unknown-fields"] is True
    assert template["properties"]["containers"]["items"]["x-kubernetes-preserve-unknown-fields"] is True
    assert "x-kubernetes-preserve-unknown-fields" not in schema("Job", "spec")


def test_the_schema_accepts_a_job_and_refuses_a_negative_minimum():
    validator = jsonschema.Draft202012Validator(version("Job")["schema"]["openAPIV3Schema"])
    job: dict[str, Any] = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "a"},
        "spec": {
            "minAvailable": 1,
            "tasks": [{"replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}],
        },
    }
    assert validator.is_valid(job)
    job["spec"]["minAvailable"] = -1
    assert [list(error.path) for error in validator.iter_errors(job)] == [["spec", "minAvailable"]]


def test_quantities_may_be_integers_or_text():
    node = schema("Queue", "spec", "capability")["additionalProperties"]
    assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    validator = jsonschema.Draft202012Validator(node)
    assert all(validator.is_valid(value) for value in (1, "1.5", "10Gi", "1e3", "-2m"))
    assert not any(validator.is_valid(value) for value in ("1gi", "x", True))


def test_manifests_are_plain_yaml():
    for crd in CRDS:
        assert yaml.safe_load(render(crd)) == manifest(crd)
