"""The scheduler's metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """One process's metrics, by pool."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.cycle = Histogram(
            "pumice_scheduler_cycle_seconds",
            "Time of one call of the core: what was decided, not what was published.",
            ["pool"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.publish = Histogram(
            "pumice_scheduler_publish_seconds",
            "Time of one transaction with decisions.",
            ["pool"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.decisions = Counter(
            "pumice_scheduler_decisions", "Gang decisions published.", ["pool"], registry=registry
        )
        self.too_large = Counter(
            "pumice_scheduler_decisions_too_large",
            "Gang decisions that the log refused as too large for a record: their gangs are held.",
            ["pool"],
            registry=registry,
        )
        self.pods = Counter(
            "pumice_scheduler_pods_placed", "Pods placed by decisions.", ["pool"], registry=registry
        )
        self.reports = Counter(
            "pumice_scheduler_reports", "Reports published about waiting gangs.", ["pool"], registry=registry
        )
        self.waiting = Gauge(
            "pumice_scheduler_waiting_gangs", "Gangs that wait.", ["pool"], registry=registry
        )
        self.in_flight = Gauge(
            "pumice_scheduler_decisions_in_flight",
            "Decisions whose pods are not all seen or refused yet.",
            ["pool"],
            registry=registry,
        )
        self.given_up = Gauge(
            "pumice_scheduler_pods_given_up",
            "Pods in flight that no longer count because nothing was heard of them.",
            ["pool"],
            registry=registry,
        )
        self.queue_faults = Gauge(
            "pumice_scheduler_queue_faults",
            "Mistakes in the tree of queues and their quotas, by kind.",
            ["pool", "queue", "kind"],
            registry=registry,
        )
        self.nodes = Gauge("pumice_scheduler_nodes", "Nodes in the snapshot.", ["pool"], registry=registry)
        self.measurements = Counter(
            "pumice_scheduler_measurements",
            "Looks at what nodes really use, by what came of them (done, failed).",
            ["pool", "result"],
            registry=registry,
        )
        self.measured = Gauge(
            "pumice_scheduler_nodes_measured",
            "Nodes of which the last look told what they use.",
            ["pool"],
            registry=registry,
        )
        self.policy_problems = Gauge(
            "pumice_scheduler_policy_problems",
            "Problems of the newest configuration; with any it is not in force.",
            ["pool"],
            registry=registry,
        )
        self.policy_changes = Counter(
            "pumice_scheduler_policy_changes", "Changes of the policy.", ["pool"], registry=registry
        )
        self.extender = Counter(
            "pumice_scheduler_extender_requests",
            "Requests to the extender, by verb and whether they were answered.",
            ["pool", "verb", "outcome"],
            registry=registry,
        )
        self.plugin_errors = Counter(
            "pumice_scheduler_plugin_errors",
            "Wrong answers of plugins that were skipped.",
            ["pool", "plugin"],
            registry=registry,
        )
