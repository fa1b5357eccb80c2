"""How each part of the control plane is started."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_REQUESTS: Final = "5000"
"""A second: the controllers are not to be slowed down by their own limits."""


def etcd_flags(folder: Path, client_port: int, peer_port: int) -> tuple[str, ...]:
    """Return the flags of etcd, whose data is in ``folder``."""
    clients, peers = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    return (
        "--name=pumice",
        f"--data-dir={folder}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=pumice={peers}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    )


def api_server_flags(pki: Path, port: int, etcd_port: int) -> tuple[str, ...]:
    """Return the flags of kube-apiserver; ``pki`` is what :func:`.certificates.make_certificates` filled."""
    return (
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # a loopback address may not be an endpoint
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--token-auth-file={pki / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        "--service-cluster-ip-range=10.96.0.0/16",
        # Simulated nodes have invented internal addresses; their one server of logs is on an external one.
        "--kubelet-preferred-address-types=ExternalIP,InternalIP,Hostname",
        "--allow-privileged=true",
        "--profiling=false",
    )


def controller_manager_flags(pki: Path, kubeconfig: Path, *, node_lifecycle: bool) -> tuple[str, ...]:
    """Return the flags of kube-controller-manager; namespaces are emptied by a part of their own."""
    off = ("namespace-controller", *(() if node_lifecycle else ("node-lifecycle-controller",)))
    return (
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={pki / 'sa.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--kube-api-qps={_REQUESTS}",
        f"--kube-api-burst={_REQUESTS}",
        f"--controllers=*,{','.join(f'-{name}' for name in off)}",
    )


def scheduler_flags(kubeconfig: Path) -> tuple[str, ...]:
    """Return the flags of kube-scheduler, with the policy that it comes with."""
    return (
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--kube-api-qps={_REQUESTS}",
        f"--kube-api-burst={_REQUESTS}",
    )
