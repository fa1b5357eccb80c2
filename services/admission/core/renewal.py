"""When certificates are made anew. Pure: what is held, what is wanted, and the time.

The authority signs serving certificates and is itself renewed long before it ends. The one before it stays in
the bundle that the API server trusts, so that replicas which still serve its certificates are believed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

_LATEST: Final = 2 / 3
"""The share of its life after which a certificate is renewed, as cert-manager and kubelet do."""
_LONGEST_WAIT: Final = timedelta(hours=12)
"""A clock that was set is noticed within that."""


class Step(Enum):
    """What to do about the certificates."""

    KEEP = "keep"
    NEW_SERVING = "new serving certificate"
    NEW_AUTHORITY = "new authority and serving certificate"


@dataclass(frozen=True, slots=True)
class Life:
    """When a certificate is valid."""

    begin: datetime
    end: datetime

    @property
    def renewal(self) -> datetime:
        """When it should be replaced."""
        return self.begin + (self.end - self.begin) * _LATEST

    def fresh(self, now: datetime) -> bool:
        """Whether it is valid and will stay so for a while."""
        return self.begin <= now < self.renewal


@dataclass(frozen=True, slots=True)
class Held:
    """What there is. ``names`` are those that the serving certificate is for."""

    authority: Life
    serving: Life
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long new certificates are valid; ``skew`` is how far the clocks of others may be behind."""

    authority: timedelta = timedelta(days=3650)
    serving: timedelta = timedelta(days=90)
    skew: timedelta = timedelta(hours=1)


def next_step(held: Held | None, names: Collection[str], now: datetime) -> Step:
    """Return what is to be done now; nothing held (or nothing readable) is a new authority."""
    if held is None or not held.authority.fresh(now):
        return Step.NEW_AUTHORITY
    if not held.serving.fresh(now) or not held.names >= {*names}:
        return Step.NEW_SERVING
    return Step.KEEP


def next_look(held: Held, now: datetime) -> timedelta:
    """Return how long nothing needs to be done."""
    due = min(held.authority.renewal, held.serving.renewal)
    return min(max(due - now, timedelta(0)), _LONGEST_WAIT)
