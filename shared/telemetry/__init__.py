"""Traces, metrics and logging, set up once by each service."""
