"""Makes certificates, and turns them into a Secret's data and back."""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from services.admission.core.renewal import Held, Life, Lifetimes
from shared.errors import ConfigurationError

_AUTHORITY: Final = "pumice-admission-ca"
_CURVE: Final = ec.SECP256R1()  # what every TLS client of the last ten years speaks, and quick to make
_FIELDS: Final = {
    "authority": "ca.crt",
    "authority_key": "ca.key",
    "previous": "previous-ca.crt",
    "serving": "tls.crt",
    "serving_key": "tls.key",
}


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM texts: the authority, the one before it (or nothing), and the server's certificate."""

    authority: bytes
    authority_key: bytes
    serving: bytes
    serving_key: bytes
    previous: bytes = b""

    @property
    def held(self) -> Held:
        """What :mod:`services.admission.core.renewal` looks at."""
        serving = x509.load_pem_x509_certificate(self.serving)
        return Held(_life(x509.load_pem_x509_certificate(self.authority)), _life(serving), _names(serving))

    def bundle(self, now: datetime) -> bytes:
        """Return the authorities that clients must trust."""
        if not self.previous or _life(x509.load_pem_x509_certificate(self.previous)).end <= now:
            return self.authority
        return self.authority + self.previous

    def secret_data(self) -> dict[str, str]:
        """Return the ``data`` of a Secret of type kubernetes.io/tls."""
        texts = {name: getattr(self, field) for field, name in _FIELDS.items()}
        return {name: base64.b64encode(text).decode() for name, text in texts.items()}


def from_secret(data: Mapping[str, str]) -> Certificates | None:
    """Read a Secret's ``data``; None when anything is missing, unreadable or does not fit together."""
    try:
        texts = {field: base64.b64decode(data.get(name, "")) for field, name in _FIELDS.items()}
        found = Certificates(**texts)
        authority = x509.load_pem_x509_certificate(found.authority)
        x509.load_pem_x509_certificate(found.serving).verify_directly_issued_by(authority)
        if found.previous:
            x509.load_pem_x509_certificate(found.previous)
        for certificate, key in (
            (found.authority, found.authority_key),
            (found.serving, found.serving_key),
        ):
            if x509.load_pem_x509_certificate(certificate).public_key() != _load_key(key).public_key():
                return None
    except (ValueError, TypeError, InvalidSignature):
        return None
    return found


def make(
    names: Collection[str], lifetimes: Lifetimes, now: datetime, old: Certificates | None = None
) -> Certificates:
    """Make an authority and a serving certificate for these DNS names and addresses."""
    key = ec.generate_private_key(_CURVE)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_AUTHORITY}@{int(now.timestamp())}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - lifetimes.skew)
        .not_valid_after(now + lifetimes.authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    made = Certificates(_pem(certificate), _key_pem(key), b"", b"", old.authority if old else b"")
    return renew_serving(made, names, lifetimes, now)


def renew_serving(
    old: Certificates, names: Collection[str], lifetimes: Lifetimes, now: datetime
) -> Certificates:
    """Make a new serving certificate, signed by the authority that is there."""
    authority = x509.load_pem_x509_certificate(old.authority)
    key = ec.generate_private_key(_CURVE)
    end = min(now + lifetimes.serving, authority.not_valid_after_utc)
    common = min(names, key=len)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(now - lifetimes.skew, authority.not_valid_before_utc))
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(one) for one in sorted(names)]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(_load_key(old.authority_key).public_key()),
            critical=False,
        )
        .sign(_load_key(old.authority_key), hashes.SHA256())
    )
    return replace(old, serving=_pem(certificate), serving_key=_key_pem(key))


def present(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Let a TLS server present a certificate from its next connection on. Raises ConfigurationError."""
    with tempfile.TemporaryDirectory(prefix="pumice-") as directory:  # readable by us alone
        file = Path(directory) / "tls.pem"
        file.write_bytes(key + b"\n" + certificate)
        try:
            context.load_cert_chain(file)
        except (ssl.SSLError, OSError) as error:
            raise ConfigurationError(f"webhook certificate: {error}") from error


def expiry(certificate: bytes) -> datetime:
    """Return when a certificate (the first of a chain) ends. Raises ConfigurationError."""
    try:
        return x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    except ValueError as error:
        raise ConfigurationError(f"webhook certificate: {error}") from error


def _life(certificate: x509.Certificate) -> Life:
    return Life(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return frozenset()
    dns = extension.value.get_values_for_type(x509.DNSName)
    addresses = extension.value.get_values_for_type(x509.IPAddress)
    return frozenset([*dns, *(str(one) for one in addresses)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("not a key of an elliptic curve")
    return key


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
