"""Fixtures that every kind of test may use."""

from __future__ import annotations

pytest_plugins = ["tests.fixtures.kafka", "tests.fixtures.services"]
