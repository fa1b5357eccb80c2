"""Benchmarks: each is a module with options and writes a JSON and a Markdown report."""
