"""SSH keys for the ssh plugin: the one thing the controller makes that must not be guessable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import rsa

from services.controller.core.dependents import KeyPair

Keys = Callable[[], Awaitable[KeyPair]]
"""Makes a new pair of keys."""
_BITS: Final = 2048
_EXPONENT: Final = 65537


async def rsa_keys() -> KeyPair:
    """Make a pair as Volcano does: RSA of 2048 bits, PEM (PKCS #1) and OpenSSH's form.

    It takes a tenth of a second of computing, in a thread of its own.
    """
    return await asyncio.to_thread(_make)


def _make() -> KeyPair:
    key = rsa.generate_private_key(public_exponent=_EXPONENT, key_size=_BITS)
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.TraditionalOpenSSL, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return KeyPair(private.decode(), public.decode() + "\n")
