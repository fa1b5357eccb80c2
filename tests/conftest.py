"""Fixtures that every kind of test may use."""

from __future__ import annotations

pytest_plugins = [
    "tests.fixtures.kafka",
    "tests.fixtures.kube",
    "tests.fixtures.services",
    "tests.fixtures.kube_services",
    "tests.fixtures.vcctl",
]
