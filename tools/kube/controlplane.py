"""One control plane on loopback: etcd, kube-apiserver and controllers, in a folder of their own."""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final

from tools.kube.certificates import make_certificates
from tools.kube.flags import api_server_flags, controller_manager_flags, etcd_flags, scheduler_flags
from tools.kube.part import Part

_POLL: Final = 0.05
_STOP_SECONDS: Final = 5.0
_GOGC: Final = "400"
"""Collect garbage later: 10 to 20 % more requests a second for some hundred megabytes."""

_KUBECONFIG: Final = """\
apiVersion: v1
kind: Config
current-context: pumice
clusters: [{{name: pumice, cluster: {{server: "{url}", certificate-authority: "{ca}"}}}}]
users: [{{name: admin, user: {{token: "{token}"}}}}]
contexts: [{{name: pumice, context: {{cluster: pumice, user: admin}}}}]
"""


class ControlPlane:
    """A control plane whose data is in ``folder``, from the program of :func:`.program.build_program`.

    It has RBAC, service accounts and the default admission plugins. etcd does not sync its files: data
    survives a killed process, not a machine that loses power. Without ``node_lifecycle`` nobody watches
    whether nodes are alive, as suits simulated nodes without leases. ``api_flags`` and ``controller_flags``
    are added to those of kube-apiserver and kube-controller-manager. With ``scheduler`` there is a
    kube-scheduler, too, for pods that name no other.
    """

    def __init__(
        self,
        folder: Path,
        *,
        program: Path,
        port: int = 0,
        node_lifecycle: bool = True,
        api_flags: Sequence[str] = (),
        controller_flags: Sequence[str] = (),
        scheduler: bool = False,
    ) -> None:
        self.folder = folder
        etcd_port, peer_port, free = _free_ports(3)
        self.port = port or free
        self._program = str(program)
        self._pki = folder / "pki"
        self.etcd = self._part("etcd", *etcd_flags(folder / "etcd", etcd_port, peer_port))
        self.api_server = self._part(
            "kube-apiserver", *api_server_flags(self._pki, self.port, etcd_port), *api_flags
        )
        """Tests of outages stop, kill and start it; see :meth:`start_api_server`."""
        self.controllers = self._part(
            "kube-controller-manager",
            *controller_manager_flags(self._pki, self.kubeconfig, node_lifecycle=node_lifecycle),
            *controller_flags,
        )
        self.namespaces = self._part("namespaces", f"--kubeconfig={self.kubeconfig}")
        self.scheduler = (
            self._part("kube-scheduler", *scheduler_flags(self.kubeconfig)) if scheduler else None
        )

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of an administrator; it is there when :meth:`start` returns."""
        return self.folder / "kubeconfig"

    @property
    def running(self) -> bool:
        """Whether all parts are there."""
        return all(part.running for part in self._parts)

    def start(self, timeout: float = 60.0) -> None:
        """Start what does not run; return when pods can be created. Raises RuntimeError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_certificates(self._pki)
        self._write_kubeconfig()
        if not self.etcd.running:
            self.etcd.start()
        self.start_api_server(timeout)
        for part in self._parts[2:]:
            if not part.running:
                part.start()
        # The controllers are at work when they have made the account that every pod needs.
        self._until(
            self.controllers, lambda: self._get("/api/v1/namespaces/default/serviceaccounts/default"), timeout
        )

    def start_api_server(self, timeout: float = 60.0) -> None:
        """Start the API server if it does not run; return when it is ready. Raises RuntimeError."""
        if not self.api_server.running:
            self.api_server.start()
        self._until(self.api_server, lambda: self._get("/readyz"), timeout)

    def stop(self) -> None:
        """Stop all, the last started first; kill what takes long."""
        for part in reversed(self._parts):
            part.stop(_STOP_SECONDS)

    def kill(self) -> None:
        """Kill -9 all: what is in a folder that nobody needs any more."""
        for part in reversed(self._parts):
            part.kill()

    def wait(self) -> str:
        """Wait until a part ends; returns its name."""
        while True:
            for part in self._parts:
                if not part.running:
                    return part.name
            time.sleep(_POLL)

    @property
    def _parts(self) -> tuple[Part, ...]:
        parts = (self.etcd, self.api_server, self.controllers, self.namespaces)
        return parts if self.scheduler is None else (*parts, self.scheduler)

    def _part(self, name: str, *flags: str) -> Part:
        env = {"GOGC": os.environ.get("GOGC", _GOGC), "CONTROLPLANE_WITH_PARENT": "1"}
        return Part(name, (self._program, name, *flags), self.folder, env)

    def _write_kubeconfig(self) -> None:
        token = (self._pki / "token").read_text()
        text = _KUBECONFIG.format(url=self.url, ca=self._pki / "ca.crt", token=token)
        partial = self.folder / "kubeconfig.partial"
        partial.touch(mode=0o600)
        partial.write_text(text)
        partial.replace(self.kubeconfig)

    def _until(self, part: Part, condition: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            ended = next((one for one in (self.etcd, part) if one.has_ended), None)
            if ended is not None or time.monotonic() > deadline:
                failed = ended or part
                self.kill()
                raise RuntimeError(f"{failed.name} did not start:\n{failed.log_tail}")
            time.sleep(_POLL)

    def _get(self, path: str) -> bool:
        """Say whether a GET is answered well."""
        headers = {"Authorization": f"Bearer {(self._pki / 'token').read_text()}"}
        trust = ssl.create_default_context(cafile=str(self._pki / "ca.crt"))
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=2, context=trust)
        try:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, all of them different."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]
