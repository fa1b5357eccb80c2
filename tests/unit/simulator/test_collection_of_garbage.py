"""Owners and dependents, namespaces and custom kinds that go."""

from __future__ import annotations

import pytest
from simulated_world import CRDS, WIDGETS, Cluster, pod, refusal


def _owned(cluster: Cluster, name: str, *owners: dict, block: bool = False) -> dict:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": o["metadata"]["name"],
            "uid": o["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for o in owners
    ]
    return cluster.create("configmaps", {"metadata": {"name": name, "ownerReferences": references}})


def _owner(cluster: Cluster, name: str = "owner") -> dict:
    return cluster.create("configmaps", {"metadata": {"name": name}})


def test_dependents_go_after_their_owner():
    cluster = Cluster()
    child = _owned(cluster, "child", _owner(cluster))
    _owned(cluster, "grandchild", child)
    cluster.delete("configmaps", "owner", propagationPolicy="Background")
    assert cluster.get("configmaps", "child") is not None
    cluster.settle()
    assert cluster.get("configmaps", "child") is None
    assert cluster.get("configmaps", "grandchild") is None


def test_a_dependent_of_two_owners_stays_with_the_other():
    cluster = Cluster()
    first, second = _owner(cluster, "first"), _owner(cluster, "second")
    _owned(cluster, "child", first, second)
    cluster.delete("configmaps", "first")
    cluster.settle()
    child = cluster.get("configmaps", "child")
    assert child is not None
    assert [r["name"] for r in child["metadata"]["ownerReferences"]] == ["second"]


def test_orphans_lose_their_reference_and_stay():
    cluster = Cluster()
    _owned(cluster, "child", _owner(cluster))
    cluster.delete("configmaps", "owner", propagationPolicy="Orphan")
    assert cluster.get("configmaps", "owner") is not None
    cluster.settle()
    assert cluster.get("configmaps", "owner") is None
    assert "ownerReferences" not in (cluster.get("configmaps", "child") or {})["metadata"]


def test_an_owner_deleted_in_the_foreground_waits_for_what_blocks_it():
    cluster = Cluster()
    owner = _owner(cluster)
    body = pod("child")
    body["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
    ]
    cluster.create("pods", body)
    cluster.bind("child", "n1")
    cluster.delete("configmaps", "owner", propagationPolicy="Foreground")
    cluster.settle()
    assert (cluster.get("configmaps", "owner") or {})["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert (cluster.get("pods", "child") or {})["metadata"]["deletionTimestamp"]
    cluster.delete("pods", "child", gracePeriodSeconds=0)
    cluster.settle()
    assert cluster.get("configmaps", "owner") is None


def test_an_object_whose_owner_never_was_is_collected():
    cluster = Cluster()
    _owned(cluster, "child", {"metadata": {"name": "ghost", "uid": "no-such-uid"}})
    cluster.settle()
    assert cluster.get("configmaps", "child") is None


def test_a_namespace_empties_itself_and_goes():
    cluster = Cluster()
    cluster.create("namespaces", {"metadata": {"name": "team"}})
    cluster.create("configmaps", {"metadata": {"name": "c"}}, namespace="team")
    marked = cluster.delete("namespaces", "team")
    assert marked["status"]["phase"] == "Terminating"
    status = refusal(cluster.create, "configmaps", {"metadata": {"name": "d"}}, namespace="team")
    assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    cluster.settle()
    assert cluster.get("configmaps", "c", "team") is None
    assert cluster.get("namespaces", "team") is None


@pytest.mark.parametrize("name", ["default"])
def test_system_namespaces_stay(name: str):
    assert refusal(Cluster().delete, "namespaces", name)["code"] == 403


def test_a_custom_kind_takes_its_objects_along():
    cluster = Cluster()
    cluster.create(CRDS, WIDGETS)
    cluster.create("widgets.example.com", {"metadata": {"name": "w"}, "spec": {"size": 2}})
    cluster.delete(CRDS, "widgets.example.com")
    cluster.settle()
    assert cluster.get(CRDS, "widgets.example.com") is None
    assert cluster.world.registry.stored("widgets.example.com") is None
    assert cluster.world.store.collection("widgets.example.com").count == 0


def test_a_job_keeps_its_pods_unless_told_otherwise():
    cluster = Cluster()
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    cluster.create("jobs.batch", {"metadata": {"name": "j"}, "spec": {"template": template}})
    assert cluster.delete("jobs.batch", "j")["metadata"]["finalizers"] == ["orphan"]
    assert "child pods are preserved by default" in cluster.warnings[0]
