"""The observer: what exists in the cluster, as facts on ``cluster-state``.

A change marks its object; marks are worked off in bursts: each object's fact is made from the informers'
stores, and published when it differs from the last one published under its key. An object that is gone,
or a pod that has ended, leaves a tombstone. A pod that held room and is gone again, or has left its name to
another, before the next burst is told as ended: the scheduler counts it until it hears of it. What cannot be
read, or is too large for a record, is left out and said once; a PodGroup whose gang is too large is told
without it.

On start the topic's own content is what counts as published: what was deleted while nobody looked gets its
tombstone, and a lost topic is filled anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from typing import Final

from prometheus_client import Counter

from services.controller.adapters.numa import NumaViews
from services.controller.adapters.plain import PlainGangs
from services.controller.adapters.publisher import SOURCE
from services.controller.adapters.recorder import Recorder
from services.controller.adapters.views import Views, job_key
from services.controller.core import facts
from services.controller.core.budgets import budget_state
from services.controller.core.devices import device_ids, node_devices, read_devices
from services.controller.core.holding import words
from services.controller.core.model import JSON
from services.controller.core.podview import PodView
from shared.api import resources as r
from shared.api.podspec import pod_requests
from shared.clock import Clock
from shared.errors import ContractError, TooLarge, Unavailable
from shared.events import topics
from shared.events.codec import data_of, encode, encode_data
from shared.events.contracts import Contract, Gang, PodState
from shared.events.envelope import Envelope
from shared.kube.port import Resource
from shared.log.port import Delivery, EventLog, Record
from shared.log.sending import send_what_fits
from shared.telemetry.spans import hashed_id
from shared.telemetry.telemetry import Telemetry

KINDS: Final = {
    r.NODES: "node",
    r.PODS: "pod",
    r.QUEUES: "queue",
    r.PODGROUPS: "podgroup",
    r.PRIORITYCLASSES: "priorityclass",
    r.HYPERNODES: "hypernode",
    r.PDBS: "poddisruptionbudget",
    r.CONFIGMAPS: "policy",
    r.JOBS: "job",
}
_RESOURCES: Final = {kind: resource for resource, kind in KINDS.items()}
_GLANCE_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 0.5
_ENDED: Final = ("Succeeded", "Failed")
Ref = tuple[Resource, str, str]
"""A kind, a namespace (empty for none) and a name."""


class Observer:
    """Publishes facts, in order for each key, in batches."""

    def __init__(
        self,
        views: Views,
        log: EventLog,
        *,
        gangs: PlainGangs,
        clock: Clock,
        schedulers: frozenset[str],
        policy_key: str,
        debounce: float,
        telemetry: Telemetry,
        recorder: Recorder,
    ) -> None:
        self._views = views
        self._gangs = gangs
        self._log = log
        self._clock = clock
        self._schedulers = schedulers
        self._policy_key = policy_key
        self._debounce = debounce
        self._telemetry = telemetry
        self._recorder = recorder
        self._shapes = gangs.shapes
        self._numa = NumaViews(views)
        self._published: dict[bytes, bytes] = {}
        """A digest of the last fact under each key."""
        self._marked: dict[Ref, dict[str, JSON]] = {}
        """What may have changed; of pods, by UID, how each of that name was when it last held room."""
        self._held: set[Ref] = set()
        """Pods whose end is not told yet."""
        self._sending: dict[tuple[str, str], Gang] = {}
        """The gangs in the facts that are being published."""
        self._refused: dict[tuple[str, str], tuple[Gang, TooLarge]] = {}
        """Gangs that are too large for a record, by PodGroup."""
        self.on_refusal: Callable[[str, str], None] = lambda _namespace, _name: None
        """Called with the PodGroup of a gang that was found too large."""
        self._problems: dict[Ref, str] = {}
        """Why an object has no fact, as it was said."""
        self._left_out_of_nodes: dict[tuple[str, str], str] = {}
        """By node and what is not told of it: why, as it was said."""
        views.label_keys.on_growth = self._labels_count
        self._wake = asyncio.Event()
        self._publishing = asyncio.Lock()
        told: Final = Counter(
            "pumice_controller_facts",
            "Facts published on cluster-state, by kind and whether the object exists or is gone.",
            ["kind", "what"],
            registry=telemetry.registry,
        )
        self._facts = cache(told.labels)
        self._left_out: Final = Counter(
            "pumice_controller_left_out_objects",
            "Objects found to be left out of cluster-state, by kind and why (unreadable, too-large).",
            ["kind", "why"],
            registry=telemetry.registry,
        )

    def touch(self, resource: Resource, namespace: str, name: str) -> None:
        """Note that an object's fact may have changed."""
        if resource in KINDS:
            seen = self._marked.setdefault((resource, namespace, name), {})
            raw = self._views.get(r.PODS, namespace, name) if resource is r.PODS else None
            if raw is not None and _holds_room(raw):
                seen[raw["metadata"]["uid"]] = raw
            self._wake.set()

    def changed(self, resource: Resource, old: JSON | None, new: JSON | None) -> None:
        """Note that an object is another, and what else is told by it."""
        obj = new or old
        if obj is None:
            return
        if resource is r.PDBS:
            self.budget_changed(old, new)
        elif resource is r.NODES:
            self._node_changed(old, new)
        for ref in self._numa.changed(resource, old, new):
            self.touch(*ref)
        self.touch(resource, obj["metadata"].get("namespace") or "", obj["metadata"]["name"])

    def _labels_count(self) -> None:
        """Tell anew of all pods and gangs: placing depends on more of their labels than before."""
        for resource in (r.PODS, r.PODGROUPS):
            for namespace, name in self._views.store(resource):
                self.touch(resource, namespace, name)

    def account(self, namespace: str, pod: str) -> None:
        """Have it told that a pod which a decision bound has ended, also when nobody saw it hold room."""
        raw = self._views.get(r.PODS, namespace, pod)
        if raw is not None and _phase(raw) in _ENDED:
            self._marked.setdefault((r.PODS, namespace, pod), {})[raw["metadata"]["uid"]] = raw
            self._wake.set()

    def budget_changed(self, old: JSON | None, new: JSON | None) -> None:
        """Tell anew of the pods that another budget may protect now."""
        if not self._views.budgets.changed(old, new):
            return
        own = ((new or old) or {})["metadata"]["namespace"]
        for namespace, name in self._views.store(r.PODS):
            if namespace == own:
                self.touch(r.PODS, namespace, name)

    def _node_changed(self, old: JSON | None, new: JSON | None) -> None:
        """Tell anew of the pods on a node whose GPUs are others, or in another order: theirs have numbers."""
        node = new or old
        if node is None or (old and device_ids(old)) == (new and device_ids(new)):
            return
        for pod in self._views.pods_with_devices(node["metadata"]["name"]):
            self.touch(r.PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])

    def hold(self, namespace: str, pod: str) -> None:
        """Keep a pod's fact although the pod is gone: a crash before :meth:`release` finds it vanished."""
        self._held.add((r.PODS, namespace, pod))

    def release(self, namespace: str, pod: str) -> None:
        """Let a pod's end be told."""
        self._held.discard((r.PODS, namespace, pod))
        self.touch(r.PODS, namespace, pod)

    def refuse(self, gang: Gang, error: TooLarge) -> None:
        """Note that a gang is too large for a record: as long as it is, its PodGroup is told without it."""
        namespace, name = gang.namespace, gang.name
        self._refused[namespace, name] = (gang, error)
        self.touch(r.PODGROUPS, namespace, name)
        self.on_refusal(namespace, name)

    def refusal_of(self, gang: Gang) -> TooLarge | None:
        """Return what the log said of a gang that is too large for a record; None of any other."""
        known = self._refused.get((gang.namespace, gang.name))
        return known[1] if known is not None and known[0] == gang else None

    async def recover(self) -> list[PodState]:
        """Read what was published, mark what differs, and return the pods that went meanwhile."""
        vanished = await self._read_topic()
        for resource in KINDS:
            for namespace, name in self._views.store(resource):
                self.touch(resource, namespace, name)
        return vanished

    async def _read_topic(self) -> list[PodState]:
        """Take over what the topic says, and return the pods on it which are no more."""
        pods: dict[bytes, PodState] = {}
        reader = await self._log.read([topics.CLUSTER_STATE])
        try:
            caught_up = False
            while not caught_up:
                for delivery in await reader.poll(timeout=_GLANCE_SECONDS):
                    self._take_over(delivery, pods)
                caught_up = await reader.caught_up()
        finally:
            await reader.close()
        for key in self._published:
            self._touch_key(key)
        return [pod for pod in pods.values() if self._views.get(r.PODS, pod.namespace, pod.name) is None]

    def _touch_key(self, key: bytes) -> None:
        try:
            kind, namespace, name = topics.parse_state_key(key)
        except ContractError:
            return  # not ours
        if kind in _RESOURCES:
            self.touch(_RESOURCES[kind], namespace, name)

    def _take_over(self, delivery: Delivery, pods: dict[bytes, PodState]) -> None:
        key = delivery.key or b""
        pods.pop(key, None)
        if delivery.value is None:
            self._published.pop(key, None)
            return
        self._published[key] = _digest(delivery.value)
        if key.startswith(b"pod/"):
            try:
                pod = data_of(delivery)
            except ContractError:
                return  # of another version: it is published anew
            if isinstance(pod, PodState):
                pods[key] = pod

    async def run(self) -> None:
        """Publish marked facts until cancelled."""
        while True:
            await self._wake.wait()
            await self._clock.sleep(self._debounce)
            try:
                await self.flush()
            except Unavailable:
                await self._clock.sleep(_RETRY_SECONDS)  # what was marked stays marked

    async def flush(self) -> None:
        """Publish all marked facts now; returns when they are durable."""
        async with self._publishing:
            while self._marked:
                self._wake.clear()
                marked, self._marked = self._marked, {}
                try:
                    await self._publish(marked)
                except BaseException:
                    later, self._marked = self._marked, marked
                    for ref, seen in later.items():
                        marked[ref] = marked.get(ref, {}) | seen
                    self._wake.set()
                    raise

    async def _publish(self, marked: dict[Ref, dict[str, JSON]]) -> None:
        records: list[Record] = []
        after: dict[bytes, bytes | None] = {}
        self._sending.clear()
        for ref, seen in marked.items():
            key = topics.state_key(KINDS[ref[0]], *ref[1:])
            told, digest = self._records(ref, key, seen)
            if told:
                records += told
                after[key] = digest
        if not records:
            return
        for number, error in (await send_what_fits(self._log.producer, records)).items():
            self._too_large(records[number].key or b"", error)
        for key, digest in after.items():
            if digest is None:
                self._published.pop(key, None)
            else:
                self._published[key] = digest
        for record in records:
            kind = topics.parse_state_key(record.key or b"//")[0]
            self._facts(kind, "gone" if record.value is None else "exists").inc()

    def _records(self, ref: Ref, key: bytes, seen: dict[str, JSON]) -> tuple[list[Record], bytes | None]:
        """Return what must be published about an object: ends of former pods, its fact, its end; or nothing.

        ``seen`` are the pods that held room since the last fact. The second value is the digest of the fact
        that stands afterwards; None for none.
        """
        resource, namespace, name = ref
        raw, known = self._views.get(*ref), self._published.get(key)
        past = [pod for uid, pod in seen.items() if raw is None or uid != raw["metadata"]["uid"]]
        if raw is None:
            self._problems.pop(ref, None)
            if resource is r.PODGROUPS:
                self._refused.pop((namespace, name), None)
            if ref in self._held:
                if not past:
                    return [], known
                raw = past.pop()
        ends = [self._fact(resource, _as_ended(pod)) for pod in past]
        told = [self._encode(key, end, encode_data(end)) for end in ends if end is not None]
        fact = None if raw is None else self._fact(resource, raw)
        gone = Record(topics.CLUSTER_STATE, key, None)
        if fact is None:
            return ([*told, gone] if told or known is not None else []), None
        value = encode_data(fact)
        if isinstance(fact, PodState) and fact.phase in _ENDED:
            untold = known is None and not seen
            return ([] if untold else [*told, self._encode(key, fact, value), gone]), None
        digest = _digest(value)
        if digest == known and not told:
            return [], known
        return [*told, self._encode(key, fact, value)], digest

    def _encode(self, key: bytes, fact: Contract, value: bytes) -> Record:
        subject = key.decode()
        envelope = Envelope(
            id=hashed_id(16, "fact", subject, _digest(value).hex()),
            source=SOURCE,
            time=self._clock.now(),
            data=fact,
            subject=subject,
            traceparent=getattr(fact, "traceparent", None),
        )
        return encode(topics.CLUSTER_STATE, key, envelope, value=value)

    def _fact(self, resource: Resource, raw: JSON) -> Contract | None:
        """Return an object's fact; None for what cannot be read or is not to be told."""
        meta = raw["metadata"]
        ref = (resource, meta.get("namespace") or "", meta["name"])
        try:
            fact = self._MAKERS[resource](self, raw)
        except (ValueError, KeyError) as error:
            if self._complain(ref, "unreadable", f"it cannot be read, and is left out: {words(error)}"):
                self._record(ref, raw)
            return None
        self._problems.pop(ref, None)
        return fact

    def _complain(self, ref: Ref, why: str, text: str) -> bool:
        """Say why an object is left out; False when that was said."""
        if self._problems.get(ref) == text:
            return False
        self._problems[ref] = text
        kind = KINDS[ref[0]]
        self._left_out.labels(kind, why).inc()
        self._telemetry.log.warning("%s %s: %s", kind, "/".join(filter(None, ref[1:])), text)
        return True

    def _record(self, ref: Ref, raw: JSON) -> None:
        """Write an event about an object that cannot be read. Pods of ours say so by their condition."""
        if ref[0] is not r.PODS:
            self._recorder.record(raw, "Unreadable", self._problems[ref], warning=True)

    def _too_large(self, key: bytes, error: TooLarge) -> None:
        """Deal with a fact that is too large: a gang is left out of its PodGroup's, another is not told."""
        kind, namespace, name = topics.parse_state_key(key)
        self._complain((_RESOURCES[kind], namespace, name), "too-large", str(error))
        gang = self._sending.get((namespace, name)) if kind == KINDS[r.PODGROUPS] else None
        if gang is not None:
            self.refuse(gang, error)

    def _node(self, raw: JSON) -> Contract:
        name, problem = raw["metadata"]["name"], ""
        try:
            read_devices(raw)
        except ValueError as error:
            problem = str(error)
        self._leave_out(name, "GPUs", problem)
        self._leave_out(name, "NUMA nodes", self._numa.problem(name))
        return facts.node_state(
            raw,
            *self._views.storage.of_node(raw),
            numa=self._numa.of_node(name),
            claimable=self._views.devices.of_node(name),
        )

    def _leave_out(self, node: str, what: str, problem: str) -> None:
        """Say, once, why something is not told of a node; no problem: it is told."""
        if not problem:
            self._left_out_of_nodes.pop((node, what), None)
        elif self._left_out_of_nodes.get((node, what)) != problem:
            self._left_out_of_nodes[node, what] = problem
            self._telemetry.log.warning("node %s: its %s are left out: %s", node, what, problem)

    def _queue(self, raw: JSON) -> Contract:
        return facts.queue_state(raw)

    def _priority_class(self, raw: JSON) -> Contract:
        return facts.priority_class_state(raw)

    def _hypernode(self, raw: JSON) -> Contract:
        return facts.hypernode_state(raw)

    def _policy(self, raw: JSON) -> Contract | None:
        return facts.policy_state(raw, self._policy_key)

    def _budget(self, raw: JSON) -> Contract:
        return budget_state(raw)

    def _pod(self, raw: JSON) -> Contract:
        shape = self._shapes.completed(raw, self._views.priorities)
        meta = raw["metadata"]
        budgets = self._views.budgets.of(meta["namespace"], meta.get("labels") or {})
        node = (raw.get("spec") or {}).get("nodeName") if shape.devices else None
        on = self._views.get(r.NODES, "", node) if node else None
        devices = () if on is None else node_devices(on)
        numa = self._numa.of_pod(raw) if shape.numa is not None else ()
        return facts.pod_state(
            raw, shape, self._schedulers, self._gangs.membership(raw), budgets, devices, numa
        )

    def _podgroup(self, raw: JSON) -> Contract:
        meta = raw["metadata"]
        key = self._views.job_of_group(raw)
        gang = self._views.gang(key) if key else self._gangs.of(meta["namespace"], meta["name"])
        own = gang if gang and gang.uid == meta["uid"] else None
        if own is not None and self.refusal_of(own) is not None:
            own = None
        elif own is not None:
            self._refused.pop((own.namespace, own.name), None)
            self._sending[own.namespace, own.name] = own
        return facts.podgroup_state(raw, own, meta.get("annotations") or {})

    def _job(self, raw: JSON) -> Contract | None:
        entry = self._views.job(job_key(raw["metadata"]["namespace"], raw["metadata"]["name"]))
        if entry is None or entry.wanted is None:
            return None
        total: dict[str, int] = {}
        for task in entry.wanted.tasks:
            for name, amount in pod_requests(task.spec.template.spec).items():
                total[name] = total.get(name, 0) + amount * task.replicas
        return facts.job_state(entry.wanted, entry.status, dict(sorted(total.items())))

    _MAKERS: Final[dict[Resource, Callable[[Observer, JSON], Contract | None]]] = {
        r.NODES: _node,
        r.PODS: _pod,
        r.QUEUES: _queue,
        r.PODGROUPS: _podgroup,
        r.PRIORITYCLASSES: _priority_class,
        r.HYPERNODES: _hypernode,
        r.PDBS: _budget,
        r.CONFIGMAPS: _policy,
        r.JOBS: _job,
    }


def _holds_room(pod: JSON) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName")) and _phase(pod) not in _ENDED


def _phase(pod: JSON) -> str | None:
    return (pod.get("status") or {}).get("phase")


def _as_ended(pod: JSON) -> JSON:
    return {**pod, "status": {**(pod.get("status") or {}), "phase": "Failed"}}


def _digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=16).digest()


def as_view(pod: PodState) -> PodView:
    """Return a published pod in the job controller's form."""
    return PodView(
        name=pod.name,
        uid=pod.uid,
        task=pod.task,
        index=pod.index,
        generation=pod.generation,
        phase=pod.phase,
        node=pod.node,
        deleting=pod.releasing,
        started_at=pod.started_at,
    )
