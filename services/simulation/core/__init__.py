"""Manifests and traces in, what became of them out: pure, and the same each time."""
