"""Keeps the webhook server's certificate valid: made here and shared by a Secret, or read from files."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from services.admission.adapters.certificates import (
    Certificates,
    expiry,
    from_secret,
    make,
    present,
    renew_serving,
)
from services.admission.adapters.webhooks import Metrics
from services.admission.core.renewal import Lifetimes, Step, next_look, next_step
from shared.api.base import JSON
from shared.api.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from shared.clock import Alarm, Clock
from shared.errors import ConfigurationError, Conflict, NotFound, Refused, Unavailable
from shared.kube.informer import Informer
from shared.kube.port import Cluster, Resource
from shared.service import Health
from shared.telemetry.telemetry import Telemetry

_CONFIGURATIONS: Final = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
_PART: Final = "certificate"
_RETRY_SECONDS: Final = 5.0
_CONFLICT_SECONDS: Final = 0.1
_SETTLE_SECONDS: Final = 3.0
"""What API servers get to learn of a new authority by their watches, before they meet its certificate."""
_FILES_SECONDS: Final = 30.0
"""How often files are looked at: the kubelet brings a changed Secret into a pod within about a minute."""


def server_context() -> ssl.SSLContext:
    """Return TLS settings for the server, without a certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class Keeper(Protocol):
    """Gives the server its certificates."""

    context: ssl.SSLContext

    async def run(self) -> None:
        """Keep the certificate valid until cancelled."""
        ...

    async def ready(self) -> None:
        """Return once there is a certificate."""
        ...


class Trust:
    """Writes the authority that clients must trust into the webhook configurations, where they exist."""

    def __init__(self, cluster: Cluster, configuration: str) -> None:
        self._cluster = cluster
        self.configuration = configuration

    async def spread(self, bundle: bytes) -> None:
        """Set ``caBundle`` wherever it differs. Raises Conflict when somebody else writes as well."""
        wanted = base64.b64encode(bundle).decode()
        for resource in _CONFIGURATIONS if self.configuration else ():
            try:
                found = await self._cluster.get(resource, None, self.configuration)
            except NotFound:
                continue
            clients = [webhook["clientConfig"] for webhook in found.get("webhooks") or ()]
            if any(client.get("caBundle") != wanted for client in clients):
                for client in clients:
                    client["caBundle"] = wanted
                await self._cluster.replace(resource, None, found)


class _Presenting:
    """What both ways have in common: the context, and how it gets a certificate."""

    def __init__(self, clock: Clock, health: Health, metrics: Metrics, telemetry: Telemetry) -> None:
        self.context = server_context()
        self._clock = clock
        self._health = health
        self._metrics = metrics
        self._log = telemetry.log
        self._ready = asyncio.Event()
        self._presented = b""
        self._trouble = ""
        health.waits(_PART, "no certificate for the webhooks yet")

    async def ready(self) -> None:
        """Return once there is a certificate."""
        await self._ready.wait()

    def _present(self, certificate: bytes, key: bytes) -> None:
        if certificate != self._presented:
            present(self.context, certificate, key)
            self._presented = certificate
            end = expiry(certificate)
            self._metrics.expiry.set(end.timestamp())
            self._log.info("the webhooks present a certificate that is valid until %s", end.isoformat())
        self._trouble = ""
        self._health.ok(_PART)
        self._ready.set()

    def _complain(self, error: Exception) -> None:
        """Say what is wrong, once; a certificate that is there is good for a long time still."""
        trouble = f"the webhooks' certificate is not kept: {error}"
        if trouble != self._trouble:
            self._trouble = trouble
            self._log.warning("%s", trouble)
        if not self._ready.is_set():
            self._health.waits(_PART, trouble)


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """Where the certificate is kept, and whom it is for."""

    namespace: str
    name: str
    names: Collection[str]
    lifetimes: Lifetimes


class SecretKeeper(_Presenting):
    """Makes the certificates itself. Replicas share them: whoever writes first wins, the others read.

    A new authority is in the configurations before its first certificate is presented, and the old one stays
    there, so that at no moment a replica is not believed.
    """

    def __init__(
        self,
        cluster: Cluster,
        place: SecretPlace,
        trust: Trust,
        *,
        clock: Clock,
        health: Health,
        metrics: Metrics,
        telemetry: Telemetry,
    ) -> None:
        super().__init__(clock, health, metrics, telemetry)
        self._cluster = cluster
        self._place = place
        self._trust = trust
        self._authority = b""
        self._wake = asyncio.Event()
        self._alarm = Alarm(clock, self._wake)

    async def run(self) -> None:
        """Keep the certificate valid, and the configurations trusting it, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for informer in self._informers():
                    tasks.create_task(informer.run())
                await self._keep()
        finally:
            self._alarm.stop()

    def _informers(self) -> list[Informer]:
        watched: list[tuple[Resource, str | None, str]] = [(SECRETS, self._place.namespace, self._place.name)]
        if self._trust.configuration:
            watched += [(resource, None, self._trust.configuration) for resource in _CONFIGURATIONS]
        return [
            Informer(
                self._cluster,
                resource,
                clock=self._clock,
                namespace=namespace,
                fields=f"metadata.name={name}",
                on_change=self._changed,
            )
            for resource, namespace, name in watched
        ]

    def _changed(self, _: JSON | None, __: JSON | None) -> None:
        self._wake.set()

    async def _keep(self) -> None:
        while True:
            self._wake.clear()
            try:
                certificates = await self._step()
            except Conflict:
                self._alarm.ring_in(_CONFLICT_SECONDS)  # somebody else was first: read again
            except (Unavailable, Refused, NotFound) as error:
                self._complain(error)
                self._alarm.ring_in(_RETRY_SECONDS)
            else:
                self._alarm.ring_in(next_look(certificates.held, self._clock.now()).total_seconds())
            await self._wake.wait()

    async def _step(self) -> Certificates:
        now = self._clock.now()
        secret = await self._secret()
        certificates = from_secret(secret.get("data") or {}) if secret else None
        step = next_step(certificates.held if certificates else None, self._place.names, now)
        if certificates is None or step is not Step.KEEP:
            certificates = await self._renew(secret, certificates, step, now)
        await self._trust.spread(certificates.bundle(now))
        if self._authority not in (b"", certificates.authority):
            await self._clock.sleep(_SETTLE_SECONDS)
        self._authority = certificates.authority
        self._present(certificates.serving, certificates.serving_key)
        return certificates

    async def _secret(self) -> JSON | None:
        try:
            return await self._cluster.get(SECRETS, self._place.namespace, self._place.name)
        except NotFound:
            return None

    async def _renew(
        self, secret: JSON | None, old: Certificates | None, step: Step, now: datetime
    ) -> Certificates:
        place = self._place
        if old is None or step is Step.NEW_AUTHORITY:
            made = make(place.names, place.lifetimes, now, old)
        else:
            made = renew_serving(old, {*place.names, *old.held.names}, place.lifetimes, now)
        if secret is None:
            await self._cluster.create(SECRETS, place.namespace, _secret(place, made))
        else:
            await self._cluster.replace(SECRETS, place.namespace, {**secret, "data": made.secret_data()})
        self._log.info("made a %s for the webhooks", step.value)
        return made


def _secret(place: SecretPlace, certificates: Certificates) -> JSON:
    metadata: dict[str, Any] = {"name": place.name, "namespace": place.namespace}
    data = certificates.secret_data()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": metadata,
        "data": data,
    }


@dataclass(frozen=True, slots=True)
class Files:
    """Paths of PEM files; without an authority, somebody else sees to it that ours is trusted."""

    certificate: Path
    key: Path
    authority: Path | None = None


class FileKeeper(_Presenting):
    """Presents what others make (cert-manager, an operator), and notices when they renew it."""

    def __init__(
        self,
        files: Files,
        trust: Trust,
        *,
        clock: Clock,
        health: Health,
        metrics: Metrics,
        telemetry: Telemetry,
    ) -> None:
        super().__init__(clock, health, metrics, telemetry)
        self._files = files
        self._trust = trust

    async def run(self) -> None:
        """Look at the files again and again. Raises ConfigurationError when they cannot be used at first."""
        while True:
            try:
                await self._step()
            except (ConfigurationError, Unavailable, Refused, Conflict) as error:
                if isinstance(error, ConfigurationError) and not self._presented:
                    raise
                self._complain(error)
            await self._clock.sleep(_FILES_SECONDS)

    async def _step(self) -> None:
        certificate, key = _read(self._files.certificate), _read(self._files.key)
        self._present(certificate, key)
        if self._files.authority is not None:
            await self._trust.spread(_read(self._files.authority))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"webhook certificate {path}: {error.strerror or error}") from error
