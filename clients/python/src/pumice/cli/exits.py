"""Exit codes, and which error means which."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from pumice import errors
from pumice.config import ConfigError
from pumice.errors import PumiceError


class Exit(IntEnum):
    """What the command line's exit code says."""

    OK = 0
    FAILED = 1
    """The job ended otherwise than Completed; or an error that none of the others names."""
    USAGE = 2
    """Wrong use: a flag, a value, a file that cannot be read."""
    REJECTED = 3
    """The server refused: the job breaks rules, its name is taken, it is too large, or it is forbidden."""
    NOT_FOUND = 4
    UNREACHABLE = 5
    TIMEOUT = 6
    INTERRUPTED = 130
    """Ctrl-C. The job goes on."""


HELP: Final = """\
\b
Exit codes:
  0    done; a job that was waited for went through
  1    the job failed or was aborted, or another error
  2    wrong use: a flag, a value, a file that cannot be read
  3    the server refused: job rejected, name taken, too large, forbidden
  4    not found
  5    the server cannot be reached
  6    the time given is over; the job goes on
  130  interrupted by Ctrl-C; the job goes on
"""


class UsageError(PumiceError):
    """Wrong use that the parser of the flags cannot see."""


_CODES: Final[tuple[tuple[tuple[type[PumiceError], ...], Exit], ...]] = (
    ((UsageError, ConfigError, errors.BadRequest, errors.ManifestError), Exit.USAGE),
    ((errors.Rejected, errors.Conflict, errors.TooLarge, errors.Forbidden), Exit.REJECTED),
    ((errors.NotFound,), Exit.NOT_FOUND),
    ((errors.Unavailable,), Exit.UNREACHABLE),
    ((errors.TimedOut,), Exit.TIMEOUT),
)


def code_of(error: PumiceError) -> Exit:
    """Return the exit code that an error means."""
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), Exit.FAILED)
