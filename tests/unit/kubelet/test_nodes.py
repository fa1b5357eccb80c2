"""The grammar for simulated nodes, the Node objects, and what hangs on both: room and addresses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ConfigurationError
from simulator.kubelet.core.addresses import PodAddresses
from simulator.kubelet.core.admission import NodeLedger
from simulator.kubelet.core.agenda import Agenda
from simulator.kubelet.core.nodes import NODE_GROUP, host_ip, node_object, parse_nodes

T0 = datetime(2026, 5, 1, tzinfo=UTC)


def test_count_and_gpus_alone():
    specs = parse_nodes("4x8")
    assert [spec.name for spec in specs] == ["node-0", "node-1", "node-2", "node-3"]
    assert specs[0].allocatable == {
        "cpu": "64",
        "memory": "512Gi",
        "ephemeral-storage": "1Ti",
        "pods": "110",
        "nvidia.com/gpu": "8",
    }
    assert specs[0].pool == "default"


def test_names_resources_labels_and_taints():
    (spec, _) = parse_nodes(
        "h100=2x4, cpu=96, memory=1Ti,rdma/hca=4,label:zone=a,label:example.com/x=,"
        "taint:team=ml:NoSchedule,taint:drain=NoExecute"
    )
    assert spec.name == "h100-0"
    assert spec.amounts["cpu"] == 96_000
    assert spec.amounts["memory"] == 1 << 40
    assert spec.amounts["rdma/hca"] == 4
    assert spec.labels == {"zone": "a", "example.com/x": ""}
    assert spec.taints == (
        {"key": "team", "effect": "NoSchedule", "value": "ml"},
        {"key": "drain", "effect": "NoExecute"},
    )
    assert spec.all_labels[NODE_GROUP] == "h100"


def test_a_group_without_gpus_has_none_and_several_groups_have_different_names():
    specs = parse_nodes("cpu=1x0", "2x8", "1x4", "cpu=1x0,cpu=8")
    assert [spec.name for spec in specs] == ["cpu-0", "node-0", "node-1", "node-2", "cpu-1"]
    assert "nvidia.com/gpu" not in specs[0].allocatable


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "expected [NAME=]COUNTxGPUS"),
        ("4", "expected [NAME=]COUNTxGPUS"),
        ("fourx8", "expected [NAME=]COUNTxGPUS"),
        ("-1x8", "expected [NAME=]COUNTxGPUS"),
        ("A100=4x8", "'A100' is not a name"),
        ("4x8,", "'' is not KEY=VALUE"),
        ("4x8,cpu", "'cpu' is not KEY=VALUE"),
        ("4x8,cpu=many", "cpu='many' is not an amount"),
        ("4x8,cpu=-1", "cpu=-1 is negative"),
        ("4x8,gpu=3", "'gpu' is not a resource"),
        ("4x8,a//b=3", "'a//b' is not the name of a resource"),
        ("4x8,label:-x=3", "'-x' is not a label's key"),
        ("4x8,label:x=a b", "'a b' is not a label's value"),
        ("4x8,taint:x=Sometimes", "expected VALUE:EFFECT"),
        ("70000x8", "more than 60000 nodes"),
    ],
)
def test_a_wrong_line_is_named_in_one_line(line, complaint):
    with pytest.raises(ConfigurationError) as error:
        parse_nodes("1x1", line)
    assert str(error.value).startswith(f"nodes {line!r}: ")
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_a_node_is_ready_and_says_what_it_has():
    (spec,) = parse_nodes("1x8,taint:x=NoSchedule")
    node = node_object(spec, 300, "boot", T0)
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-0"
    assert node["spec"]["taints"] == [{"key": "x", "effect": "NoSchedule"}]
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]} == {
        "Ready": "True",
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
    }
    assert node["status"]["addresses"][0] == {"type": "InternalIP", "address": "10.0.1.45"}


def test_sixty_thousand_nodes_have_different_addresses():
    assert len({host_ip(index) for index in range(60_000)}) == 60_000


def test_an_address_is_used_again_only_when_it_is_free():
    addresses = PodAddresses()
    addresses.keep("10.128.0.2")
    first, second = addresses.take(), addresses.take()
    assert (first, second) == ("10.128.0.1", "10.128.0.3")
    addresses.free(first)
    assert addresses.take() == "10.128.0.4"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 20))), max_size=40))
def test_the_agenda_gives_each_key_at_its_last_time(operations):
    agenda, wanted = Agenda(), {}
    for key, seconds in operations:
        when = None if seconds is None else T0 + timedelta(seconds=seconds)
        agenda.set(key, when)
        if when is None:
            wanted.pop(key, None)
        else:
            wanted[key] = when
    assert agenda.next_time() == min(wanted.values(), default=None)
    due = agenda.pop_due(T0 + timedelta(seconds=10))
    assert set(due) == {key for key, when in wanted.items() if when <= T0 + timedelta(seconds=10)}
    assert [wanted[key] for key in due] == sorted(wanted[key] for key in due)
    assert agenda.next_time() == min((w for k, w in wanted.items() if k not in due), default=None)


def test_a_ledger_comes_back_to_nothing():
    ledger = NodeLedger({"cpu": 4000, "pods": 2})
    ledger.hold("a", {"cpu": 3000})
    ledger.hold("a", {"cpu": 3000})
    assert ledger.check({"cpu": 1000}) is None
    assert ledger.check({"cpu": 1001}) is not None
    ledger.release("a")
    ledger.release("a")
    assert ledger.check({"cpu": 4000}) is None


def test_what_is_not_requested_needs_no_room():
    ledger = NodeLedger({"cpu": 1000, "pods": 10})
    ledger.hold("a", {"cpu": 1000})
    assert ledger.check({"cpu": 0, "memory": 0}) is None
    assert ledger.check({}) is None
