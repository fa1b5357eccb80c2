"""Hypernodes from the labels of nodes, and the ConfigMap that asks for them."""

from __future__ import annotations

import pytest
import yaml

from services.workflows.core.discovery import Config, changes, discover, read_config

CHAIN = [{"nodeLabel": "block"}, {"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]


def config_map(**config) -> dict:
    source = {"source": "label", "enabled": True, "config": config}
    other = {"source": "ufm", "enabled": True, "config": {"endpoint": "https://ufm"}}
    text = yaml.safe_dump({"networkTopologyDiscovery": [other, source]})
    return {"data": {"volcano-controller.conf": text}}


def test_the_tiers_go_from_the_host_upwards():
    config = read_config(config_map(networkTopologyTypes={"fabric": CHAIN}))
    assert config == Config({"fabric": ("rack", "block")}, (), enabled=True)
    assert config.labels == {"rack", "block"}


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"data": {"other": "x"}},
        {"data": {"volcano-controller.conf": "networkTopologyDiscovery: 3"}},
        {"data": {"volcano-controller.conf": "- a"}},
        {"data": {"volcano-controller.conf": "networkTopologyDiscovery: [{source: label, enabled: false}]"}},
        {"data": {"volcano-controller.conf": "networkTopologyDiscovery: [{source: roce, enabled: true}]"}},
    ],
)
def test_without_an_enabled_source_nothing_is_discovered(body):
    assert read_config(body) == Config()


@pytest.mark.parametrize(
    ("types", "problem"),
    [
        ({"a" * 21: CHAIN}, "21 characters, 20 are allowed"),
        ({"a": [CHAIN[0], CHAIN[0]]}, "a label comes twice"),
        ({"a": [CHAIN[0]]}, "at least a group's label"),
        ({"a": "rack"}, "not a list of nodeLabel entries"),
        ({"a": [{"label": "x"}, {"label": "y"}]}, "not a list of nodeLabel entries"),
        ([1], "not a mapping"),
    ],
)
def test_a_wrong_network_type_is_said_and_the_others_are_discovered(types, problem):
    if isinstance(types, dict):
        types = {**types, "good": CHAIN}
    config = read_config(config_map(networkTopologyTypes=types))
    assert problem in config.problems[0]
    assert set(config.types) == ({"good"} if isinstance(types, dict) else set())


def test_broken_yaml_is_said():
    assert read_config({"data": {"volcano-controller.conf": "a: ["}}).problems


NODES = [
    ("n1", {"rack": "r1", "block": "b1"}),
    ("n2", {"rack": "r1", "block": "b1"}),
    ("n3", {"rack": "r2", "block": "b1"}),
    ("n4", {"block": "b1"}),
    ("n5", {"rack": "r3"}),
]
FABRIC = Config({"Fab_ric": ("rack", "block")}, enabled=True)


def by_label(found: dict) -> dict:
    return {
        (body["spec"]["tier"], body["metadata"]["labels"][body["spec"]["tierName"]]): body
        for body in found.values()
    }


def members(body: dict) -> list[tuple[str, str]]:
    return [(one["type"], one["selector"]["exactMatch"]["name"]) for one in body["spec"]["members"]]


def test_equal_labels_make_a_hypernode_and_a_missing_one_ends_the_chain():
    found = by_label(discover(FABRIC, NODES, []))
    assert set(found) == {(1, "r1"), (1, "r2"), (1, "r3"), (2, "b1")}
    assert members(found[1, "r1"]) == [("Node", "n1"), ("Node", "n2")]
    assert members(found[1, "r3"]) == [("Node", "n5")]
    racks = sorted(found[1, rack]["metadata"]["name"] for rack in ("r1", "r2"))
    assert members(found[2, "b1"]) == [("HyperNode", rack) for rack in racks]
    meta = found[1, "r1"]["metadata"]
    assert meta["labels"] == {"volcano.sh/network-topology-source": "label", "rack": "r1"}
    assert meta["name"].startswith("hypernode-fab-ric-tier1-")


def test_names_stay_from_look_to_look_and_those_of_volcano_are_kept():
    first, second = discover(FABRIC, NODES, []), discover(FABRIC, reversed(NODES), [])
    assert first == second
    theirs = {
        "metadata": {"name": "hypernode-fab-ric-tier1-x7k2p", "labels": {"rack": "r1"}},
    }
    found = by_label(discover(FABRIC, NODES, [theirs]))
    assert found[1, "r1"]["metadata"]["name"] == "hypernode-fab-ric-tier1-x7k2p"
    assert ("HyperNode", "hypernode-fab-ric-tier1-x7k2p") in members(found[2, "b1"])


def test_only_what_differs_is_written():
    wanted = discover(FABRIC, NODES, [])
    assert changes(wanted, wanted) == changes({}, {})
    rack = next(name for name, body in wanted.items() if members(body) == [("Node", "n3")])
    fewer = discover(FABRIC, [node for node in NODES if node[0] != "n3"], list(wanted.values()))
    found = changes(fewer, wanted)
    assert (found.creates, found.deletes) == ((), (rack,))
    [(_, patch)] = found.updates
    assert [one["selector"]["exactMatch"]["name"] for one in patch["spec"]["members"]]
    assert "metadata" not in patch


def test_a_label_that_somebody_took_off_comes_back():
    wanted = discover(FABRIC, NODES[:1], [])
    name = next(iter(wanted))
    bare = {**wanted, name: {**wanted[name], "metadata": {"name": name, "labels": {}}}}
    [(changed, patch)] = changes(wanted, bare).updates
    assert (changed, patch) == (name, {"metadata": {"labels": wanted[name]["metadata"]["labels"]}})
