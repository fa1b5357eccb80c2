"""An event with its CloudEvents attributes and its place in a trace."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from shared.events.contracts import Contract

T_co = TypeVar("T_co", bound=Contract, covariant=True)


@dataclass(frozen=True)  # no slots: with them, a subscripted call fails on Python 3.11
class Envelope(Generic[T_co]):
    """CloudEvents 1.0 attributes around ``data``.

    ``id`` with ``source`` is unique; a producer that sends the same event again uses the same id.
    ``traceparent`` is the W3C trace context that the event's handling continues.
    """

    id: str
    source: str
    time: datetime
    data: T_co
    subject: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None

    @property
    def type(self) -> str:
        """The CloudEvents type, from the data's class."""
        return self.data.TYPE
