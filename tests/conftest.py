"""Fixtures that every kind of test may use."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.fixtures.kafka",
    "tests.fixtures.kube",
    "tests.fixtures.services",
    "tests.fixtures.kube_services",
    "tests.fixtures.vcctl",
]

# A shell starts what it runs in the background with Ctrl-C ignored, and so would be the programs under test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test is about time: a busy machine fails none. What else holds (in CI no random seeds) stays.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
