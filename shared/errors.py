"""Errors by whose fault they are.

A shell decides by the class alone what to do: a :class:`ContractError` goes to the dead-letter
topic; :class:`Conflict`, :class:`NotFound`, :class:`Refused` and :class:`Unavailable` are the world's
answers, and what led to one is done again with back-off, from what is there by then; a
:class:`ConfigurationError` ends the process with one line. Anything else is our own mistake: it
stops the service, and the platform restarts it.
"""

from __future__ import annotations


class PumiceError(Exception):
    """Base of every error that Pumice raises on purpose."""


class ContractError(PumiceError):
    """The sender's fault: a message or request that cannot be read. ``reason`` is a stable code."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Conflict(PumiceError):  # noqa: N818 - the field's word, as in HTTP 409
    """The world has moved on: read again, then retry."""


class AlreadyExists(Conflict):
    """An object of that name is there already."""


class NotFound(PumiceError):  # noqa: N818
    """The object is not there (any more)."""


class Gone(PumiceError):  # noqa: N818
    """A watch's resource version is too old (HTTP 410): list again."""


class Refused(PumiceError):  # noqa: N818
    """The server understood and said no (HTTP 400, 403, 413, 422), as it would to the same again."""

    def __init__(self, message: str, *, status: int = 422, reason: str = "Invalid") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Unavailable(PumiceError):  # noqa: N818
    """The world's fault and passing: a broker or API server is away or overloaded."""


class Fenced(PumiceError):  # noqa: N818
    """A newer owner has the transactional id (or a transaction outlived its time): this one must stop."""


class TooLarge(PumiceError):  # noqa: N818
    """A record is over the log's limit for one message. ``size`` and ``limit`` are bytes."""

    def __init__(self, message: str, *, size: int, limit: int) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class ConfigurationError(PumiceError):
    """A wrong flag, file or environment value: one line that names it, exit code 2."""


class StartupError(PumiceError):
    """Something needed at start is not there (port in use, broker away): one line, exit code 1."""
