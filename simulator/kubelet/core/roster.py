"""The pods on the simulated nodes and what is to be written about each. Pure: the shell does the writing.

The flow of one pod: :meth:`Roster.see` takes it over (or rejects it), :meth:`Roster.work` carries it along
when it is due, :meth:`PodEntry.next_write` says what the API server does not know yet, and
:meth:`Roster.drop` forgets it when the API server has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from shared.api.pods import PodSpec
from shared.api.podspec import pod_requests
from shared.kube.port import JSON
from simulator.kubelet.core.addresses import PodAddresses
from simulator.kubelet.core.admission import NodeLedger, Rejection, check_placement
from simulator.kubelet.core.agenda import Agenda
from simulator.kubelet.core.nodes import NodeSpec, host_ip
from simulator.kubelet.core.pod import PodRun
from simulator.kubelet.core.status import pod_status, rejected_status
from simulator.kubelet.core.takeover import is_terminal, pod_run, was_admitted

STOP_SECONDS: Final = "pumice.dev/sim-stop-seconds"
"""Annotation of a pod: seconds its containers take to end after SIGTERM, instead of the kubelets' option."""
_DEFAULT_GRACE: Final = 30.0
_VISIBLE_DELAY: Final = 1.0
_UNWRITTEN: Final = -1


class Write(NamedTuple):
    """What the API server is to be told about a pod. ``removes``: then the pod itself goes."""

    status: JSON | None
    revision: int
    removes: bool


@dataclass(slots=True)
class _Node:
    spec: NodeSpec
    address: str
    ledger: NodeLedger
    is_stopped: bool = False
    missed: dict[str, JSON] = field(default_factory=dict[str, JSON])
    """Pods seen while it was stopped."""


@dataclass(slots=True)
class PodEntry:
    """A pod on one of our nodes. ``run`` is None for one that was rejected or had ended before."""

    namespace: str
    name: str
    uid: str
    node: _Node
    run: PodRun | None = None
    rejection: JSON | None = None
    address: str = ""
    stop_seconds: float = 0.0
    is_scheduled: bool = False
    is_first: bool = True
    is_deleted: bool = False
    is_gone: bool = False
    """Nothing more is to be written: it was removed, or the API server refused."""
    written: int = 0

    @property
    def has_news(self) -> bool:
        """Whether something is to be written: not when the API server knows all, or the node is silent."""
        if self.is_gone or self.node.is_stopped:
            return False
        if self.run is None:
            return self.is_deleted or self.rejection is not None
        return self.run.revision != self.written or (self.is_deleted and self.run.ended is not None)

    def next_write(self) -> Write | None:
        """Return what is to be written now, None without news."""
        if not self.has_news:
            return None
        run = self.run
        if run is None:
            return Write(self.rejection, 0, self.is_deleted)
        removes = self.is_deleted and run.ended is not None
        if run.revision == self.written:
            return Write(None, run.revision, removes)
        address = self.node.address
        status = pod_status(
            run, self.uid, address, self.address, is_scheduled=self.is_scheduled, is_first=self.is_first
        )
        return Write(status, run.revision, removes)

    def note_written(self, write: Write) -> None:
        """Note that a status is at the API server."""
        self.rejection = None
        self.written, self.is_first = write.revision, False


class Roster:
    """All pods of all simulated nodes.

    ``start_delay`` gives the seconds before a new pod's containers start, ``stop_seconds`` is how long they
    take to end after SIGTERM.
    """

    def __init__(
        self, nodes: Sequence[NodeSpec], *, start_delay: Callable[[], float], stop_seconds: float
    ) -> None:
        self.pods: dict[str, PodEntry] = {}
        self._nodes = {
            spec.name: _Node(spec, host_ip(index), NodeLedger(spec.amounts))
            for index, spec in enumerate(nodes)
        }
        self._start_delay = start_delay
        self._stop_seconds = stop_seconds
        self._addresses = PodAddresses()
        self._agenda = Agenda()

    def is_ours(self, pod: JSON) -> bool:
        """Say whether a pod is bound to one of the simulated nodes."""
        return pod["spec"].get("nodeName") in self._nodes

    def see(self, obj: JSON, now: datetime) -> PodEntry | None:
        """Take note of a pod that is new or has changed."""
        metadata, node = obj["metadata"], self._nodes[obj["spec"]["nodeName"]]
        pod = self.pods.get(metadata["uid"])
        if node.is_stopped:
            node.missed[metadata["uid"]] = obj
            return None
        if pod is None:
            pod = self.pods[metadata["uid"]] = self._take_over(obj, node, now)
        if "deletionTimestamp" in metadata and not pod.is_deleted:
            pod.is_deleted = True
            grace = float(metadata.get("deletionGracePeriodSeconds", _DEFAULT_GRACE))
            if pod.run is not None:
                pod.run.order_stop(now, grace, pod.stop_seconds)
        self._advance(pod, now)
        return pod

    def drop(self, obj: JSON) -> None:
        """Forget a pod that is gone from the API server."""
        uid = obj["metadata"]["uid"]
        self._nodes[obj["spec"]["nodeName"]].missed.pop(uid, None)
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        pod.is_gone = True
        self._agenda.set(uid, None)
        pod.node.ledger.release(uid)
        if pod.address and pod.address != pod.node.address:
            self._addresses.free(pod.address)

    def work(self, now: datetime) -> list[PodEntry]:
        """Carry along what is due, and return it."""
        due = [self.pods[uid] for uid in self._agenda.pop_due(now)]
        working = [pod for pod in due if not pod.node.is_stopped]
        for pod in working:
            self._advance(pod, now)
        return working

    def next_time(self) -> datetime | None:
        """Return when something is due next."""
        return self._agenda.next_time()

    def stop_node(self, name: str) -> None:
        """Make a node silent. Raises KeyError."""
        self._nodes[name].is_stopped = True

    def start_node(self, name: str, now: datetime) -> list[PodEntry]:
        """Bring a silent node back, and return its pods. Raises KeyError."""
        node = self._nodes[name]
        node.is_stopped = False
        missed, node.missed = node.missed, {}
        for obj in missed.values():
            self.see(obj, now)
        ours = [pod for pod in self.pods.values() if pod.node is node]
        for pod in ours:
            self._advance(pod, now)
        return ours

    def _take_over(self, obj: JSON, node: _Node, now: datetime) -> PodEntry:
        metadata = obj["metadata"]
        conditions = (obj.get("status") or {}).get("conditions") or ()
        pod = PodEntry(metadata["namespace"], metadata["name"], metadata["uid"], node)
        pod.is_scheduled = any(one["type"] == "PodScheduled" for one in conditions)
        pod.stop_seconds = _stop_seconds(metadata, self._stop_seconds)
        if is_terminal(obj):
            return pod
        admitted = was_admitted(obj)
        requests = pod_requests(PodSpec.model_validate(obj["spec"]))
        rejection = None if admitted else _check(obj, node, requests)
        if rejection is not None:
            pod.rejection = rejected_status(rejection.reason, rejection.message, now)
            return pod
        node.ledger.hold(pod.uid, requests)
        delay = 0.0 if admitted else self._start_delay()
        pod.run = pod_run(obj, now, delay)
        pod.is_first = not admitted
        # A long wait for the containers is worth a status of its own.
        pod.written = _UNWRITTEN if delay >= _VISIBLE_DELAY else pod.run.revision
        pod.address = self._address(obj, node)
        return pod

    def _address(self, obj: JSON, node: _Node) -> str:
        if obj["spec"].get("hostNetwork"):
            return node.address
        address = (obj.get("status") or {}).get("podIP")
        if not address:
            return self._addresses.take()
        self._addresses.keep(address)
        return str(address)

    def _advance(self, pod: PodEntry, now: datetime) -> None:
        if pod.run is not None:
            self._agenda.set(pod.uid, pod.run.advance(now))
            if pod.run.ended is not None:
                pod.node.ledger.release(pod.uid)


def _check(obj: JSON, node: _Node, requests: dict[str, int]) -> Rejection | None:
    spec = node.spec
    return node.ledger.check(requests) or check_placement(
        obj["spec"], spec.name, spec.all_labels, spec.taints
    )


def _stop_seconds(metadata: JSON, default: float) -> float:
    text = (metadata.get("annotations") or {}).get(STOP_SECONDS)
    try:
        return max(0.0, float(text)) if text is not None else default
    except ValueError:
        return default
