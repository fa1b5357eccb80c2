"""A real Kubernetes control plane on this machine, without containers: for playing and for tests.

``python -m tools.kube up`` runs one in the foreground: etcd, kube-apiserver and kube-controller-manager.
There is no kube-scheduler (Pumice is here for that) and no kubelet (``python -m simulator.kubelet``
simulates nodes). Needs Go once, to build them from their modules into the cache. ``build vcctl`` builds
Volcano's command line the same way.
"""

from tools.kube.controlplane import ControlPlane
from tools.kube.program import Missing, build_program

__all__ = ["ControlPlane", "Missing", "build_program"]
