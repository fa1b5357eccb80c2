"""Server-side apply: ownership, conflicts, force, and taking back what is no longer applied."""

from __future__ import annotations

import orjson
from simulated_world import CRDS, WIDGETS, Cluster, refusal

from simulator.core.patching import APPLY_PATCH, MERGE_PATCH

DEPLOYMENTS = "deployments.apps"


def _apply(cluster: Cluster, data: dict, manager: str, **query: str) -> dict:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
    return cluster.patch("configmaps", "c", APPLY_PATCH, orjson.dumps(body), fieldManager=manager, **query)


def _owners(obj: dict) -> dict[str, list[str]]:
    return {e["manager"]: sorted(e["fieldsV1"].get("f:data", {})) for e in obj["metadata"]["managedFields"]}


def test_the_first_apply_creates_and_owns():
    made = _apply(Cluster(), {"x": "1"}, "m1")
    assert made["data"] == {"x": "1"}
    assert _owners(made) == {"m1": ["f:x"]}


def test_an_equal_apply_changes_nothing():
    cluster = Cluster()
    made = _apply(cluster, {"x": "1"}, "m1")
    assert _apply(cluster, {"x": "1"}, "m1") == made


def test_what_another_manager_owns_is_a_conflict_until_forced():
    cluster = Cluster()
    _apply(cluster, {"x": "1", "y": "1"}, "m1")
    status = refusal(_apply, cluster, {"x": "2"}, "m2")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "m1": .data.x'
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.x"}
    ]
    forced = _apply(cluster, {"x": "2"}, "m2", force="true")
    assert forced["data"] == {"x": "2", "y": "1"}
    assert _owners(forced) == {"m1": ["f:y"], "m2": ["f:x"]}


def test_the_same_value_is_owned_together():
    cluster = Cluster()
    _apply(cluster, {"x": "1"}, "m1")
    assert _owners(_apply(cluster, {"x": "1"}, "m2")) == {"m1": ["f:x"], "m2": ["f:x"]}


def test_a_field_that_nobody_applies_any_more_goes():
    cluster = Cluster()
    _apply(cluster, {"x": "1", "y": "1"}, "m1")
    _apply(cluster, {"y": "1"}, "m2")
    assert _apply(cluster, {"z": "1"}, "m1")["data"] == {"y": "1", "z": "1"}


def test_an_update_takes_ownership_of_what_it_changes():
    cluster = Cluster()
    _apply(cluster, {"x": "1", "y": "1"}, "m1")
    changed = cluster.patch("configmaps", "c", MERGE_PATCH, b'{"data":{"x":"9"}}', fieldManager="edit")
    assert _owners(changed) == {"m1": ["f:y"], "edit": ["f:x"]}
    status = refusal(_apply, cluster, {"x": "1"}, "m1")
    assert 'conflict with "edit" using v1: .data.x' in status["message"]


def test_an_object_that_was_never_applied_belongs_to_its_creator():
    cluster = Cluster()
    cluster.create("configmaps", {"metadata": {"name": "c"}, "data": {"x": "1"}}, manager="kubectl-create")
    status = refusal(_apply, cluster, {"x": "2"}, "m1")
    assert 'conflict with "kubectl-create" using v1' in status["message"]


def test_list_elements_are_owned_by_their_keys():
    cluster = Cluster()

    def deployment(environment: list[dict]) -> bytes:
        container = {"name": "c", "image": "i", "env": environment}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        return orjson.dumps(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
        )

    def names(obj: dict) -> list[str]:
        return [e["name"] for e in obj["spec"]["template"]["spec"]["containers"][0]["env"]]

    cluster.patch(DEPLOYMENTS, "d", APPLY_PATCH, deployment([{"name": "A", "value": "1"}]), fieldManager="m1")
    both = cluster.patch(
        DEPLOYMENTS, "d", APPLY_PATCH, deployment([{"name": "B", "value": "2"}]), fieldManager="m2"
    )
    assert names(both) == ["A", "B"]
    rest = cluster.patch(DEPLOYMENTS, "d", APPLY_PATCH, deployment([]), fieldManager="m1")
    assert names(rest) == ["B"]


def test_a_status_is_applied_through_its_subresource_alone():
    cluster = Cluster()
    cluster.create(CRDS, WIDGETS)
    cluster.create("widgets.example.com", {"metadata": {"name": "w"}, "spec": {"size": 2}})
    body = orjson.dumps(
        {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w"},
            "status": {"phase": "Open"},
        }
    )
    changed = cluster.patch(
        "widgets.example.com", "w", APPLY_PATCH, body, "status", fieldManager="queue-controller"
    )
    assert changed["status"] == {"phase": "Open"}
    assert changed["metadata"]["generation"] == 1
    entry = next(e for e in changed["metadata"]["managedFields"] if e["manager"] == "queue-controller")
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {"f:status": {"f:phase": {}}}


def test_a_manager_must_be_named():
    assert refusal(_apply, Cluster(), {}, "")["details"]["causes"][0]["field"] == "fieldManager"
