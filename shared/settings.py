"""Settings of a service: frozen, read once from the environment and a file, passed down, never imported."""

from __future__ import annotations

import os
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.errors import ConfigurationError


class CommonSettings(BaseSettings):
    """What every service can be told. Environment variables ``PUMICE_<FIELD>`` win over the file."""

    model_config = SettingsConfigDict(env_prefix="PUMICE_", frozen=True, extra="ignore")

    log: str = Field(
        "kafka://127.0.0.1:9092",
        description="The event log: kafka://host:port[,host:port…], sqlite:///path or memory://.",
    )
    kubeconfig: str | None = Field(
        None, description="Path of a kubeconfig; unset: the pod's service account."
    )
    context: str | None = Field(None, description="Context in the kubeconfig; unset: its current one.")
    operations_host: str = Field("0.0.0.0", description="Address of the operations port.")  # noqa: S104 - probes come from outside the pod
    operations_port: int = Field(
        0, ge=0, le=65535, description="Port of /healthz, /readyz and /metrics; 0: none."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least serious messages that are written."
    )
    log_json: bool | None = Field(None, description="JSON log lines; unset: JSON unless on a terminal.")


S = TypeVar("S", bound=CommonSettings)


def load_settings(kind: type[S], *, file: str | None = None, **overrides: Any) -> S:
    """Read settings: overrides, then the environment, then the YAML file. Raises ConfigurationError."""
    values: dict[str, Any] = {}
    if file:
        try:
            with open(file, encoding="utf-8") as stream:  # noqa: PTH123
                values = yaml.safe_load(stream) or {}
        except (OSError, yaml.YAMLError) as error:
            raise ConfigurationError(f"configuration file {file}: {' '.join(str(error).split())}") from error
        if not isinstance(values, dict):
            raise ConfigurationError(f"configuration file {file}: not a mapping")
        unknown = sorted(set(values) - set(kind.model_fields))
        if unknown:
            raise ConfigurationError(f"configuration file {file}: unknown setting {', '.join(unknown)}")
    prefix = kind.model_config.get("env_prefix", "")
    in_environment = {
        name for name in kind.model_fields if f"{prefix}{name}".upper() in map(str.upper, os.environ)
    }
    values = {name: value for name, value in values.items() if name not in in_environment} | overrides
    try:
        return kind(**values)
    except ValidationError as error:
        problem = error.errors()[0]
        field = str(problem["loc"][0]) if problem["loc"] else "?"
        source = f"{prefix}{field}".upper() if field in in_environment else field
        raise ConfigurationError(f"{source}: {problem['msg']} (got {problem.get('input')!r})") from error
