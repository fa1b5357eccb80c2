"""Open a log by its address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from shared.errors import ConfigurationError

if TYPE_CHECKING:
    from shared.clock import Clock
    from shared.log.access import KafkaAccess
    from shared.log.port import EventLog


def open_log(
    url: str, *, clock: Clock, client_id: str, access: KafkaAccess | None = None, make: bool = True
) -> EventLog:
    """Return the log at ``url``, not yet started; without ``make`` its file must be there.

    ``memory://``, ``sqlite:///relative/path``, ``sqlite:////absolute/path`` (``?synchronous=full``
    to survive a power cut too) or ``kafka://host:port[,host:port]``, to which ``access`` opens the way.
    Raises ConfigurationError.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "memory":
            from shared.log.memory import MemoryLog

            return MemoryLog(clock)
        case "sqlite":
            return _sqlite(url, clock, make=make)
        case "kafka" if parts.netloc:
            from shared.log.kafka import KafkaLog

            return KafkaLog(_bootstrap(url, parts.netloc), client_id=client_id, clock=clock, access=access)
        case _:
            raise ConfigurationError(
                f"log address {url!r} is none of memory://, sqlite:///path, kafka://host:port"
            )


def _bootstrap(url: str, servers: str) -> str:
    for server in servers.split(","):
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:  # noqa: PLR2004 - as many ports
            raise ConfigurationError(f"log address {url!r}: {server!r} is not host:port")
    return servers


def _sqlite(url: str, clock: Clock, *, make: bool) -> EventLog:
    from shared.log.sqlite import SqliteLog

    parts = urlsplit(url)
    path = parts.path.removeprefix("/")
    mode = parse_qs(parts.query).get("synchronous", ["normal"])[-1].lower()
    if not path or parts.netloc or mode not in {"normal", "full"}:
        raise ConfigurationError(f"log address {url!r}: give sqlite:///path[?synchronous=normal|full]")
    if not make and not Path(path).is_file():
        raise ConfigurationError(f"log address {url!r}: there is no file {path}")
    return SqliteLog(Path(path), clock, power_safe=mode == "full")
