"""When certificates are renewed, and that what is made is believed by a TLS client."""

from __future__ import annotations

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest

from services.admission.adapters.certificates import expiry, from_secret, make, present, renew_serving
from services.admission.adapters.keeping import server_context
from services.admission.core.renewal import Held, Life, Lifetimes, Step, next_look, next_step
from shared.errors import ConfigurationError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
NAMES = frozenset({"pumice-admission.pumice-system.svc", "127.0.0.1"})


def held(
    authority: tuple[float, float] = (-1, 3649), serving: tuple[float, float] = (-1, 89), names=NAMES
) -> Held:
    """Lives in days from now."""
    return Held(
        Life(NOW + authority[0] * DAY, NOW + authority[1] * DAY),
        Life(NOW + serving[0] * DAY, NOW + serving[1] * DAY),
        frozenset(names),
    )


@pytest.mark.parametrize(
    ("one", "step"),
    [
        (None, Step.NEW_AUTHORITY),
        (held(), Step.KEEP),
        (held(serving=(-59, 31)), Step.KEEP),
        (held(serving=(-61, 29)), Step.NEW_SERVING),
        (held(serving=(-91, -1)), Step.NEW_SERVING),
        (held(serving=(1, 91)), Step.NEW_SERVING),
        (held(names=["pumice-admission.pumice-system.svc"]), Step.NEW_SERVING),
        (held(names=[*NAMES, "other"]), Step.KEEP),
        (held(authority=(-2400, 1250)), Step.KEEP),
        (held(authority=(-2500, 1150)), Step.NEW_AUTHORITY),
        (held(authority=(-3651, -1), serving=(-61, 29)), Step.NEW_AUTHORITY),
    ],
)
def test_a_certificate_is_renewed_after_two_thirds_of_its_life_or_for_a_new_name(one, step):
    assert next_step(one, NAMES, NOW) is step


@pytest.mark.parametrize(
    ("one", "hours"),
    [(held(), 12), (held(serving=(-59.75, 30.25)), 6), (held(serving=(-61, 29)), 0)],
)
def test_the_next_look_is_when_something_is_due_and_at_most_half_a_day_away(one, hours):
    assert next_look(one, NOW) == timedelta(hours=hours)


@pytest.mark.parametrize("days", [0.5, 10])
def test_after_each_step_there_is_nothing_to_do_until_the_next_look(days):
    lifetimes = Lifetimes(timedelta(days=10 * days), timedelta(days=days))
    made = make(NAMES, lifetimes, NOW)
    now = NOW
    steps = []
    while now < NOW + 8 * timedelta(days=days):
        step = next_step(made.held, NAMES, now)
        if step is Step.NEW_SERVING:
            made = renew_serving(made, NAMES, lifetimes, now)
        elif step is Step.NEW_AUTHORITY:
            made = make(NAMES, lifetimes, now, made)
        if step is not Step.KEEP:
            steps.append(step)
        assert next_step(made.held, NAMES, now) is Step.KEEP
        assert made.held.serving.end <= made.held.authority.end
        assert made.held.serving.end > now
        now += next_look(made.held, now) + timedelta(minutes=1)
    assert {Step.NEW_SERVING, Step.NEW_AUTHORITY} == {*steps}


def test_a_secret_keeps_everything():
    made = make(NAMES, Lifetimes(), NOW)
    again = make(NAMES, Lifetimes(), NOW + DAY, made)
    assert from_secret(again.secret_data()) == again
    assert again.previous == made.authority
    assert again.bundle(NOW) == again.authority + made.authority
    assert again.bundle(NOW + 3651 * DAY) == again.authority
    assert again.held.names == NAMES


@pytest.mark.parametrize("field", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
@pytest.mark.parametrize("damage", ["missing", "garbage", "of another"])
def test_a_secret_that_does_not_fit_together_counts_as_none(field, damage):
    data = make(NAMES, Lifetimes(), NOW).secret_data()
    other = make(NAMES, Lifetimes(), NOW).secret_data()
    data[field] = {"missing": "", "garbage": base64.b64encode(b"x").decode(), "of another": other[field]}[
        damage
    ]
    assert from_secret(data) is None


def test_a_certificate_that_is_none_is_a_configuration_error():
    with pytest.raises(ConfigurationError):
        expiry(b"x")
    with pytest.raises(ConfigurationError):
        present(server_context(), b"x", b"y")


async def handshake(context: ssl.SSLContext, bundle: bytes, name: str) -> bytes:
    """Return the certificate that a client which trusts ``bundle`` and calls ``name`` is shown."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        client = ssl.create_default_context(cadata=bundle.decode())
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return ssl.DER_cert_to_PEM_cert(shown).encode()


@pytest.mark.parametrize("name", sorted(NAMES))
async def test_a_client_that_trusts_the_authority_believes_the_server(name):
    now = datetime.now(UTC)
    made = make(NAMES, Lifetimes(), now)
    context = server_context()
    present(context, made.serving, made.serving_key)
    assert await handshake(context, made.bundle(now), name) == made.serving
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(context, make(NAMES, Lifetimes(), now).authority, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        await handshake(context, made.authority, "other.svc")


async def test_a_new_authority_is_believed_beside_the_old_one_and_shown_without_a_restart():
    now = datetime.now(UTC)
    old = make(NAMES, Lifetimes(), now)
    new = make(NAMES, Lifetimes(), now, old)
    context = server_context()
    present(context, old.serving, old.serving_key)
    assert await handshake(context, new.bundle(now), "127.0.0.1") == old.serving
    present(context, new.serving, new.serving_key)
    assert await handshake(context, new.bundle(now), "127.0.0.1") == new.serving
