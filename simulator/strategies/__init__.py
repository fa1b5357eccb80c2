"""Defaults, admission and validation of the built-in kinds."""
