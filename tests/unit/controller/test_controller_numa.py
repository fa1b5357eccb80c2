"""CPUs by NUMA node: what exporters and pods say, read and written."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.controller.core.model import Priorities
from services.controller.core.numa import (
    decided_cpus,
    held_cpus,
    numa_annotations,
    numa_request,
    numa_topology,
    parse_cpus,
    read_numatopology,
)
from services.controller.core.shapes import shape_of
from shared.api.pods import PodSpec
from shared.events.contracts import NumaCpus, NumaRequest

POLICY = "volcano.sh/numa-topology-policy"
DECISION = "volcano.sh/topology-decision"
WHOLE = {"cpu": "4", "memory": "1Gi"}


def numatopology(
    free: str = "0-15", reserved: str = "0", pods: list[dict[str, Any]] | None = None, **policies: str
) -> dict[str, Any]:
    """Two sockets of a NUMA node each, with four cores of two threads: CPU n and n + 8 are of one core."""
    detail = {str(cpu): {"numa": cpu // 4 % 2, "socket": cpu // 4 % 2, "core": cpu % 4} for cpu in range(16)}
    return {
        "metadata": {"name": "n"},
        "spec": {
            "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted", **policies},
            "resReserved": {"cpu": reserved},
            "numares": {"cpu": {"allocatable": free, "capacity": 16}},
            "cpuDetail": detail,
            "podAllocations": pods or [],
        },
    }


def allocation(cpus: str, **who: str) -> dict[str, Any]:
    return {**who, "containerAllocations": [{"name": "main", "allocations": {"cpu": cpus}}]}


def usable(raw: dict[str, Any], held: dict[int, int] | None = None) -> list[tuple[int, int, int]]:
    told = numa_topology(read_numatopology(raw), held or {})
    return [(one.number, one.cpus, one.usable) for one in told.nodes]


def pod(decision: str | None = None, **meta: Any) -> dict[str, Any]:
    annotations = {} if decision is None else {DECISION: decision}
    named = {"name": "p", "namespace": "default", "uid": "u", "annotations": annotations, **meta}
    return {"metadata": named, "spec": {"nodeName": "n"}}


def spec(*limits: dict[str, str], **more: Any) -> PodSpec:
    containers = [{"name": f"c{at}", "resources": {"limits": one}} for at, one in enumerate(limits)]
    return PodSpec.model_validate({"containers": containers, **more})


# ------------------------------------------------------------------------------------ nodes


@given(st.sets(st.integers(0, 200)))
def test_a_list_of_cpus_is_read_as_it_is_written(cpus) -> None:
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    text = ",".join(str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in runs)
    assert parse_cpus(text) == sum(1 << cpu for cpu in cpus)


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "8192", "1--2", "0-99999999999", "٣"])
def test_what_is_no_list_of_cpus_is_refused_with_its_text(text) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse_cpus(text)


def test_a_node_tells_how_many_cpus_each_numa_node_has_and_by_which_policies() -> None:
    told = numa_topology(read_numatopology(numatopology()), {})
    assert (told.cpu_manager, told.policy) == ("static", "restricted")
    assert [(one.number, one.cpus, one.usable) for one in told.nodes] == [(0, 8, 8), (1, 8, 8)]


@pytest.mark.parametrize(
    ("reserved", "left"), [("0", (8, 8)), ("1", (7, 8)), ("500m", (7, 8)), ("2", (6, 8)), ("9", (0, 7))]
)
def test_kubelet_keeps_back_the_first_cores_of_the_first_socket(reserved, left) -> None:
    assert tuple(room for _, _, room in usable(numatopology(reserved=reserved))) == left


def test_the_cpus_of_pods_that_are_told_are_the_pods_and_no_room_that_the_node_lacks() -> None:
    raw = numatopology(free="2-15", pods=[allocation("0-1", uid="u")])
    assert usable(raw) == [(0, 8, 8), (1, 8, 8)]


def test_cpus_that_nobody_tells_whose_they_are_are_room_that_the_node_lacks() -> None:
    assert usable(numatopology(free="2-15")) == [(0, 8, 6), (1, 8, 8)]
    assert usable(numatopology(free="2-15", pods=[allocation("1", uid="u")])) == [(0, 8, 7), (1, 8, 8)]
    assert usable(numatopology(free="2-15", reserved="1")) == [(0, 8, 6), (1, 8, 8)]
    assert usable(numatopology(free="")) == [(0, 8, 0), (1, 8, 0)]


def test_where_no_pods_are_told_what_bindings_say_is_not_counted_twice() -> None:
    assert usable(numatopology(free="3-15"), {0: 2}) == [(0, 8, 7), (1, 8, 8)]
    assert usable(numatopology(free="3-15"), {0: 4}) == [(0, 8, 8), (1, 8, 8)]
    told = numatopology(free="3-15", pods=[allocation("2", uid="u")])
    assert usable(told, {0: 2}) == [(0, 8, 6), (1, 8, 8)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cpuDetail": {"x": {}}}, '"x" is no number of a CPU'),
        ({"cpuDetail": {"0": {"numa": 64}}}, "spec.cpuDetail[0].numa: 64 is not below 64"),
        ({"cpuDetail": {"0": {"numa": -1}}}, "spec.cpuDetail[0].numa: -1 is not below 64"),
        ({"cpuDetail": {"0": {"numa": "1"}}}, "spec.cpuDetail.0.numa"),
        ({"cpuDetail": {"0": None}}, "spec.cpuDetail.0"),
        ({"policies": {"CPUManagerPolicy": 3}}, "spec.policies.CPUManagerPolicy"),
        ({"numares": {"cpu": {"allocatable": "0-x"}}}, '"x" is no number of a CPU'),
        ({"resReserved": {"cpu": "one"}}, "one"),
        ({"podAllocations": [allocation("x", uid="u")]}, '"x" is no number of a CPU'),
        ({"podAllocations": [None]}, "spec.podAllocations.0"),
    ],
)
def test_what_cannot_be_read_of_a_numatopology_is_said(change, says) -> None:
    raw = numatopology()
    raw["spec"] |= change
    with pytest.raises(ValueError, match=re.escape(says)):
        read_numatopology(raw)


# ------------------------------------------------------------------------------------ what pods ask for


@pytest.mark.parametrize(
    ("asking", "policy", "expected"),
    [
        (spec(WHOLE), "", NumaRequest(cpus=(4,))),
        (spec(WHOLE), "none", NumaRequest(cpus=(4,))),
        (spec(WHOLE), "restricted", NumaRequest(policy="restricted", cpus=(4,))),
        (spec(WHOLE, {"cpu": "500m", "memory": "1"}, {"cpu": "2.0", "memory": "1"}), "", (4, 2)),
        (spec({"cpu": "500m", "memory": "1"}), "restricted", NumaRequest(policy="restricted")),
        (spec({"cpu": "500m", "memory": "1"}), "", None),
        (spec({"cpu": "4"}), "restricted", None),
        (spec(WHOLE, {}), "restricted", None),
        (spec(WHOLE, initContainers=[{"name": "i"}]), "", None),
        (spec(WHOLE, resources={"limits": WHOLE}), "", None),
        (spec(), "restricted", None),
    ],
)
def test_only_guaranteed_pods_have_cpus_for_themselves_by_container_and_in_whole(
    asking, policy, expected
) -> None:
    found = numa_request(asking, {POLICY: policy} if policy else {})
    assert found == (NumaRequest(cpus=expected) if isinstance(expected, tuple) else expected)


def test_a_pod_that_may_use_more_than_it_asks_for_is_not_guaranteed() -> None:
    container = {"name": "c", "resources": {"limits": WHOLE, "requests": {"cpu": "2"}}}
    assert numa_request(PodSpec.model_validate({"containers": [container]}), {}) is None


def test_a_shape_says_it() -> None:
    shape = shape_of(spec(WHOLE), {POLICY: "best-effort"}, Priorities())
    assert shape.numa == NumaRequest(policy="best-effort", cpus=(4,))


# ------------------------------------------------------------------------------------ what pods have


CPUS = st.dictionaries(st.integers(0, 63), st.integers(1, 512), max_size=4).map(
    lambda counts: tuple(NumaCpus(node=number, cpus=count) for number, count in sorted(counts.items()))
)


@given(CPUS)
def test_what_a_binding_says_is_read_again(cpus) -> None:
    assert decided_cpus(pod(numa_annotations(cpus).get(DECISION))) == cpus


def test_a_binding_says_it_as_volcano_does() -> None:
    cpus = (NumaCpus(node=0, cpus=8), NumaCpus(node=1, cpus=4))
    assert numa_annotations(cpus) == {DECISION: '{"numa":{"0":{"cpu":"8"},"1":{"cpu":"4"}}}'}
    assert numa_annotations(()) == {}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '"x"', '{"numa":3}', '{"numa":{"a":{"cpu":"1"}}}', '{"numa":{"0":"1"}}', '{"numa":{"64":{"cpu":"1"}}}',
     '{"numa":{"0":{"cpu":"x"}}}', '{"numa":{"0":{"cpu":"0"}}}', '{"numa":{"0":{"memory":"1Gi"}}}'],
)  # fmt: skip
def test_what_cannot_be_read_of_a_binding_says_nothing(text) -> None:
    assert decided_cpus(pod(text)) == ()


@pytest.mark.parametrize("who", [{"uid": "u"}, {"namespace": "default", "name": "p"}])
def test_what_the_node_tells_of_a_pod_counts_and_not_what_its_binding_says(who) -> None:
    raw = numatopology(free="0-3,6-15", pods=[allocation("4-5", **who)])
    bound = pod('{"numa":{"0":{"cpu":"2"}}}')
    assert held_cpus(bound, read_numatopology(raw)) == (NumaCpus(node=1, cpus=2),)
    other = pod('{"numa":{"0":{"cpu":"2"}}}', uid="v", name="q")
    assert held_cpus(other, read_numatopology(raw)) == (NumaCpus(node=0, cpus=2),)
    assert held_cpus(bound, None) == (NumaCpus(node=0, cpus=2),)


def test_a_pod_without_a_node_has_no_cpus() -> None:
    assert held_cpus({**pod('{"numa":{"0":{"cpu":"2"}}}'), "spec": {}}, None) == ()
