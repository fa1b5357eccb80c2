"""Where the server is and which namespace is meant.

For each setting the first of these that has it counts: the argument or flag, the environment
(``PUMICE_SERVER``, ``PUMICE_NAMESPACE``), the configuration file, the default. The file is
``$PUMICE_CLIENT_CONFIG``, or ``pumice/config.yaml`` under ``$XDG_CONFIG_HOME`` (default ``~/.config``),
and has the keys ``server`` and ``namespace``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pumice.errors import ManifestError, PumiceError

SERVER: Final = "http://127.0.0.1:8080"
"""Where ``pumice up`` listens unless it is told otherwise."""
NAMESPACE: Final = "default"
_KEYS: Final = frozenset({"server", "namespace"})


class ConfigError(PumiceError):
    """A wrong flag, environment value or configuration file."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the client works with. ``server`` has no slash at its end."""

    server: str
    namespace: str


def resolve(
    *, server: str | None = None, namespace: str | None = None, environ: Mapping[str, str] = os.environ
) -> Settings:
    """Return the settings; arguments count first. Raises ConfigError, which names the wrong one."""
    file = {} if server and namespace else _file(environ)
    address = server or environ.get("PUMICE_SERVER") or file.get("server") or SERVER
    return Settings(
        server=_address(address),
        namespace=namespace or environ.get("PUMICE_NAMESPACE") or file.get("namespace") or NAMESPACE,
    )


def path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the configuration file is looked for."""
    if named := environ.get("PUMICE_CLIENT_CONFIG"):
        return Path(named)
    base = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".config"
    return Path(base) / "pumice" / "config.yaml"


def _file(environ: Mapping[str, str]) -> dict[str, str]:
    where = path(environ)
    try:
        text = where.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if environ.get("PUMICE_CLIENT_CONFIG"):
            raise ConfigError(f"PUMICE_CLIENT_CONFIG: there is no file {where}") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: {error}") from error
    return _checked(where, text)


def _checked(where: Path, text: str) -> dict[str, str]:
    from pumice.manifest import documents  # only a few have the file

    try:
        found = documents(text, str(where))
    except ManifestError as error:
        raise ConfigError(str(error)) from error
    value = found[0] if found else {}
    unknown = sorted(str(key) for key in value if key not in _KEYS)
    if unknown:
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}; it may have: {', '.join(sorted(_KEYS))}")
    return {str(key): str(item) for key, item in value.items() if item is not None}


def _address(text: str) -> str:
    parts = urlsplit(text if "//" in text else f"http://{text}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    if (
        parts.scheme not in {"http", "https"}
        or not parts.hostname
        or port == -1
        or parts.query
        or parts.fragment
    ):
        raise ConfigError(f"server {text!r} is not an address like {SERVER}")
    return parts.geturl().rstrip("/")
