"""Which way of getting into Kafka the settings mean, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.errors import ConfigurationError
from shared.log.access import KafkaAccess
from shared.settings import CommonSettings, load_settings


@pytest.mark.parametrize(
    ("access", "protocol"),
    [
        (KafkaAccess(), "PLAINTEXT"),
        (KafkaAccess(tls=True), "SSL"),
        (KafkaAccess(ca_file=Path("ca.pem")), "SSL"),
        (KafkaAccess(cert_file=Path("me.pem")), "SSL"),
        (KafkaAccess(username="me", password="x"), "SASL_PLAINTEXT"),
        (KafkaAccess(tls=True, username="me", password="x"), "SASL_SSL"),
    ],
)
def test_what_is_given_says_which_protocol_is_spoken(access: KafkaAccess, protocol: str):
    assert access.protocol == protocol


@pytest.mark.parametrize(
    ("access", "complaint"),
    [
        (KafkaAccess(ca_file=Path("missing.pem")), "kafka_ca_file: missing.pem: No such file"),
        (KafkaAccess(ca_file=Path(__file__)), "kafka_ca_file: .*test_log_access.py: "),
        (KafkaAccess(tls=True, cert_file=Path("missing.pem")), "kafka_cert_file: missing.pem: No such file"),
        (KafkaAccess(tls=True, key_file=Path("me.key")), "kafka_key_file: a key needs a kafka_cert_file"),
        (KafkaAccess(username="me"), "kafka_username: a name needs a kafka_password"),
        (KafkaAccess(username="me", password_file=Path("missing")), "kafka_password_file: missing: No such"),
        (KafkaAccess(password="x"), "kafka_password: a password needs a kafka_username"),
    ],
)
def test_what_cannot_work_is_named(access: KafkaAccess, complaint: str):
    with pytest.raises(ConfigurationError, match=complaint):
        access.arguments()


def test_the_environment_gives_a_service_its_way_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    secret = tmp_path / "password"
    secret.write_text("right\n")
    monkeypatch.setenv("PUMICE_KAFKA_USERNAME", "me")
    monkeypatch.setenv("PUMICE_KAFKA_PASSWORD_FILE", str(secret))
    arguments = load_settings(CommonSettings).kafka_access.arguments()
    assert arguments == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": "right",
    }


def test_a_password_is_not_shown():
    assert "right" not in repr(KafkaAccess(username="me", password="right"))
