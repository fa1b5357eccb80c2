"""A broker that lets nobody in without TLS and a password, or a certificate."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from shared.errors import Unavailable
from shared.log.access import KafkaAccess
from shared.log.kafka import KafkaLog
from shared.log.kafka.settings import KafkaSettings
from shared.log.port import Record, TopicSpec
from tests.fixtures.kafka import start_broker
from tests.fixtures.logs import read_all
from tools.kafka import free_port

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(120)]


def certify(folder: Path, name: str, issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None) -> Path:
    """Write ``name``.pem with a key and a certificate by ``issuer``, or by itself; return its path."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer, signing = issuer or (subject, key)
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(signing, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


class Guarded:
    """A broker with two guarded ports, and the files to get in."""

    def __init__(self, folder: Path) -> None:
        self.authority = certify(folder, "authority", None)
        key = serialization.load_pem_private_key(self.authority.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        issuer = x509.load_pem_x509_certificate(self.authority.read_bytes()).subject, key
        server, self.client = certify(folder, "server", issuer), certify(folder, "client", issuer)
        plain, self.password, self.mutual = free_port(), free_port(), free_port()
        ports = f"PLAINTEXT://127.0.0.1:{plain},PASSWORD://127.0.0.1:{self.password},MUTUAL://127.0.0.1:{self.mutual}"
        trust = folder / "trust.pem"
        trust.write_text("-----BEGIN" + self.authority.read_text().split("-----BEGIN")[2])
        stores: dict[str, str] = {}
        for name in ("password", "mutual"):
            stores |= {
                f"listener.name.{name}.ssl.keystore.type": "PEM",
                f"listener.name.{name}.ssl.keystore.location": str(server),
                f"listener.name.{name}.ssl.truststore.type": "PEM",
                f"listener.name.{name}.ssl.truststore.location": str(trust),
            }
        self.broker = start_broker(
            folder / "kafka",
            port=plain,
            listeners=ports,
            properties={
                **stores,
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PASSWORD:SASL_SSL,MUTUAL:SSL"
                ),
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.password.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.password.plain.sasl.jaas.config": (
                    'org.apache.kafka.common.security.plain.PlainLoginModule required user_pumice="right";'
                ),
            },
        )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    yield made
    made.broker.stop()


async def goes_through(log: KafkaLog, name: str) -> None:
    async with log:
        await log.create_topics([TopicSpec(name)])
        await log.producer.send(Record(name, b"k", b"1"))
        async with (await log.transactional(f"{name}-id")).transaction() as transaction:
            await transaction.send(Record(name, b"k", b"2"))
        consumer = await log.consume(f"{name}-group", [name])
        assert [one.value for one in await consumer.poll(timeout=10)] == [b"1", b"2"]
        assert [one.value for one in await read_all(log, name)] == [b"1", b"2"]


async def test_a_password_over_tls_opens_every_part_of_the_log(guarded, tmp_path):
    secret = tmp_path / "password"
    secret.write_text("right\n")
    access = KafkaAccess(
        ca_file=guarded.authority, username="pumice", password_file=secret, mechanism="PLAIN"
    )
    await goes_through(KafkaLog(f"127.0.0.1:{guarded.password}", access=access), "by-password")


async def test_a_certificate_opens_every_part_of_the_log(guarded):
    access = KafkaAccess(ca_file=guarded.authority, cert_file=guarded.client)
    await goes_through(KafkaLog(f"127.0.0.1:{guarded.mutual}", access=access), "by-certificate")


@pytest.mark.parametrize("wrong", ["password", "authority"])
async def test_who_is_not_let_in_hears_why(guarded, wrong):
    access = KafkaAccess(
        tls=True,
        ca_file=None if wrong == "authority" else guarded.authority,
        username="pumice",
        password="wrong" if wrong == "password" else "right",
        mechanism="PLAIN",
    )
    log = KafkaLog(f"127.0.0.1:{guarded.password}", access=access, settings=KafkaSettings(start_patience=2.0))
    with pytest.raises(Unavailable, match=r"(?i)authentication|certificate"):
        await log.start()
