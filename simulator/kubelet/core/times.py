"""Kubernetes' time stamps: UTC, whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime


def stamp(time: datetime) -> str:
    """Write a time as ``metav1.Time`` does."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_stamp(text: str) -> datetime:
    """Read a time stamp, with or without a fraction of a second."""
    return datetime.fromisoformat(text)
