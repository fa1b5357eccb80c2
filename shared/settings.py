"""Settings of a service: frozen, read once from the environment and a file, passed down, never imported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from shared.errors import ConfigurationError
from shared.log.access import KafkaAccess


class CommonSettings(BaseSettings):
    """What every service can be told. Environment variables ``PUMICE_<FIELD>`` win over the file."""

    model_config = SettingsConfigDict(env_prefix="PUMICE_", frozen=True, extra="ignore")

    log: str = Field(
        "kafka://127.0.0.1:9092",
        description="The event log: kafka://host:port[,host:port…], sqlite:///path or memory://.",
    )
    kafka_tls: bool = Field(
        default=False, description="Encrypt the way to Kafka; also on with a CA or certificate file."
    )
    kafka_ca_file: Path | None = Field(
        None, description="PEM file of who signs the brokers' certificates; unset: the system's authorities."
    )
    kafka_cert_file: Path | None = Field(
        None, description="PEM file of our certificate, for brokers that ask for one."
    )
    kafka_key_file: Path | None = Field(
        None, description="PEM file of its key; unset: it is in the certificate's file."
    )
    kafka_username: str = Field("", description="Name for SASL; empty: no SASL.")
    kafka_password: SecretStr = Field(SecretStr(""), description="Password for SASL.")
    kafka_password_file: Path | None = Field(
        None, description="File with the password instead, such as a mounted Secret."
    )
    kafka_mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = Field(
        "SCRAM-SHA-512", description="SASL's way to prove the password; PLAIN sends it as it is."
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
    ping_pause: float = Field(
        2.0,
        gt=0,
        description="Seconds between two looks whether the log (and the API server) answers, for /readyz.",
    )
    ping_patience: float = Field(
        5.0, gt=0, description="Seconds without an answer after which it counts as away."
    )

    @property
    def kafka_access(self) -> KafkaAccess:
        """How Kafka is told who we are."""
        return KafkaAccess(
            tls=self.kafka_tls,
            ca_file=self.kafka_ca_file,
            cert_file=self.kafka_cert_file,
            key_file=self.kafka_key_file,
            username=self.kafka_username,
            password=self.kafka_password.get_secret_value(),
            password_file=self.kafka_password_file,
            mechanism=self.kafka_mechanism,
        )


S = TypeVar("S", bound=CommonSettings)


def read_mapping(path: Path) -> dict[str, Any]:
    """Return a YAML file's mapping. Raises ConfigurationError, one line, when it is none."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"configuration file {path}: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"configuration file {path}: not a mapping")
    return content


def load_settings(
    kind: type[S], values: Mapping[str, Any] | None = None, *, source: str = "", **fixed: Any
) -> S:
    """Read settings: ``fixed``, then the environment, then ``values`` (from a file named by ``source``).

    Raises ConfigurationError, one line that names the variable or setting.
    """
    given = dict(values or {})
    unknown = sorted(set(given) - set(kind.model_fields))
    if unknown:
        raise ConfigurationError(f"{source}: unknown setting {', '.join(unknown)}")
    prefix = kind.model_config.get("env_prefix", "")
    variables = {name: f"{prefix}{name}".upper() for name in kind.model_fields}
    set_outside = {name for name, variable in variables.items() if variable in os.environ}
    try:
        return kind(**{name: value for name, value in given.items() if name not in set_outside} | fixed)
    except SettingsError as error:  # a list or mapping in a variable that is not JSON
        broken = next((one for name, one in variables.items() if f'"{name}"' in str(error)), "environment")
        raise ConfigurationError(f"{broken}: not JSON (got {os.environ.get(broken)!r})") from error
    except ValidationError as error:
        problem = error.errors()[0]
        field = str(problem["loc"][0]) if problem["loc"] else "?"
        where = variables[field] if field in set_outside else ": ".join(filter(None, (source, field)))
        raise ConfigurationError(f"{where}: {problem['msg']} (got {problem.get('input')!r})") from error
