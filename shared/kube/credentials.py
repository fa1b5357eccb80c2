"""Where the API server is and how to prove who we are: kubeconfig or the pod's service account.

kubernetes_asyncio reads them (tokens, token files, client certificates, basic auth, exec plugins, OIDC);
this module turns its findings into a base URL, an ``ssl`` context and an Authorization header, and reads
them again when they may have changed.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from shared.clock import Clock
from shared.errors import ConfigurationError, Unavailable
from shared.kube._library import (
    ConfigException,
    Configuration,
    InClusterConfigLoader,
    KubeConfigLoader,
    KubeConfigMerger,
)

REFRESH_SECONDS: Final = 60.0
"""How long a token read from a file or a plugin is used before it is looked at again (client-go's period)."""

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Credentials:
    """One API server's address and our identity there.

    ``kubeconfig`` may name several files, joined by ``os.pathsep``, or be a file's content; None takes the
    service account of the pod. Raises ConfigurationError, in one line, when either cannot be used.
    """

    def __init__(
        self, kubeconfig: str | Mapping[str, Any] | None, *, clock: Clock, context: str | None = None
    ) -> None:
        self._clock = clock
        self._configuration = Configuration()
        self._name = kubeconfig if isinstance(kubeconfig, str) else "(given)"
        self._loader: Any = None
        self._read_at: float | None = None
        self._tls: ssl.SSLContext | None = None
        if kubeconfig is None:
            _load_service_account(self._configuration)
        else:
            self._loader = _read_kubeconfig(kubeconfig, context)

    async def load(self) -> None:
        """Run what may take time (exec plugins, token refresh). Call once before the properties are read."""
        now = self._clock.monotonic()
        if self._loader is None or (self._read_at is not None and not self._is_stale(now)):
            return
        try:
            await self._loader.load_and_set(self._configuration)
        except FileNotFoundError as error:
            raise ConfigurationError(f"kubeconfig {self._name}: {error}") from error
        except ConfigException as error:
            wrong = ConfigurationError if self._read_at is None and "exec" not in str(error) else Unavailable
            raise wrong(f"kubeconfig {self._name}: {error}") from error
        self._read_at = now
        if self._tls is not None:
            self._present_certificate(self._tls)

    def expire(self) -> None:
        """Read the credentials again before the next request: the server did not accept them."""
        if self._loader is not None:
            self._read_at = None
            if hasattr(self._loader, "exec_plugin_expiry"):
                del self._loader.exec_plugin_expiry

    def _is_stale(self, now: float) -> bool:
        """Tokens of files and providers age; an exec plugin's has its own expiry or lasts until refused."""
        user = getattr(self._loader, "_user", None)
        keys = () if user is None else user.value
        ages = "tokenFile" in keys or "auth-provider" in keys or hasattr(self._loader, "exec_plugin_expiry")
        return ages and self._read_at is not None and now - self._read_at >= REFRESH_SECONDS

    async def authorization(self) -> str | None:
        """Return the Authorization header's value, or None for client certificates and anonymous access."""
        await self.load()
        settings = await self._configuration.auth_settings()
        bearer = settings.get("BearerToken")
        return str(bearer["value"]).strip() if bearer else None

    @property
    def server(self) -> str:
        """The base URL, without a slash at its end."""
        return str(self._configuration.host).rstrip("/")

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine, so that no proxy of the environment applies (as in Go)."""
        host = urlsplit(self.server).hostname or ""
        return host in ("localhost", "::1") or host.startswith("127.")

    @property
    def proxy(self) -> str | None:
        """The kubeconfig's ``proxy-url``."""
        return self._configuration.proxy

    @property
    def server_hostname(self) -> str | None:
        """The kubeconfig's ``tls-server-name``."""
        return self._configuration.tls_server_name

    def tls(self) -> ssl.SSLContext | bool:
        """Return the TLS settings for aiohttp: a context, or True for plain HTTP."""
        if not self.server.startswith("https"):
            return True
        if self._tls is None:
            try:
                context = ssl.create_default_context(cafile=self._configuration.ssl_ca_cert)
            except (OSError, ssl.SSLError) as error:
                raise ConfigurationError(f"certificate authority of {self.server}: {error}") from error
            # Kubernetes' own tools sign CAs that OpenSSL's strict mode (Python 3.13) refuses; Go does not.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            if not self._configuration.verify_ssl:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            self._present_certificate(context)
            self._tls = context
        return self._tls

    def _present_certificate(self, context: ssl.SSLContext) -> None:
        if not self._configuration.cert_file:
            return
        try:
            context.load_cert_chain(self._configuration.cert_file, keyfile=self._configuration.key_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"client certificate for {self.server}: {error}") from error


def _load_service_account(configuration: Configuration) -> None:
    loader = InClusterConfigLoader(
        token_filename=str(_ACCOUNT / "token"), cert_filename=str(_ACCOUNT / "ca.crt"), environ=os.environ
    )
    try:
        loader.load_and_set(configuration)
    except ConfigException as error:
        raise ConfigurationError(f"no kubeconfig given and not in a pod: {error}") from error


def _read_kubeconfig(kubeconfig: str | Mapping[str, Any], context: str | None) -> Any:
    if not isinstance(kubeconfig, str):
        return KubeConfigLoader(dict(kubeconfig), active_context=context, config_base_path="")
    paths = [Path(part).expanduser() for part in kubeconfig.split(os.pathsep) if part]
    if not any(path.is_file() for path in paths):
        raise ConfigurationError(f"kubeconfig {kubeconfig}: no such file")
    try:
        merged = KubeConfigMerger(kubeconfig)
        return KubeConfigLoader(merged.config, active_context=context, config_base_path=None)
    except ConfigException as error:
        raise ConfigurationError(f"kubeconfig {kubeconfig}: {error}") from error
    except (OSError, yaml.YAMLError, AttributeError, TypeError, KeyError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigurationError(f"kubeconfig {kubeconfig}: not a kubeconfig: {first}") from error
