"""The kubelets' own HTTPS server, where a real API server fetches the logs of containers.

One server is that of all nodes. It knows nobody: whoever reaches its port reads the logs of simulated pods.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from shared.api.resources import PODS
from shared.clock import Clock
from shared.errors import NotFound, PumiceError, StartupError
from shared.kube.port import JSON, Cluster
from simulator.kubelet.core.nodes import Endpoint
from simulator.kubelet.logs import send_log


@asynccontextmanager
async def serve_kubelet_api(
    cluster: Cluster, clock: Clock, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Endpoint]:
    """Serve for as long as the block lasts; port 0: a free one. Raises StartupError when it is in use."""

    async def container_logs(request: web.Request) -> web.StreamResponse:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        container = request.match_info["container"]

        async def pod() -> JSON:
            return await cluster.get(PODS, namespace, name)

        try:
            return await send_log(request, container, pod, clock)
        except (NotFound, KeyError) as error:
            raise web.HTTPNotFound(text=f"{namespace}/{name}/{container}: {error}\n") from error
        except PumiceError as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from error

    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", container_logs)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=await asyncio.to_thread(_tls, host, clock.now()))
        try:
            await site.start()
        except OSError as error:
            raise StartupError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        yield Endpoint(host, int(runner.addresses[0][1]))
    finally:
        await runner.cleanup()


def _tls(host: str, now: dt.datetime) -> ssl.SSLContext:
    """Return a context with a certificate signed by itself, as a kubelet makes one that was given none."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=365))
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory(prefix="pumice-") as folder:  # the ssl module reads files only
        pem = Path(folder) / "kubelet.pem"
        pem.touch(mode=0o600)
        pem.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context.load_cert_chain(pem)
    return context
