"""The steps of which flows are made, and what carries them out.

A flow is a generator. It yields steps, gets their results sent back, and returns its own result; a
:class:`Send`, :class:`Open` or :class:`Read` that fails on the way is thrown into it as
:class:`TransportFailure`. ``Client`` and ``AsyncClient`` only carry steps out, so that both behave
the same, and tests drive a flow by hand without a network.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from pumice.calls import Request
from pumice.retry import Retry

T = TypeVar("T")


class TransportFailure(Exception):  # noqa: N818 - no error of the caller's
    """The request did not come through. ``silent``: the connection is there, but nothing came in time."""

    def __init__(self, message: str, *, silent: bool = False) -> None:
        super().__init__(message)
        self.silent = silent


@dataclass(frozen=True, slots=True)
class Send:
    """Carry a request out. Result: Answer."""

    request: Request
    timeout: float | None = None
    """Seconds for the answer; None: the client's own."""


@dataclass(frozen=True, slots=True)
class Open:
    """Begin to read a stream; the one before is closed. Result: Answer, with a body only for an error."""

    request: Request
    silence: float


@dataclass(frozen=True, slots=True)
class Read:
    """Read the open stream. Result: a line, or None at its end."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait some seconds. Result: None."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Emit:
    """Give a value to the caller's loop, if there is one. Result: None."""

    value: Any


Step = Send | Open | Read | Sleep | Emit
Flow = Generator[Step, Any, T]


@dataclass(frozen=True, slots=True)
class Host:
    """What a flow needs of the machine it runs on."""

    monotonic: Callable[[], float]
    random: Callable[[], float]
    retry: Retry
