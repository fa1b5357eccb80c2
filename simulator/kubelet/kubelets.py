"""The kubelets of all simulated nodes in one: one watch, one timer, a few writers.

Cost per pod: one patch when it runs and one when it has ended (one in all if it ends at once), and one
DELETE when somebody asked for its end. Nothing is kept outside the API server: a new run takes the pods over
from their statuses.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from shared.api.resources import PODS
from shared.clock import Alarm, Clock
from shared.errors import Conflict, NotFound, Refused, Unavailable
from shared.kube.informer import Informer
from shared.kube.port import JSON, Cluster, Patch
from shared.service import Ids
from simulator.kubelet.core.nodes import Endpoint, NodeSpec
from simulator.kubelet.core.roster import PodEntry, Roster
from simulator.kubelet.core.takeover import was_admitted
from simulator.kubelet.heartbeat import Heartbeat
from simulator.kubelet.registration import Registration

_log = logging.getLogger(__name__)

_IDENTITY: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_NEEDLESS: Final = frozenset({"managedFields", "ownerReferences", "volumes", "topologySpreadConstraints"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletOptions:
    """How simulated kubelets behave."""

    start_seconds: float = 0.0
    """From the sight of a bound pod to the start of its first container (images, volumes)."""
    start_jitter_seconds: float = 0.0
    """At most so much is added to ``start_seconds``, at random."""
    stop_seconds: float = 0.0
    """How long a container takes to end after SIGTERM; longer than its grace, it is killed (exit 137)."""
    writers: int = 32
    """Writes in flight at once."""
    retry_seconds: float = 1.0
    """Wait before a write is tried again while the API server is away."""
    lease_seconds: float | None = None
    """Renew each node's Lease so often and watch the nodes: one that is taken for lost is said to be ready,
    one that is removed is silent. None (never) suits clusters without a node lifecycle controller."""


class Kubelets:
    """Registers the nodes and runs what is bound to them, until cancelled."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        ids: Ids,
        nodes: Sequence[NodeSpec],
        *,
        options: KubeletOptions | None = None,
        rng: random.Random | None = None,
        endpoint: Endpoint | None = None,
    ) -> None:
        """``endpoint`` is where the nodes say that their kubelet's server is; see :mod:`.server`."""
        self._cluster = cluster
        self._clock = clock
        self._options = options or KubeletOptions()
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self._registration = Registration(
            cluster, clock, ids, nodes, self._options.writers, endpoint=endpoint
        )
        self._roster = Roster(nodes, start_delay=self._start_delay, stop_seconds=self._options.stop_seconds)
        self._changes: deque[tuple[JSON | None, JSON | None]] = deque()
        self._wake = asyncio.Event()
        self._alarm = Alarm(clock, self._wake)
        self._ready = asyncio.Event()
        self._writes: asyncio.Queue[PodEntry] = asyncio.Queue()
        self._in_hand: set[str] = set()
        """UIDs of the pods that are queued or being written: one write of a pod at a time."""
        self._informer = Informer(
            cluster,
            PODS,
            clock=clock,
            fields="spec.nodeName!=",
            transform=self._trim,
            on_change=self._note,
            rng=self._rng,
        )

    async def run(self) -> None:
        """Run until cancelled. Waits while the API server is away."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow())
                if self._options.lease_seconds is not None:
                    tasks.create_task(self._live(self._options.lease_seconds))
                for _ in range(self._options.writers):
                    tasks.create_task(self._write_for_ever())
        finally:
            self._alarm.stop()

    async def ready(self) -> None:
        """Return once all nodes are registered and the pods on them are taken over."""
        await self._ready.wait()

    async def stop_node(self, name: str) -> None:
        """Take a node away, as if its power failed: it becomes NotReady and does nothing more.

        Its pods stay as they are; to end or delete them is the control plane's business. Raises KeyError.
        """
        self._roster.stop_node(name)
        await self._registration.mark_lost(name)

    async def start_node(self, name: str) -> None:
        """Bring a stopped node back; its containers ran on meanwhile, as after a network failure."""
        await self._registration.mark_ready(name)
        self._queue(self._roster.start_node(name, self._clock.now()))
        self._wake.set()

    def _start_delay(self) -> float:
        return self._options.start_seconds + self._rng.random() * self._options.start_jitter_seconds

    def _trim(self, pod: JSON) -> JSON:
        """Keep what is needed, of a pod that is taken over its identity: 100,000 must fit into memory."""
        metadata, spec = pod["metadata"], pod["spec"]
        if metadata["uid"] not in self._roster.pods and self._roster.is_ours(pod):
            return {
                "metadata": {key: part for key, part in metadata.items() if key not in _NEEDLESS},
                "spec": {key: part for key, part in spec.items() if key not in _NEEDLESS},
                "status": pod.get("status") or {},
            }
        kept = {key: metadata[key] for key in _IDENTITY if key in metadata}
        return {"metadata": kept, "spec": {"nodeName": spec.get("nodeName")}}

    def _note(self, old: JSON | None, new: JSON | None) -> None:
        if self._roster.is_ours(new or old or {}):
            self._changes.append((old, new))
            self._wake.set()

    async def _live(self, lease_seconds: float) -> None:
        await self._ready.wait()
        heartbeat = Heartbeat(
            self._cluster,
            self._clock,
            self._registration,
            lease_seconds,
            on_removed=self._roster.stop_node,
        )
        await heartbeat.run()

    async def _follow(self) -> None:
        """Register the nodes, then take over what the watch shows and do what is due."""
        await self._registration.register_all()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            await self._informer.synced()
            self._changes = deque(sorted(self._changes, key=_order_after_start))
            while True:
                self._wake.clear()
                self._take_changes()
                self._queue(self._roster.work(self._clock.now()))
                self._ready.set()
                await self._until_due()

    def _take_changes(self) -> None:
        while self._changes:
            old, new = self._changes.popleft()
            if new is not None:
                pod = self._roster.see(new, self._clock.now())
                self._queue([pod] if pod is not None else [])
            elif old is not None:
                self._roster.drop(old)

    async def _until_due(self) -> None:
        """Return when something is due or has changed."""
        due = self._roster.next_time()
        if due is not None:
            self._alarm.ring_in((due - self._clock.now()).total_seconds())
        await self._wake.wait()

    def _queue(self, pods: Iterable[PodEntry]) -> None:
        for pod in pods:
            if pod.uid not in self._in_hand and pod.has_news:
                self._in_hand.add(pod.uid)
                self._writes.put_nowait(pod)

    async def _write_for_ever(self) -> None:
        while True:
            pod = await self._writes.get()
            try:
                await self._write(pod)
            except (NotFound, Conflict):
                pod.is_gone = True  # or another of its name is there; the watch will say so
            except Unavailable as error:
                _log.debug("status of pod %s/%s waits: %s", pod.namespace, pod.name, error)
                await self._clock.sleep(self._options.retry_seconds)
            except Refused as error:
                pod.is_gone = True
                _log.error("status of pod %s/%s was refused: %s", pod.namespace, pod.name, error)
            finally:
                self._in_hand.discard(pod.uid)
            self._queue([pod])

    async def _write(self, pod: PodEntry) -> None:
        write = pod.next_write()
        if write is None:
            return
        if write.status is not None:
            body: JSON = {"metadata": {"uid": pod.uid}, "status": write.status}
            await self._cluster.patch(
                PODS, pod.namespace, pod.name, body, kind=Patch.STRATEGIC, subresource="status"
            )
        pod.note_written(write)
        if write.removes:
            await self._cluster.delete(PODS, pod.namespace, pod.name, uid=pod.uid, grace_seconds=0)
            pod.is_gone = True


def _order_after_start(change: tuple[JSON | None, JSON | None]) -> tuple[bool, str, str]:
    """Order what the first list shows as the real kubelet does: admitted pods first, then the oldest."""
    pod = change[1] or {"metadata": {}}
    metadata = pod["metadata"]
    return not was_admitted(pod), metadata.get("creationTimestamp", ""), metadata.get("name", "")
