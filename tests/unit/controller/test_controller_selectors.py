"""CEL expressions say which devices a class or request means, as Kubernetes reads them."""

from __future__ import annotations

import pytest

from services.controller.core.selectors import problem_of, quantity, selects, version

GPU = {
    "driver": "gpu.example.com",
    "attributes": {
        "gpu.example.com": {
            "model": "A100",
            "index": 3,
            "linked": True,
            "driverVersion": version("1.10.0-rc.2"),
        },
        "resource.kubernetes.io": {"pcieRoot": "pci0000:01"},
    },
    "capacity": {"gpu.example.com": {"memory": quantity("80Gi")}},
}
OWN = "device.attributes['gpu.example.com']"
MEMORY = "device.capacity['gpu.example.com'].memory"


@pytest.mark.parametrize(
    ("expression", "is_meant"),
    [
        ("true", True),
        ("device.driver == 'gpu.example.com'", True),
        ("device.driver == 'nic.example.com'", False),
        (f"{OWN}.model == 'A100' && {OWN}.index >= 2", True),
        (f"{OWN}.model in ['H100', 'H200']", False),
        (f"{OWN}.model.startsWith('A') && {OWN}.linked", True),
        (f"{OWN}.model.lowerAscii().matches('^a[0-9]+$')", True),
        ("device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:01'", True),
        (f"{MEMORY}.compareTo(quantity('40Gi')) >= 0", True),
        (f"{MEMORY}.isLessThan(quantity('0.08Ti'))", True),
        (f"{MEMORY}.isGreaterThan(quantity('80Gi'))", False),
        (f"{OWN}.driverVersion.isGreaterThan(semver('1.9.3'))", True),
        (f"{OWN}.driverVersion.isLessThan(semver('1.10.0'))", True),
        (f"{OWN}.driverVersion.isGreaterThan(semver('1.10.0-rc.1'))", True),
        (f"{OWN}.driverVersion.isLessThan(semver('1.10.0-rc.10'))", True),
        # What a device does not have it is not meant by, unless the expression asks beforehand.
        (f"{OWN}.missing == 'x'", False),
        ("device.attributes['other.example.com'].model == 'x'", False),
        (f"!has({OWN}.missing)", True),
        (f"!('missing' in {OWN})", True),
        (f"{OWN}.model", False),
        (f"{OWN}.model > 3", False),
    ],
)
def test_an_expression_means_a_device_or_does_not(expression: str, is_meant: bool) -> None:
    assert problem_of(expression) == ""
    assert selects(expression, GPU) is is_meant


@pytest.mark.parametrize("expression", ["device.driver ==", "((", ""])
def test_an_expression_that_cannot_be_read_is_said_to_be_so(expression: str) -> None:
    assert problem_of(expression)
    assert not selects(expression, GPU)
