"""Kubernetes' time stamps: UTC, whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime


def stamp(time: datetime) -> str:
    """Write a time as ``metav1.Time`` does; ``isoformat`` takes a fifth of ``strftime``'s time."""
    if time.tzinfo is not UTC:
        time = time.astimezone(UTC)
    return time.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def read_stamp(text: str) -> datetime:
    """Read a time stamp, with or without a fraction of a second."""
    return datetime.fromisoformat(text)
