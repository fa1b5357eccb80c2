"""The gateway's metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """What the gateway counts. Routes are templates, so that names of jobs make no series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "pumice_gateway_http_requests",
            "Answered requests, by route and status code.",
            ["method", "route", "code"],
            registry=registry,
        )
        self.seconds = Histogram(
            "pumice_gateway_http_request_seconds",
            "Time to answer, by route; requests that wait and streams included.",
            ["method", "route"],
            registry=registry,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0),
        )
        self.submissions = Counter(
            "pumice_gateway_submissions",
            "Submissions by outcome: accepted, repeated, invalid, conflict, too-large, unavailable.",
            ["outcome"],
            registry=registry,
        )
        self.commands = Counter(
            "pumice_gateway_commands",
            "Commands written to the log, by action.",
            ["action"],
            registry=registry,
        )
        self.lag = Gauge(
            "pumice_gateway_read_model_lag_seconds",
            "Age of the record last taken into the read model; 0 when there is nothing to read.",
            registry=registry,
        )
        self.folded = Counter(
            "pumice_gateway_read_model_records",
            "Records taken into the read model, by topic.",
            ["topic"],
            registry=registry,
        )
        self.unreadable = Counter(
            "pumice_gateway_unreadable_records",
            "Records skipped because they could not be read, by topic.",
            ["topic"],
            registry=registry,
        )
        self.jobs = Gauge("pumice_gateway_read_model_jobs", "Jobs in the read model.", registry=registry)
        self.streams = Gauge("pumice_gateway_event_streams", "Open event streams.", registry=registry)
