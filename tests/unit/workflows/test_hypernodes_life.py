"""Hypernodes in a cluster: statuses and discovery follow changes, and cost no more than these."""

from __future__ import annotations

import pytest
import yaml

from shared.api import resources as r

pytestmark = pytest.mark.looptime


def rack(w, name: str, *members: dict, tier: int = 1) -> None:
    w.put(r.HYPERNODES, name, spec={"tier": tier, "members": list(members)})


def nodes_of(text: str) -> dict:
    return {"type": "Node", "selector": {"regexMatch": {"pattern": text}}}


def group(name: str) -> dict:
    return {"type": "HyperNode", "selector": {"exactMatch": {"name": name}}}


def count(w, name: str) -> int | None:
    return w.status(r.HYPERNODES, name).get("nodeCount")


async def test_counts_follow_nodes_that_come_and_go(world):
    w = world()
    rack(w, "a", nodes_of("^a-"))
    rack(w, "b", nodes_of("^b-"))
    rack(w, "all", group("a"), group("b"), tier=2)
    for name in ("a-1", "a-2", "b-1"):
        w.put(r.NODES, name, spec={})
    await w.start()
    await w.until(lambda: (count(w, "a"), count(w, "b"), count(w, "all")) == (2, 1, 3))
    before = w.cluster.writes["patch", "hypernodes"]
    w.put(r.NODES, "b-2", spec={})
    await w.until(lambda: (count(w, "b"), count(w, "all")) == (2, 4))
    assert w.cluster.writes["patch", "hypernodes"] - before == 2
    w.cluster.remove(r.NODES, None, "a-1")
    await w.until(lambda: (count(w, "a"), count(w, "all")) == (1, 3))


async def test_what_does_not_touch_labels_of_a_node_costs_nothing(world):
    w = world()
    rack(w, "a", nodes_of("^a-"))
    w.put(r.NODES, "a-1", spec={})
    await w.start()
    await w.until(lambda: count(w, "a") == 1)
    await w.pass_time(2)
    before = w.cluster.writes.total()
    for second in range(20):
        w.cluster.change(r.NODES, None, "a-1", {"status": {"beat": second}}, subresource="status")
    await w.pass_time(5)
    assert w.cluster.writes.total() == before


async def test_conditions_say_what_is_missing_and_when_it_came(world):
    w = world()
    await w.start()
    rack(w, "all", group("a"), tier=2)
    await w.until(lambda: w.status(r.HYPERNODES, "all"))
    [ready] = w.status(r.HYPERNODES, "all")["conditions"]
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "MemberMissing", "there is no a")
    rack(w, "a", nodes_of("^a-"))
    w.put(r.NODES, "a-1", spec={})
    await w.until(lambda: w.status(r.HYPERNODES, "all")["conditions"][0]["status"] == "True")


CONFIG = {
    "networkTopologyDiscovery": [
        {
            "source": "label",
            "enabled": True,
            "config": {
                "networkTopologyTypes": {
                    "f": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
                }
            },
        }
    ]
}


def discover(w, config: dict) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-controller-configmap", "namespace": "volcano-system"},
        "data": {"volcano-controller.conf": yaml.safe_dump(config)},
    }
    w.cluster.put(r.CONFIGMAPS, body, "volcano-system")


def found(w) -> dict[str, list[str]]:
    return {
        one["metadata"]["labels"]["rack"]: [
            m["selector"]["exactMatch"]["name"] for m in one["spec"]["members"]
        ]
        for one in w.cluster.all(r.HYPERNODES)
        if "rack" in (one["metadata"].get("labels") or {})
    }


async def test_hypernodes_are_made_of_labels_and_follow_them(world):
    w = world()
    for name, where in (("n1", "r1"), ("n2", "r1"), ("n3", "r2")):
        w.put(r.NODES, name, spec={}, labels={"rack": where})
    rack(w, "by-hand", nodes_of("^n"))
    await w.start()
    await w.pass_time(2)
    assert found(w) == {}
    discover(w, CONFIG)
    await w.until(lambda: found(w) == {"r1": ["n1", "n2"], "r2": ["n3"]})
    w.cluster.change(r.NODES, None, "n2", {"metadata": {"labels": {"rack": "r2"}}})
    await w.until(lambda: found(w) == {"r1": ["n1"], "r2": ["n2", "n3"]})
    w.cluster.remove(r.NODES, None, "n1")
    await w.until(lambda: found(w) == {"r2": ["n2", "n3"]})
    assert w.cluster.one(r.HYPERNODES, "by-hand") is not None
    [made] = [one["metadata"]["name"] for one in w.cluster.all(r.HYPERNODES) if one["metadata"].get("labels")]
    await w.until(lambda: count(w, made) == 2)
    w.cluster.remove(r.HYPERNODES, None, made)
    await w.until(lambda: found(w) == {"r2": ["n2", "n3"]})


async def test_without_the_config_map_what_was_discovered_stays(world):
    w = world()
    w.put(r.NODES, "n1", spec={}, labels={"rack": "r1"})
    discover(w, CONFIG)
    await w.start()
    await w.until(lambda: found(w) == {"r1": ["n1"]})
    w.cluster.remove(r.CONFIGMAPS, "volcano-system", "volcano-controller-configmap")
    await w.pass_time(5)
    assert found(w) == {"r1": ["n1"]}


async def test_a_wrong_configuration_is_said_on_the_config_map(world):
    w = world()
    discover(
        w,
        {
            "networkTopologyDiscovery": [
                {"source": "label", "enabled": True, "config": {"networkTopologyTypes": {"f": 1}}}
            ]
        },
    )
    await w.start()
    await w.until(lambda: w.events("InvalidTopology"))
    assert "networkTopologyTypes.f: not a list" in w.events("InvalidTopology")[0]
