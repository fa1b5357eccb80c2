"""Simulated nodes and kubelets: they make pods that are bound to them start, run and end.

They work against any API server through the ``Cluster`` port, the simulator's or a real kube-apiserver,
and never start a process: what a container does is read from its command (:mod:`.core.shell`) or from
annotations on its pod (:mod:`.core.program`).
"""

from simulator.kubelet.core.nodes import NodeSpec, parse_nodes
from simulator.kubelet.kubelets import KubeletOptions, Kubelets

__all__ = ["KubeletOptions", "Kubelets", "NodeSpec", "parse_nodes"]
