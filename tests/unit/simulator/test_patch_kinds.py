"""The patch kinds, each by its rules."""

from __future__ import annotations

import orjson
import pytest
from simulated_world import CRDS, WIDGETS, Cluster, pod, refusal

from simulator.builtin import TYPES
from simulator.core import merge, strategic
from simulator.core.patching import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH


def _strategic(target: dict, patch: dict, type_name: str = "core/v1.Pod") -> dict:
    return strategic.merge(TYPES.fields, type_name, target, patch)


def test_a_merge_patch_shares_what_it_does_not_touch():
    target = {"a": {"b": 1}, "c": {"d": [1]}}
    out = merge.merge(target, {"a": {"b": None, "e": 2}})
    assert out == {"a": {"e": 2}, "c": {"d": [1]}}
    assert out["c"] is target["c"]
    assert target["a"] == {"b": 1}


def test_containers_are_merged_by_name_and_ports_by_number():
    held = {
        "spec": {
            "containers": [
                {"name": "a", "image": "1", "ports": [{"containerPort": 80}]},
                {"name": "b", "image": "1"},
            ]
        }
    }
    patch = {"spec": {"containers": [{"name": "a", "image": "2", "ports": [{"containerPort": 81}]}]}}
    containers = _strategic(held, patch)["spec"]["containers"]
    assert [(c["name"], c["image"]) for c in containers] == [("a", "2"), ("b", "1")]
    assert [p["containerPort"] for p in containers[0]["ports"]] == [81, 80]  # what is new comes first


def test_service_ports_are_merged_by_port():
    held = {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}
    merged = _strategic(held, {"spec": {"ports": [{"port": 81, "name": "c"}]}}, "core/v1.Service")
    assert merged["spec"]["ports"] == [{"port": 80, "name": "a"}, {"port": 81, "name": "c"}]


@pytest.mark.parametrize(
    ("patch", "names"),
    [
        ({"$patch": "delete", "name": "a"}, ["b"]),
        ({"name": "c", "image": "x"}, ["c", "a", "b"]),
    ],
)
def test_list_directives(patch: dict, names: list[str]):
    held = {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
    assert [
        c["name"] for c in _strategic(held, {"spec": {"containers": [patch]}})["spec"]["containers"]
    ] == names


def test_replace_retain_order_and_scalar_deletion():
    held = {
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"x": "1", "y": "2"}},
        "metadata": {"finalizers": ["f/1", "f/2"]},
    }
    assert _strategic(held, {"spec": {"nodeSelector": {"$patch": "replace", "z": "3"}}})["spec"][
        "nodeSelector"
    ] == {"z": "3"}
    assert _strategic(held, {"spec": {"nodeSelector": {"$retainKeys": ["y"]}}})["spec"]["nodeSelector"] == {
        "y": "2"
    }
    order = [{"name": "b"}, {"name": "a"}]
    ordered = _strategic(held, {"spec": {"$setElementOrder/containers": order}})
    assert ordered["spec"]["containers"] == order
    gone = _strategic(held, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["f/1"]}})
    assert gone["metadata"]["finalizers"] == ["f/2"]


def test_atomic_lists_are_replaced():
    held = {"spec": {"tolerations": [{"key": "a"}]}}
    assert _strategic(held, {"spec": {"tolerations": [{"key": "b"}]}})["spec"]["tolerations"] == [
        {"key": "b"}
    ]


def test_a_patch_of_another_version_is_a_conflict():
    cluster = Cluster()
    cluster.create("pods", pod("p"))
    status = refusal(cluster.patch, "pods", "p", MERGE_PATCH, b'{"metadata":{"resourceVersion":"1"}}')
    assert (status["code"], status["reason"]) == (409, "Conflict")


def test_a_json_patch_that_does_not_apply_is_unprocessable():
    cluster = Cluster()
    cluster.create("pods", pod("p"))
    for operation in (
        {"op": "test", "path": "/metadata/name", "value": "q"},
        {"op": "remove", "path": "/metadata/no"},
    ):
        status = refusal(cluster.patch, "pods", "p", JSON_PATCH, orjson.dumps([operation]))
        assert (status["code"], status["message"]) == (
            422,
            "the server rejected our request due to an error in our request",
        )


def test_a_patch_that_changes_nothing_keeps_the_version():
    cluster = Cluster()
    before = cluster.create("pods", pod("p"))
    assert cluster.patch("pods", "p", MERGE_PATCH, b'{"metadata":{"labels":null}}') == before


def test_custom_resources_take_no_strategic_patch():
    cluster = Cluster()
    cluster.create(CRDS, WIDGETS)
    cluster.create("widgets.example.com", {"metadata": {"name": "w"}, "spec": {"size": 2}})
    status = refusal(cluster.patch, "widgets.example.com", "w", STRATEGIC_PATCH, b"{}")
    assert status["code"] == 415
    assert APPLY_PATCH in status["message"]
