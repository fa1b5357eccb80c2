"""Which nodes hypernodes hold: by name, pattern and label, at any depth, change by change."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.workflows.core.hypernodes import status
from shared.api.meta import LabelSelector
from shared.api.topology import HyperNode
from shared.hypernodes.membership import matches
from shared.hypernodes.tree import Topology

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def exact(name: str, kind: str = "Node") -> dict:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def pattern(text: str, kind: str = "Node") -> dict:
    return {"type": kind, "selector": {"regexMatch": {"pattern": text}}}


def labelled(kind: str = "Node", **labels: str) -> dict:
    return {"type": kind, "selector": {"labelMatch": {"matchLabels": labels}}}


def hypernode(*members: dict, tier: int = 1) -> HyperNode:
    return HyperNode.model_validate(
        {"metadata": {"name": "x"}, "spec": {"tier": tier, "members": list(members)}}
    )


def topology(nodes: dict[str, dict[str, str]], **groups: HyperNode) -> Topology:
    made = Topology()
    for name, group in groups.items():
        made.set_hypernode(name, group)
    for name, labels in nodes.items():
        made.set_node(name, labels)
    return made


NODES = {"a-1": {"rack": "1"}, "a-2": {"rack": "1"}, "b-1": {"rack": "2"}}


@pytest.mark.parametrize(
    ("members", "count", "reason"),
    [
        ([exact("a-1")], 1, "MembersFound"),
        ([exact("a-1"), exact("gone")], 1, "MemberMissing"),
        ([pattern("^a-")], 2, "MembersFound"),
        ([pattern("1$")], 2, "MembersFound"),
        ([pattern("^c-")], 0, "NoNodes"),
        ([pattern("(")], 0, "InvalidMember"),
        ([labelled(rack="2")], 1, "MembersFound"),
        ([{"type": "Node", "selector": {"labelMatch": {}}}], 0, "NoNodes"),
        ([exact("a-1"), pattern("^a-"), labelled(rack="1")], 2, "MembersFound"),
        ([exact("gone", "HyperNode")], 0, "MemberMissing"),
        ([labelled("HyperNode", rack="1")], 0, "InvalidMember"),
        ([], 0, "NoNodes"),
    ],
)
def test_members_of_one_hypernode(members, count, reason):
    verdict = topology(NODES, group=hypernode(*members)).verdict("group")
    assert (verdict.count, verdict.reason) == (count, reason)


def test_a_hypernode_counts_what_its_members_hold_and_a_node_once():
    made = topology(
        NODES,
        racka=hypernode(pattern("^a-")),
        rackb=hypernode(exact("b-1"), exact("a-1")),
        block=hypernode(exact("racka", "HyperNode"), pattern("^rackb$", "HyperNode"), tier=2),
        root=hypernode(exact("block", "HyperNode"), tier=3),
    )
    assert {name: made.verdict(name).count for name in ("racka", "rackb", "block", "root")} == {
        "racka": 2,
        "rackb": 2,
        "block": 3,
        "root": 3,
    }


def test_a_circle_is_said_and_ends():
    made = topology(
        NODES,
        a=hypernode(exact("b", "HyperNode"), exact("a-1")),
        b=hypernode(exact("a", "HyperNode"), exact("b-1")),
    )
    assert (made.verdict("a").reason, made.verdict("a").count) == ("MemberCycle", 2)


def test_a_change_of_a_node_concerns_its_hypernodes_and_those_above():
    made = topology(
        NODES,
        racka=hypernode(pattern("^a-")),
        rackb=hypernode(pattern("^b-")),
        block=hypernode(exact("racka", "HyperNode"), tier=2),
    )
    assert made.set_node("a-3", {}) == {"racka", "block"}
    assert made.set_node("a-3", {"rack": "7"}) == set()
    assert made.set_node("z", {}) == set()
    assert made.set_node("b-1", None) == {"rackb"}
    assert made.verdict("rackb").reason == "NoNodes"


def test_a_change_of_a_hypernode_concerns_itself_and_those_above():
    made = topology(
        NODES, block=hypernode(exact("racka", "HyperNode"), tier=2), other=hypernode(exact("a-1"))
    )
    assert made.set_hypernode("racka", hypernode(pattern("^a-"))) == {"racka", "block"}
    assert made.verdict("block").count == 2
    assert made.set_hypernode("racka", None) == {"racka", "block"}
    assert (made.verdict("block").reason, made.verdict("racka")) == ("MemberMissing", None)


def test_a_condition_keeps_its_time_until_its_status_changes():
    made = topology(NODES, group=hypernode(exact("a-1")))
    first = status(hypernode(exact("a-1")), made.verdict("group"), NOON)
    [ready] = first["conditions"]
    assert (ready["status"], ready["lastTransitionTime"]) == ("True", "2026-03-01T12:00:00Z")
    later = HyperNode.model_validate(
        {"metadata": {"name": "x", "generation": 4}, "spec": {"tier": 1}, "status": first}
    )
    again = status(later, made.verdict("group"), NOON.replace(hour=13))
    assert again["conditions"][0]["lastTransitionTime"] == "2026-03-01T12:00:00Z"
    assert again["conditions"][0]["observedGeneration"] == 4
    made.set_node("a-1", None)
    changed = status(later, made.verdict("group"), NOON.replace(hour=13))
    assert (changed["conditions"][0]["status"], changed["conditions"][0]["lastTransitionTime"]) == (
        "False",
        "2026-03-01T13:00:00Z",
    )


def test_conditions_of_others_stay():
    theirs = {
        "type": "Healthy",
        "status": "True",
        "reason": "x",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = HyperNode.model_validate(
        {"metadata": {"name": "x"}, "spec": {"tier": 1}, "status": {"conditions": [theirs]}}
    )
    made = topology(NODES, x=body)
    assert status(body, made.verdict("x"), NOON)["conditions"][0] == theirs


@pytest.mark.parametrize(
    ("expression", "matched"),
    [
        ({"key": "rack", "operator": "In", "values": ["1", "2"]}, True),
        ({"key": "rack", "operator": "In", "values": ["2"]}, False),
        ({"key": "rack", "operator": "NotIn", "values": ["2"]}, True),
        ({"key": "row", "operator": "NotIn", "values": ["2"]}, True),
        ({"key": "rack", "operator": "Exists"}, True),
        ({"key": "row", "operator": "Exists"}, False),
        ({"key": "row", "operator": "DoesNotExist"}, True),
        ({"key": "rack", "operator": "Near"}, False),
    ],
)
def test_expressions(expression, matched):
    selector = LabelSelector.model_validate({"matchExpressions": [expression]})
    assert matches(selector, {"rack": "1"}) is matched


NAMES = st.sampled_from(["a-1", "a-2", "b-1"])
GROUPS = st.sampled_from(["g1", "g2", "g3"])
MEMBERS = st.lists(
    st.one_of(
        st.builds(exact, NAMES),
        st.builds(lambda name: exact(name, "HyperNode"), GROUPS),
        st.sampled_from([pattern("^a-"), labelled(rack="1"), pattern("^g[12]$", "HyperNode")]),
    ),
    max_size=3,
)
CHANGES = st.one_of(
    st.tuples(NAMES, st.none() | st.sampled_from([{}, {"rack": "1"}])),
    st.tuples(GROUPS, st.none() | MEMBERS),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(CHANGES, max_size=12))
def test_change_by_change_gives_what_the_whole_gives_and_names_all_that_differs(changes):
    live, nodes, groups = Topology(), {}, {}
    verdicts = {}
    for name, value in changes:
        if name.startswith("g"):
            groups[name] = value
            touched = live.set_hypernode(name, None if value is None else hypernode(*value))
        else:
            nodes[name] = value
            touched = live.set_node(name, value)
        whole = Topology()
        for other, labels in nodes.items():
            whole.set_node(other, labels)
        for other, members in groups.items():
            if members is not None:
                whole.set_hypernode(other, hypernode(*members))
        now = {group: whole.verdict(group) for group in ("g1", "g2", "g3")}
        assert {group: live.verdict(group) for group in now} == now
        assert {group for group in now if now[group] != verdicts.get(group)} <= touched
        verdicts = now
