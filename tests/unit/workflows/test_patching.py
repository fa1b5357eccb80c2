"""A flow's patch of its template, field by field as Volcano's design says."""

from __future__ import annotations

import copy

import pytest

from services.workflows.core.patching import patched


def pod(**spec):
    return {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": spec}}]}


def patch_pod(**spec):
    return {"tasks": [{"name": "w", "template": {"spec": spec}}]}


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        ({"queue": "a", "maxRetry": 1}, {"queue": "b"}, {"queue": "b", "maxRetry": 1}),
        ({"queue": "a"}, {"minSuccess": 2}, {"queue": "a", "minSuccess": 2}),
        ({"queue": "a", "ttlSecondsAfterFinished": 5}, {"ttlSecondsAfterFinished": None}, {"queue": "a"}),
        (
            {"plugins": {"svc": [], "env": []}},
            {"plugins": {"svc": ["--x"]}},
            {"plugins": {"svc": ["--x"], "env": []}},
        ),
        ({"policies": [{"event": "PodFailed", "action": "RestartJob"}]}, {"policies": []}, {"policies": []}),
        (
            {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
            {"networkTopology": {"mode": "soft"}},
            {"networkTopology": {"mode": "soft"}},
        ),
        (
            {
                "volumes": [
                    {"mountPath": "/a", "volumeClaimName": "x"},
                    {"mountPath": "/b", "volumeClaimName": "y"},
                ]
            },
            {"volumes": [{"mountPath": "/b", "volumeClaimName": "z"}]},
            {
                "volumes": [
                    {"mountPath": "/a", "volumeClaimName": "x"},
                    {"mountPath": "/b", "volumeClaimName": "z"},
                ]
            },
        ),
    ],
)
def test_fields_of_the_job(before, patch, after):
    assert patched(before, patch) == after


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        # containers by name, others added
        (
            {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]},
            {"containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "3"}]},
            {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c", "image": "3"}]},
        ),
        # environment by name, the entry whole
        (
            {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "1"}]}]},
            {"containers": [{"name": "a", "env": [{"name": "X", "valueFrom": {"fieldRef": {}}}]}]},
            {"containers": [{"name": "a", "env": [{"name": "X", "valueFrom": {"fieldRef": {}}}, {"name": "Y", "value": "1"}]}]},
        ),
        # resources merged, arguments replaced
        (
            {"containers": [{"name": "a", "args": ["1", "2"], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
            {"containers": [{"name": "a", "args": ["3"], "resources": {"requests": {"cpu": "4"}}}]},
            {"containers": [{"name": "a", "args": ["3"], "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}]},
        ),
        # ports by number, mounts by path
        (
            {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "x"}], "volumeMounts": [{"mountPath": "/a", "name": "v"}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "y"}], "volumeMounts": [{"mountPath": "/b", "name": "v"}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "y"}], "volumeMounts": [{"mountPath": "/a", "name": "v"}, {"mountPath": "/b", "name": "v"}]}]},
        ),
        # a pod's volumes by name, each whole; probes and security contexts whole
        (
            {"volumes": [{"name": "v", "emptyDir": {}}], "securityContext": {"runAsUser": 1, "fsGroup": 2}},
            {"volumes": [{"name": "v", "configMap": {"name": "c"}}], "securityContext": {"runAsUser": 3}},
            {"volumes": [{"name": "v", "configMap": {"name": "c"}}], "securityContext": {"runAsUser": 3}},
        ),
        ({"nodeSelector": {"a": "1", "b": "1"}}, {"nodeSelector": {"a": "2"}}, {"nodeSelector": {"a": "2", "b": "1"}}),
        (
            {"tolerations": [{"key": "a", "operator": "Exists"}]},
            {"tolerations": [{"key": "a", "effect": "NoSchedule"}, {"operator": "Exists"}]},
            {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}, {"operator": "Exists"}]},
        ),
        ({"hostAliases": [{"ip": "1", "hostnames": ["a"]}]}, {"hostAliases": [{"ip": "1", "hostnames": ["b"]}]}, {"hostAliases": [{"ip": "1", "hostnames": ["b"]}]}),
    ],
)  # fmt: skip
def test_fields_of_a_tasks_pods(before, patch, after):
    assert patched(pod(**before), patch_pod(**patch)) == pod(**after)


@pytest.mark.parametrize("unnamed", [{}, {"name": ""}])
def test_what_has_no_name_is_at_the_same_place(unnamed):
    before = {"tasks": [{"name": "a", "template": {"spec": {"containers": [{"name": "c", "image": "1"}]}}}]}
    after = patched(before, {"tasks": [{"template": {"spec": {"containers": [{"image": "2"} | unnamed]}}}]})
    assert after == {
        "tasks": [{"name": "a", "template": {"spec": {"containers": [{"name": "c", "image": "2"}]}}}]
    }


def test_a_task_that_the_template_has_not_is_added():
    before = {"tasks": [{"name": "a"}]}
    assert patched(before, {"tasks": [{"name": "b", "replicas": 1}]})["tasks"] == [
        {"name": "a"},
        {"name": "b", "replicas": 1},
    ]


def test_the_template_and_the_patch_stay_as_they_are():
    before, patch = (
        pod(nodeSelector={"a": "1"}, containers=[{"name": "a"}]),
        patch_pod(containers=[{"name": "a", "image": "x"}]),
    )
    copies = copy.deepcopy((before, patch))
    patched(before, patch)
    assert (before, patch) == copies
