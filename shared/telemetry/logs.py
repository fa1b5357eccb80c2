"""Logging: one line of text on a terminal, one JSON object a line in a container.

Call sites say *what happened* as a constant text and pass the facts as ``extra``; both forms show them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import orjson

from shared.clock import Clock

ROOT: Final = "pumice"
"""The logger that all of ours are below."""

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "taskName",
    "service",
}
_NOISY: Final = ("aiokafka", "kafka", "kubernetes_asyncio", "urllib3", "asyncio", "uvicorn", "opentelemetry")


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD}


def _service(record: logging.LogRecord) -> str:
    return record.name.removeprefix(f"{ROOT}.")


class TextFormatter(logging.Formatter):
    """``12:00:01.123 INFO    gateway: message key=value``; a traceback, when there is one, follows."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S.%f")[:-3]
        facts = "".join(f" {key}={_short(value)}" for key, value in _facts(record).items())
        message = " ".join(record.getMessage().splitlines())
        line = f"{time} {record.levelname:<7} {_service(record)}: {message}{facts}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (RFC 3339, UTC), level, service, message, the facts, the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        entry = {
            **_facts(record),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": _service(record),
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(entry, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def _short(value: object) -> str:
    text = str(value)
    return repr(text) if not text or " " in text or "\n" in text or "=" in text else text


def setup_logging(*, as_json: bool | None = None, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all logging to ``stream`` (standard error). ``as_json`` None: text on a terminal, else JSON.

    Called once by a process's entry point. Libraries speak from WARNING on: what they retry by
    themselves is not news.
    """
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        JsonFormatter() if (not target.isatty() if as_json is None else as_json) else TextFormatter()
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(ROOT).setLevel(level.upper())
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


class Outage:
    """Says once that something is away, and once that it is back and after how long."""

    def __init__(self, what: str, log: logging.Logger, clock: Clock) -> None:
        self._what = what
        self._log = log
        self._clock = clock
        self._since: float | None = None

    @property
    def ongoing(self) -> bool:
        """Whether it is away now."""
        return self._since is not None

    def away(self, error: BaseException | str, **facts: object) -> None:
        """Note a failure; only the first of an outage is logged."""
        if self._since is None:
            self._since = self._clock.monotonic()
            self._log.warning("%s is away, retrying: %s", self._what, error, extra=_named(facts))

    def back(self) -> None:
        """Note a success; only the first after an outage is logged."""
        if self._since is not None:
            seconds = self._clock.monotonic() - self._since
            self._since = None
            self._log.warning("%s is back after %.1f s", self._what, seconds)


def _named(facts: Mapping[str, object]) -> dict[str, object]:
    """Keep facts from hiding a record's own attributes, which logging refuses."""
    return {(f"{key}_" if key in _STANDARD else key): value for key, value in facts.items()}
