"""What a pod requests, by the rules of Kubernetes 1.34."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.pods import PodSpec
from shared.api.podspec import pod_requests, resource_list
from shared.api.quantity import QuantityError


def container(
    requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {"resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def requests(**spec: Any) -> dict[str, int]:
    return pod_requests(PodSpec.model_validate(spec))


def test_a_pod_without_requests_requests_nothing():
    assert requests(containers=[{}]) == {}


def test_containers_add_up_and_cpu_is_in_milli():
    one = container({"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 1})
    two = container({"cpu": 1, "memory": "512Mi"})
    assert requests(containers=[one, two]) == {"cpu": 1500, "memory": 1536 * 2**20, "nvidia.com/gpu": 1}


def test_quantities_add_up_before_they_are_rounded():
    assert requests(containers=[container({"cpu": "0.5m"})] * 4) == {"cpu": 2}


def test_a_missing_request_is_the_limit():
    assert requests(containers=[container({"cpu": "1"}, {"cpu": "2", "nvidia.com/gpu": "8"})]) == {
        "cpu": 1000,
        "nvidia.com/gpu": 8,
    }


def test_the_largest_init_container_counts_if_it_needs_more_than_the_containers():
    init = [container({"cpu": "3"}), container({"cpu": "1", "memory": "1Gi"})]
    assert requests(containers=[container({"cpu": "2"})], initContainers=init) == {
        "cpu": 3000,
        "memory": 2**30,
    }


def test_a_sidecar_runs_beside_the_containers_and_later_init_containers():
    sidecar = container({"cpu": "1"}, restartPolicy="Always")
    assert requests(containers=[container({"cpu": "2"})], initContainers=[sidecar]) == {"cpu": 3000}
    big = container({"cpu": "4"})
    assert requests(containers=[container({"cpu": "2"})], initContainers=[sidecar, big]) == {"cpu": 5000}
    assert requests(containers=[container({"cpu": "2"})], initContainers=[big, sidecar]) == {"cpu": 4000}


def test_overhead_comes_on_top():
    assert requests(containers=[container({"cpu": "1"})], overhead={"cpu": "100m", "memory": "8Mi"}) == {
        "cpu": 1100,
        "memory": 8 * 2**20,
    }


def test_pod_level_requests_replace_the_sum_and_leave_other_resources():
    spec = {
        "containers": [container({"cpu": "1", "nvidia.com/gpu": "2"})],
        "resources": {"requests": {"cpu": "4"}},
    }
    assert requests(**spec) == {"cpu": 4000, "nvidia.com/gpu": 2}


def test_pod_level_limits_alone_stand_in_where_no_container_requests():
    spec = {"containers": [container({"cpu": "1"})], "resources": {"limits": {"cpu": "4", "memory": "1Gi"}}}
    assert requests(**spec) == {"cpu": 1000, "memory": 2**30}


def test_pod_level_huge_pages_come_from_their_limit():
    spec = {
        "containers": [container({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"})],
        "resources": {"limits": {"hugepages-2Mi": "8Mi"}},
    }
    assert requests(**spec) == {"hugepages-2Mi": 8 * 2**20}


def test_pod_level_gpus_do_not_exist():
    spec = {"containers": [container({"cpu": "1"})], "resources": {"requests": {"nvidia.com/gpu": "4"}}}
    assert requests(**spec) == {"cpu": 1000}


def test_overhead_comes_on_top_of_pod_level_requests():
    spec = {"containers": [{}], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "250m"}}
    assert requests(**spec) == {"cpu": 4250}


def test_a_resource_list_is_read_in_base_units():
    assert resource_list({"cpu": "3.9", "memory": "10Gi", "pods": 110}) == {
        "cpu": 3900,
        "memory": 10 * 2**30,
        "pods": 110,
    }
    with pytest.raises(QuantityError):
        resource_list({"cpu": "lots"})


@pytest.mark.parametrize("text", ["1e99", "99999999999999999999999", 10**40, "8Ei"])
def test_more_than_any_node_has_is_as_much_as_can_be_added_up_over_a_node_in_64_bits(text: Any):
    most = 2**52
    assert requests(containers=[container({"cpu": text, "example.com/card": text})]) == {
        "cpu": most,
        "example.com/card": most,
    }
    assert resource_list({"memory": text}) == {"memory": most}
    assert 1000 * most < 2**63
