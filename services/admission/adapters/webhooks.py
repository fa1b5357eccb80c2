"""The webhook server: HTTPS in, ``AdmissionReview`` out."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.admission.adapters.world import LiveWorld
from services.admission.core.review import Request, Verdict, answer, read_review
from services.admission.core.webhooks import Rules, decide, names_asked_for
from shared.clock import Clock
from shared.errors import ContractError, StartupError
from shared.telemetry.telemetry import Telemetry

_MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes: an update has the object twice, and etcd takes 1.5 MiB."""
_PERHAPS_OUTDATED: Final = frozenset(
    {"queue-not-found", "queue-not-open", "queue-not-leaf", "parent-not-found", "parent-has-pods"}
)
"""Violations that a watch which lags behind may have caused."""


class Metrics:
    """What is counted about webhooks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.answers = Counter(
            "pumice_admission_webhook_answers",
            "Requests to webhooks, by path and verdict (allowed, patched, denied, bad).",
            ["path", "verdict"],
            registry=registry,
        )
        self.seconds = Histogram(
            "pumice_admission_webhook_seconds",
            "Time to answer a request to a webhook, by path.",
            ["path"],
            registry=registry,
        )
        self.expiry = Gauge(
            "pumice_admission_webhook_certificate_expiry_seconds",
            "When the serving certificate ends, in seconds since 1970; 0: there is none.",
            registry=registry,
        )


class Webhooks:
    """The paths that are on, over one view of the cluster."""

    def __init__(
        self,
        world: LiveWorld,
        rules: Rules,
        paths: Collection[str],
        *,
        clock: Clock,
        metrics: Metrics,
        telemetry: Telemetry,
    ) -> None:
        self._world = world
        self._rules = rules
        self._paths = paths
        self._clock = clock
        self._metrics = metrics
        self._log = telemetry.log

    async def serve(self, host: str, port: int, context: ssl.SSLContext) -> web.AppRunner:
        """Listen and return what stops it. Raises StartupError when the port is in use."""
        app = web.Application(client_max_size=_MAX_BODY)
        app.add_routes([web.post(path, self._handler(path)) for path in self._paths])
        app.add_routes([web.get(path, _fine) for path in ("/healthz", "/readyz")])
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=3)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port, ssl_context=context).start()
        except OSError as error:
            await runner.cleanup()
            raise StartupError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        return runner

    def _handler(self, path: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(http: web.Request) -> web.Response:
            started = self._clock.monotonic()
            try:
                request = read_review(await http.read())
                verdict = await self._decide(path, request)
            except ContractError as error:
                self._metrics.answers.labels(path, "bad").inc()
                self._log.warning("a request to a webhook cannot be read: %s", error, extra={"path": path})
                return _json({"reason": error.reason, "message": str(error)}, 400)
            self._metrics.answers.labels(path, verdict.word).inc()
            self._metrics.seconds.labels(path).observe(self._clock.monotonic() - started)
            if not verdict.allowed:
                self._tell(path, request, verdict)
            return _json(answer(request, verdict), 200)

        return handle

    async def _decide(self, path: str, request: Request) -> Verdict:
        """Decide; when an old view may be all that is wrong, look at the world again."""
        queues, namespaces = names_asked_for(request)
        await self._world.learn(namespaces)
        verdict = decide(path, request, self._world, self._rules)
        if any(violation.code in _PERHAPS_OUTDATED for violation in verdict.violations):
            await self._world.look_again(queues)
            verdict = decide(path, request, self._world, self._rules)
        return verdict

    def _tell(self, path: str, request: Request, verdict: Verdict) -> None:
        codes = ", ".join(sorted({violation.code for violation in verdict.violations}))
        facts = {"path": path, "object": f"{request.namespace}/{request.name}".lstrip("/"), "codes": codes}
        self._log.info("a webhook refused a request", extra=facts)


async def _fine(_: web.Request) -> web.Response:
    """Answer probes: the server listens only once it knows the cluster and has a certificate."""
    return web.Response(text="ok\n")


def _json(content: object, status: int) -> web.Response:
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json")
