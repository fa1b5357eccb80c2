"""How to be let in by a Kafka cluster: TLS, certificates, a name and a password."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from shared.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaAccess:
    """Plain and anonymous unless told otherwise. A private CA or a client certificate means TLS."""

    tls: bool = False
    ca_file: Path | None = None
    """PEM file of the authorities that sign the brokers' certificates; None: the system's."""
    cert_file: Path | None = None
    """PEM file of the client's certificate (mutual TLS)."""
    key_file: Path | None = None
    """PEM file of its key; None: it is in ``cert_file``."""
    username: str = ""
    """Name for SASL; empty: none is asked for."""
    password: str = field(default="", repr=False)
    password_file: Path | None = None
    """File that holds the password, as a mounted Secret has it; read at each connection of a log."""
    mechanism: str = "SCRAM-SHA-512"

    @property
    def protocol(self) -> str:
        """Kafka's name of the security protocol."""
        encrypted = self.tls or self.ca_file is not None or self.cert_file is not None
        if self.username:
            return "SASL_SSL" if encrypted else "SASL_PLAINTEXT"
        return "SSL" if encrypted else "PLAINTEXT"

    def arguments(self) -> dict[str, Any]:
        """Return what aiokafka's clients take. Raises ConfigurationError that names the setting."""
        protocol = self.protocol
        found: dict[str, Any] = {"security_protocol": protocol}
        if protocol.endswith("SSL"):
            found["ssl_context"] = self._context()
        if self.username:
            found["sasl_mechanism"] = self.mechanism
            found["sasl_plain_username"] = self.username
            found["sasl_plain_password"] = self._password()
        elif self.password or self.password_file is not None:
            raise ConfigurationError("kafka_password: a password needs a kafka_username")
        return found

    def _context(self) -> ssl.SSLContext:
        context = _load(
            "kafka_ca_file", self.ca_file, lambda: ssl.create_default_context(cafile=self.ca_file)
        )
        if self.cert_file is not None:
            certificate = self.cert_file
            _load("kafka_cert_file", certificate, lambda: context.load_cert_chain(certificate, self.key_file))
        elif self.key_file is not None:
            raise ConfigurationError("kafka_key_file: a key needs a kafka_cert_file")
        return context

    def _password(self) -> str:
        if self.password_file is None:
            if not self.password:
                raise ConfigurationError(
                    "kafka_username: a name needs a kafka_password or kafka_password_file"
                )
            return self.password
        file = self.password_file
        return _load("kafka_password_file", file, lambda: file.read_text(encoding="utf-8").strip())


def _load(setting: str, file: Path | None, read: Callable[[], T]) -> T:
    try:
        return read()
    except (OSError, UnicodeDecodeError) as error:  # an SSLError is an OSError
        problem = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{setting}: {file}: {problem}") from error
