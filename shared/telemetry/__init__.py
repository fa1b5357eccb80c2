"""Traces, metrics and logging, set up once by each service.

``spans`` and ``phases`` are pure: what a span is, and which spans a job's life has. ``telemetry`` hands
spans to a collector and holds the metrics; ``logs`` sets up logging. Only ``telemetry`` knows
OpenTelemetry, and no core may import it.
"""
