"""What ``pumice up`` can be told, checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shared.errors import ConfigurationError
from shared.settings import read_mapping

SERVICES: Final = ("gateway", "admission", "controller", "scheduler", "workflows")
DEFAULT_NODES: Final = ("4x8",)


@dataclass(frozen=True, slots=True)
class Options:
    """The platform to start. Defaults: everything embedded, on loopback, four nodes of eight GPUs."""

    nodes: tuple[str, ...] = DEFAULT_NODES
    host: str = "127.0.0.1"
    port: int = 8080
    """The gateway's; 0 takes a free one."""
    log: str | None = None
    """Log URL; None: in memory, or on disk under ``data``."""
    data: Path | None = None
    kubeconfig: Path | None = None
    """A real cluster instead of the simulator."""
    context: str | None = None
    config: Path | None = None
    ready_file: Path | None = None
    operations_port: int = 0
    """Port of /readyz and /metrics of all services; 0: none."""
    log_level: str = "warning"

    @property
    def log_url(self) -> str:
        """The event log's URL. Raises ConfigurationError when two are named."""
        if self.log is not None and self.data is not None:
            raise ConfigurationError("--log and --data name two logs: give one of them")
        if self.data is not None:
            return f"sqlite:///{self.data.absolute() / 'log.sqlite'}"
        return self.log or "memory://"


def read_config(path: Path | None) -> dict[str, dict[str, Any]]:
    """Return the settings in a configuration file by service. Raises ConfigurationError."""
    if path is None:
        return {}
    content = read_mapping(path)
    if not all(isinstance(section, dict) for section in content.values()):
        raise ConfigurationError(f"configuration file {path}: a mapping for each of {', '.join(SERVICES)}")
    unknown = sorted(set(content) - set(SERVICES))
    if unknown:
        raise ConfigurationError(
            f"configuration file {path}: unknown section {', '.join(unknown)}; known: {', '.join(SERVICES)}"
        )
    return content
