"""The short form, and what makes a submission."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.core.submission import Invalid, generated_name, prepare, submission_id
from shared.errors import ContractError
from shared.telemetry.spans import parse_traceparent

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(body: object, **more: object) -> dict:
    return prepare(body, id="s-1", now=NOW, **more).envelope.data.job


def problems(body: object) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        job(body)
    return {violation.path: violation.code for violation in caught.value.violations}


MAIN = {
    "name": "train",
    "image": "pytorch",
    "command": "python train.py",
    "gpus": 8,
    "master": True,
    "workers": 3,
    "minimum": 4,
    "queue": "team-a",
    "mounts": [
        "data:/data",
        "configmap/settings:/etc/s:ro",
        {"secret": "key", "path": "/key", "subPath": "a"},
    ],
    "expose": ["jupyter:8888", 6006],
    "env": {"DEBUG": True, "LR": 0.1},
    "labels": {"team": "a"},
}


def test_the_main_job_in_short_is_a_gang_of_a_master_and_workers() -> None:
    spec = job(MAIN)["spec"]
    assert (spec["minAvailable"], spec["queue"]) == (4, "team-a")
    assert [(task["name"], task["replicas"]) for task in spec["tasks"]] == [("master", 1), ("worker", 3)]
    for task in spec["tasks"]:
        (container,) = task["template"]["spec"]["containers"]
        assert container["resources"] == {
            "requests": {"nvidia.com/gpu": "8"},
            "limits": {"nvidia.com/gpu": "8"},
        }
        assert container["command"] == ["/bin/sh", "-c", "python train.py"]
        assert {"name": "DEBUG", "value": "true"} in container["env"]
    assert spec["tasks"][0]["policies"] == [{"event": "TaskCompleted", "action": "CompleteJob"}]


def test_mounts_become_volumes_of_every_pod() -> None:
    pod = job(MAIN)["spec"]["tasks"][1]["template"]["spec"]
    assert pod["volumes"] == [
        {"name": "mount-0", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "mount-1", "configMap": {"name": "settings"}},
        {"name": "mount-2", "secret": {"secretName": "key"}},
    ]
    assert pod["containers"][0]["volumeMounts"] == [
        {"name": "mount-0", "mountPath": "/data"},
        {"name": "mount-1", "mountPath": "/etc/s", "readOnly": True},
        {"name": "mount-2", "mountPath": "/key", "subPath": "a"},
    ]


def test_exposed_ports_are_an_annotation_and_ports_of_the_first_pod() -> None:
    made = job(MAIN)
    assert made["metadata"]["annotations"] == {"pumice.dev/expose": "jupyter:8888,port-6006:6006"}
    first, second = (task["template"]["spec"]["containers"][0] for task in made["spec"]["tasks"])
    assert first["ports"][0] == {"name": "jupyter", "containerPort": 8888}
    assert "ports" not in second


def test_a_port_may_be_another_tasks() -> None:
    made = job(MAIN | {"expose": ["jupyter:8888", "tb:6006@worker"]})
    assert made["metadata"]["annotations"] == {"pumice.dev/expose": "jupyter:8888,tb:6006@worker"}
    first, second = (task["template"]["spec"]["containers"][0] for task in made["spec"]["tasks"])
    assert [one["name"] for one in first["ports"]] == ["jupyter"]
    assert second["ports"] == [{"name": "tb", "containerPort": 6006}]


@pytest.mark.parametrize(
    ("mount", "workers", "claim"),
    [
        (
            "new/100Gi:/scratch",
            2,
            {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "100Gi"}}},
        ),
        (
            {"size": "1Gi", "path": "/scratch", "storageClass": "fast"},
            1,
            {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "fast",
            },
        ),
    ],
)
def test_a_claim_to_be_made_is_a_volume_of_the_job(mount: object, workers: int, claim: dict) -> None:
    spec = job({"name": "a", "image": "x", "workers": workers, "mounts": [mount, "data:/data"]})["spec"]
    assert spec["volumes"] == [{"mountPath": "/scratch", "volumeClaim": claim}]
    pod = spec["tasks"][0]["template"]["spec"]
    assert [volume["name"] for volume in pod["volumes"]] == ["mount-1"]


def test_a_hosts_path_is_asked_for_and_left_to_admission() -> None:
    pod = job({"name": "a", "image": "x", "mounts": ["host:/srv/data:/data:ro"]})["spec"]["tasks"][0][
        "template"
    ]
    assert pod["spec"]["volumes"] == [{"name": "mount-0", "hostPath": {"path": "/srv/data"}}]
    assert pod["spec"]["containers"][0]["volumeMounts"][0]["readOnly"] is True


def test_all_pods_are_the_minimum_unless_one_is_given() -> None:
    assert job({"name": "a", "image": "x", "workers": 5})["spec"]["minAvailable"] == 5


def test_a_single_pod_needs_no_plugins_and_several_find_each_other() -> None:
    assert "plugins" not in job({"name": "a", "image": "x"})["spec"]
    assert job({"name": "a", "image": "x", "workers": 2})["spec"]["plugins"] == {"env": [], "svc": []}


def test_a_master_can_differ_from_its_workers() -> None:
    made = job(
        {
            "name": "a",
            "image": "x",
            "gpus": 8,
            "workers": 2,
            "master": {"gpus": 0, "cpus": 2, "memory": "4Gi"},
        }
    )
    master, worker = (task["template"]["spec"]["containers"][0] for task in made["spec"]["tasks"])
    assert master["resources"] == {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi"}}
    assert "nvidia.com/gpu" in worker["resources"]["limits"]


def test_without_retries_a_failed_pod_ends_the_job() -> None:
    policies = job({"name": "a", "image": "x", "retries": 0})["spec"]["policies"]
    assert {"event": "PodFailed", "action": "TerminateJob"} in policies


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({"name": "a"}, "image", "required"),
        ({"image": "x"}, "name", "required"),
        ({"name": "a", "image": "x", "workers": 0}, "workers", "required"),
        ({"name": "a", "image": "x", "gpu": 1}, "gpu", "extra-forbidden"),
        ({"name": "a", "image": "x", "gpus": -1}, "gpus", "greater-than-equal"),
        ({"name": "a", "image": "x", "memory": "4Gb"}, "memory", "value-error"),
        ({"name": "a", "image": "x", "mounts": ["data"]}, "mounts[0]", "value-error"),
        ({"name": "a", "image": "x", "mounts": [{"path": "/x"}]}, "mounts[0]", "value-error"),
        ({"name": "a", "image": "x", "expose": ["Jupyter:8888"]}, "expose", "value-error"),
        ({"name": "a", "image": "x", "expose": [70000]}, "expose", "value-error"),
        ({"name": "a", "image": "x", "expose": ["a:1", "a:2"]}, "expose", "value-error"),
        ({"name": "a", "image": "x", "mounts": ["new/much:/x"]}, "mounts[0]", "value-error"),
        ({"name": "a", "image": "x", "mounts": ["new/1Gi:/x:ro"]}, "mounts[0]", "value-error"),
        (
            {"name": "a", "image": "x", "mounts": [{"claim": "c", "path": "/x", "storageClass": "fast"}]},
            "mounts[0]",
            "value-error",
        ),
    ],
)
def test_a_mistake_in_the_short_form_is_told_at_its_field(body: dict, path: str, code: str) -> None:
    assert problems(body) == {path: code}


def test_all_mistakes_of_the_short_form_are_told_at_once() -> None:
    assert problems({"gpus": -1, "workers": "many", "colour": "red"}).keys() >= {
        "name",
        "image",
        "gpus",
        "workers",
        "colour",
    }


def test_a_job_object_is_taken_as_it_is_but_for_its_namespace() -> None:
    body = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "a", "x": 1},
        "spec": {"unknown": [1, None], "minAvailable": "nonsense"},
    }
    made = job(body)
    assert made["spec"] == body["spec"]
    assert made["metadata"] == {"name": "a", "x": 1, "namespace": "default"}


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "text",
        {"kind": "Job"},
        {"kind": "Pod", "apiVersion": "v1"},
        {"apiVersion": "batch/v1", "kind": "Job"},
    ],
)
def test_something_else_is_not_a_job(body: object) -> None:
    with pytest.raises(ContractError) as caught:
        job(body)
    assert caught.value.reason == "not-a-job"


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        (None, "metadata"),
        ({}, "metadata.name"),
        ({"name": 3}, "metadata.name"),
        ({"name": "a", "namespace": []}, "metadata.namespace"),
    ],
)
def test_a_job_without_a_usable_name_is_invalid(metadata: object, path: str) -> None:
    body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata}
    assert path in problems(body)


@given(st.text(min_size=1, max_size=80), st.text(min_size=1))
def test_a_generated_name_depends_on_the_submission_alone_and_fits(prefix: str, submission: str) -> None:
    name = generated_name(prefix, submission)
    assert name == generated_name(prefix, submission)
    assert len(name) <= 63
    assert name[:-5] == prefix[:58]


def test_the_same_key_is_the_same_submission_in_the_same_trace() -> None:
    one = prepare(MAIN, id=submission_id("k"), now=NOW)
    two = prepare(dict(reversed(MAIN.items())), id=submission_id("k"), now=NOW)
    assert (one.envelope.id, one.trace, one.digest) == (two.envelope.id, two.trace, two.digest)
    other = prepare({**MAIN, "gpus": 4}, id=submission_id("k"), now=NOW)
    assert other.digest != one.digest


def test_an_incoming_trace_is_continued() -> None:
    asker = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    made = prepare(MAIN, id="s", now=NOW, traceparent=asker)
    context = parse_traceparent(made.envelope.traceparent)
    assert context is not None
    assert context.trace_id == asker[3:35]
    assert made.envelope.tracestate == "pumice=00f067aa0ba902b7"
