"""The informers, and what they say about one job."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from services.controller.adapters.budgets import Budgets
from services.controller.adapters.device_views import DeviceViews
from services.controller.adapters.label_keys import LabelKeys
from services.controller.adapters.pool import Pool
from services.controller.adapters.shape_cache import placing
from services.controller.adapters.storage import StorageViews
from services.controller.core.claiming import Claims
from services.controller.core.dependencies import waiting_tasks
from services.controller.core.gangs import gang_of
from services.controller.core.holding import words
from services.controller.core.members import MemberPod, group_of
from services.controller.core.model import JSON, GroupView, Priorities, Wanted, read_group, read_job
from services.controller.core.numa import read_numatopology
from services.controller.core.persistent import HOSTNAME
from services.controller.core.podclaims import made_claims
from services.controller.core.podview import PodView, owner_job, read_pod
from services.controller.core.queues import parent_of
from services.controller.core.status import Status, read_status
from services.controller.core.volumes import own_claim
from shared.api import names
from shared.api import resources as r
from shared.clock import Clock
from shared.events.contracts import Gang
from shared.kube.informer import Informer
from shared.kube.informers import Informers
from shared.kube.port import Cluster, Resource
from shared.kube.store import Index

WATCHED: Final = (
    r.QUEUES,
    r.PRIORITYCLASSES,
    r.HYPERNODES,
    r.NUMATOPOLOGIES,
    r.PDBS,
    r.NODES,
    r.JOBS,
    r.PODGROUPS,
    r.PODS,
    r.COMMANDS,
)
OnChange = Callable[[Resource, JSON | None, JSON | None], None]
_BY_JOB: Final = "job"
_BY_GROUP: Final = "group"
_BY_PARENT: Final = "parent"
_BY_NODE: Final = "node"
_GUARANTEED: Final = "guaranteed"
_BY_CLAIM: Final = "claim"
_BY_DEVICE_CLAIM: Final = "device claim"
_BY_HOST: Final = "host"
_POOL: Final = Pool()
_ADDRESSES: Final = frozenset({"hostIP", "hostIPs", "podIP", "podIPs"})
_STATUSES: Final = frozenset({"containerStatuses", "initContainerStatuses"})
_SAID: Final = frozenset({"name", "state", "lastState", "ready", "restartCount"})
"""What is read of a container's status."""
_CLAIMS: Final = frozenset({"persistentVolumeClaim", "ephemeral"})


def job_key(namespace: str, name: str) -> str:
    """Return the key that all work about a job is ordered by."""
    return f"{namespace}/{name}"


class JobEntry(NamedTuple):
    """A job as it is, as read (None: its types are wrong, as ``problem`` says), and its status."""

    raw: JSON
    wanted: Wanted | None
    status: Status
    problem: str = ""

    @property
    def uid(self) -> str:
        """The job's UID."""
        return str(self.raw["metadata"]["uid"])


class Views(Informers):
    """What exists, from the informers' stores; reads cost no request."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Clock,
        on_change: OnChange,
        schedulers: Collection[str],
        policy: tuple[str, str],
        storage: StorageViews,
        devices: DeviceViews,
    ) -> None:
        """``policy``: namespace and name of the ConfigMap with the scheduler's policy."""
        self._on_change = on_change
        self.storage = storage
        self.devices = devices
        indexes: dict[Resource, dict[str, Index]] = {
            r.PODS: {
                _BY_JOB: _job_of,
                _BY_GROUP: _group_index(schedulers),
                _BY_NODE: _told_devices,
                _GUARANTEED: _guaranteed_on,
                _BY_CLAIM: _claims_of,
                _BY_DEVICE_CLAIM: _device_claims_of,
            },
            r.NODES: {_BY_HOST: _host_of},
            r.QUEUES: {_BY_PARENT: _parent_of},
        }
        informers = {
            resource: Informer(
                cluster,
                resource,
                clock=clock,
                on_change=self._listener(resource),
                transform=_TRIMS.get(resource, _trim),
                indexes=indexes.get(resource),
                rng=random.Random(resource.plural),  # noqa: S311 - jitter, the same on each run
            )
            for resource in WATCHED
        }
        informers[r.CONFIGMAPS] = Informer(
            cluster,
            r.CONFIGMAPS,
            clock=clock,
            on_change=self._listener(r.CONFIGMAPS),
            namespace=policy[0],
            fields=f"metadata.name={policy[1]}",
            transform=_trim,
            rng=random.Random(r.CONFIGMAPS.plural),  # noqa: S311 - jitter, the same on each run
        )
        super().__init__(informers)
        self._jobs: dict[str, JobEntry] = {}
        self._pods: dict[str, tuple[JSON, PodView]] = {}
        """Pods by UID, as they are and as read."""
        self._gangs: dict[str, tuple[tuple[object, ...], Gang | None, str]] = {}
        """What a job's gang depends on, the gang, and why it cannot be told."""
        self._priorities: Priorities | None = None
        self.budgets = Budgets()
        self.label_keys = LabelKeys()
        """Keys of the labels that placing depends on."""

    def fold(self, resource: Resource, obj: JSON) -> None:
        """Take in the answer to a write; not of a ConfigMap: what we write are jobs', not the policy."""
        if resource is not r.CONFIGMAPS:
            super().fold(resource, obj)

    def get(self, resource: Resource, namespace: str, name: str) -> JSON | None:
        """Return one object."""
        return self.store(resource).get((namespace, name))

    def job(self, key: str) -> JobEntry | None:
        """Return a job as it is and as read."""
        namespace, _, name = key.partition("/")
        raw = self.get(r.JOBS, namespace, name)
        if raw is None:
            self._jobs.pop(key, None)
            self._gangs.pop(key, None)
            return None
        entry = self._jobs.get(key)
        if entry is None or entry.raw is not raw:
            wanted, problem = None, ""
            try:
                wanted = read_job(raw)
            except ValueError as error:
                problem = words(error)
            entry = self._jobs[key] = JobEntry(raw, wanted, read_status(raw), problem)
        return entry

    def wanted(self, key: str) -> Wanted | None:
        """Return a job as read; None when it is gone or its types are wrong."""
        entry = self.job(key)
        return entry and entry.wanted

    def group(self, wanted: Wanted) -> GroupView | None:
        """Return a job's PodGroup."""
        raw = self.get(r.PODGROUPS, wanted.namespace, wanted.podgroup)
        generation = (wanted.raw.get("status") or {}).get("version") or 0
        return None if raw is None else read_group(raw, generation)

    def pods(self, wanted: Wanted) -> tuple[PodView, ...]:
        """Return the pods that belong to this very job, by name."""
        raws = self[r.PODS].by(_BY_JOB, job_key(wanted.namespace, wanted.name))
        own = (raw for raw in raws if owner_job(raw) == (wanted.name, wanted.uid))
        return tuple(sorted((self._pod(raw) for raw in own), key=lambda pod: pod.name))

    def group_pods(self, namespace: str, group: str) -> tuple[MemberPod, ...]:
        """Return the pods of a PodGroup that no Job of ours owns, as far as they are ours to schedule."""
        raws = self[r.PODS].by(_BY_GROUP, job_key(namespace, group))
        return tuple(MemberPod(self._pod(raw), raw) for raw in raws)

    def pods_with_devices(self, node: str) -> Iterable[JSON]:
        """Return the pods on a node that were told which of its GPUs they have."""
        return self[r.PODS].by(_BY_NODE, node)

    def guaranteed_on(self, node: str) -> Iterable[JSON]:
        """Return the Guaranteed pods on a node: others have no CPUs for themselves."""
        return self[r.PODS].by(_GUARANTEED, node)

    def pods_with_claim(self, namespace: str, claim: str) -> list[JSON]:
        """Return the pods that mount a claim."""
        return self[r.PODS].by(_BY_CLAIM, job_key(namespace, claim))

    def nodes_of_host(self, host: str) -> list[JSON]:
        """Return the nodes with a hostname."""
        return self[r.NODES].by(_BY_HOST, host)

    def claims_of(
        self, namespace: str, extras: Mapping[str, Any], *, pod: JSON | None = None, gang: str = ""
    ) -> Claims:
        """Return what the claims of a pod's shape come to; ``gang``: of which job it is asked."""
        name = "" if pod is None else pod["metadata"]["name"]
        return Claims(
            self.storage.of_pod(namespace, extras, pod=name, gang=gang),
            self.devices.of_pod(namespace, extras, pod=pod, gang=gang),
        )

    def pods_with_device_claim(self, namespace: str, claim: str) -> list[JSON]:
        """Return the pods that have a claim on devices."""
        return self[r.PODS].by(_BY_DEVICE_CLAIM, job_key(namespace, claim))

    def pods_with_device_claims(self) -> list[JSON]:
        """Return the pods that have any claim on devices."""
        return self[r.PODS].by(_BY_DEVICE_CLAIM, "")

    def forget_gang(self, key: str) -> None:
        """Have a job's gang worked out anew: its claims come to something else."""
        self._gangs.pop(key, None)

    def child_queues(self, name: str) -> tuple[str, ...]:
        """Return the names of the queues below a queue."""
        return tuple(one["metadata"]["name"] for one in self[r.QUEUES].by(_BY_PARENT, name))

    def _pod(self, raw: JSON) -> PodView:
        """Return a pod as read; each version is read once."""
        uid = raw["metadata"]["uid"]
        known = self._pods.get(uid)
        if known is None or known[0] is not raw:
            known = self._pods[uid] = (raw, read_pod(raw))
        return known[1]

    def gang(self, key: str) -> Gang | None:
        """Return a job's gang as it is now."""
        entry = self.job(key)
        if entry is None or entry.wanted is None:
            return None
        wanted, status = entry.wanted, entry.status
        group = self.group(wanted)
        if group is None:
            return None
        pods = self.pods(wanted)
        basis = (*_gang_basis(wanted, status, group, pods), self.label_keys.known)
        cached = self._gangs.get(key)
        if cached is None or cached[0] != basis or self._priorities is None:
            gang, problem = None, ""
            try:
                claims = partial(self.claims_of, gang=key)
                gang = gang_of(wanted, status, group, self.priorities, pods, self.label_keys.known, claims)
            except ValueError as error:  # a quantity or expression that the API server let pass
                problem = words(error)
            cached = self._gangs[key] = (basis, gang, problem)
            known = self.label_keys.known
            for task in gang.tasks if gang else ():
                self.label_keys.learn(task.shape)
            if self.label_keys.known != known:
                return self.gang(key)
        return cached[1]

    def gang_problem(self, key: str) -> str:
        """Return why a job's gang, as last worked out, cannot be told; empty when it can."""
        known = self._gangs.get(key)
        return "" if known is None else known[2]

    @property
    def priorities(self) -> Priorities:
        """The priority classes."""
        if self._priorities is None:
            classes = self.store(r.PRIORITYCLASSES).values()
            default = max((one.get("value") or 0 for one in classes if one.get("globalDefault")), default=0)
            values = {one["metadata"]["name"]: one.get("value") or 0 for one in classes}
            self._priorities = Priorities(values, default)
        return self._priorities

    def policy_text(self, key: str) -> str:
        """Return what the ConfigMap with the scheduler's policy has under a key; empty for nothing."""
        maps = self.store(r.CONFIGMAPS).values()
        return next((text for one in maps if (text := (one.get("data") or {}).get(key))), "")

    def job_of_group(self, group: JSON) -> str | None:
        """Return the key of the job that a PodGroup belongs to."""
        owner = owner_job(group)
        return owner and job_key(group["metadata"]["namespace"], owner[0])

    def _listener(self, resource: Resource) -> Callable[[JSON | None, JSON | None], None]:
        def changed(old: JSON | None, new: JSON | None) -> None:
            if resource is r.PRIORITYCLASSES:
                self._priorities = None
            elif resource is r.PODS and new is None and old is not None:
                self._pods.pop(old["metadata"]["uid"], None)
            self._on_change(resource, old, new)

        return changed


def _gang_basis(
    wanted: Wanted, status: Status, group: GroupView, pods: tuple[PodView, ...]
) -> tuple[object, ...]:
    """Return what the gang depends on, cheap to compare; pods count only when some ended or are old."""
    raw = wanted.raw["metadata"]
    special = tuple(
        (pod.name, pod.generation, pod.finished)
        for pod in pods
        if pod.finished or pod.generation != status.generation
    )
    placed = sum(pod.node is not None for pod in pods) if special else 0
    waiting = waiting_tasks(wanted, pods, status.generation)
    there = tuple(pod.name for pod in pods if pod.task in waiting)
    return (
        (wanted.uid, raw.get("generation"), wanted.deleting, tuple(wanted.annotations.items())),
        (status.phase, status.generation),
        (group.uid, group.generation, group.deleting, group.shapes),
        (special, placed),
        (waiting, there),
    )


def _job_of(pod: JSON) -> Iterable[str]:
    owner = owner_job(pod)
    return (job_key(pod["metadata"]["namespace"], owner[0]),) if owner else ()


def _group_index(schedulers: Collection[str]) -> Index:
    def group(pod: JSON) -> Iterable[str]:
        found = group_of(pod, schedulers)
        return (job_key(pod["metadata"]["namespace"], found),) if found else ()

    return group


def _told_devices(pod: JSON) -> Iterable[str]:
    told = pod["metadata"].get("annotations") or {}
    node = (pod.get("spec") or {}).get("nodeName")
    return (node,) if node and (names.VGPU_IDS in told or names.GPU_INDEX in told) else ()


def _guaranteed_on(pod: JSON) -> Iterable[str]:
    node = (pod.get("spec") or {}).get("nodeName")
    return (node,) if node and (pod.get("status") or {}).get("qosClass") == "Guaranteed" else ()


def _claims_of(pod: JSON) -> Iterable[str]:
    meta = pod["metadata"]
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
            yield job_key(meta["namespace"], claim)
        elif volume.get("ephemeral"):
            yield job_key(meta["namespace"], own_claim(meta["name"], volume["name"]))


def _device_claims_of(pod: JSON) -> Iterable[str]:
    """Return the pod's claims on devices, and nothing as well: so all pods that have one are found."""
    asked = (pod.get("spec") or {}).get("resourceClaims")
    if not asked:
        return ()
    named = (one.get("resourceClaimName") for one in asked)
    every = {*filter(None, named), *filter(None, made_claims(pod).values())}
    return ("", *(job_key(pod["metadata"]["namespace"], one) for one in sorted(every)))


def _host_of(node: JSON) -> Iterable[str]:
    host = (node["metadata"].get("labels") or {}).get(HOSTNAME)
    return (host,) if host else ()


def _parent_of(queue: JSON) -> Iterable[str]:
    return (parent_of(queue),)


def _trim_pod(pod: JSON) -> JSON:
    """Drop what only kubelet reads too: the programs of containers are most of a pod, and there are many.

    Of volumes the claims are left: every pod has one for its token, with a name of its own, and pods that
    differ in nothing else share one shape. Parts that pods have alike, as conditions of one second, are one.
    """
    pod = _trim(pod)
    spec = pod.get("spec") or {}
    left = {
        kind: [{"name": one.get("name", ""), **placing(one)} for one in spec[kind] or ()]
        for kind in ("containers", "initContainers")
        if kind in spec
    }
    if "volumes" in spec:
        left["volumes"] = [one for one in spec["volumes"] or () if not _CLAIMS.isdisjoint(one)]
    status = {name: one for name, one in (pod.get("status") or {}).items() if name not in _ADDRESSES}
    for kind in _STATUSES.intersection(status):
        status[kind] = [
            {name: said for name, said in one.items() if name in _SAID} for one in status[kind] or ()
        ]
    return {**pod, "spec": _POOL.of_parts({**spec, **left}), "status": _POOL.of_parts(status)}


def _trim_alike(obj: JSON) -> JSON:
    """Have one spec for all that have the same: they are most of a job or PodGroup, and stay as they are."""
    obj = _trim(obj)
    return {**obj, "spec": _POOL.shared(obj["spec"])} if "spec" in obj else obj


def _trim_numatopology(obj: JSON) -> JSON:
    """Keep what was read of hundreds of CPUs."""
    problem, read = "", None
    try:
        read = read_numatopology(obj)
    except ValueError as error:
        problem = words(error)
    return {"metadata": _trim(obj)["metadata"], "read": read, "problem": problem}


def _trim(obj: JSON) -> JSON:
    """Drop what nobody here reads, to save memory."""
    metadata = obj["metadata"]
    if "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}


_TRIMS: Final = {
    r.PODS: _trim_pod,
    r.JOBS: _trim_alike,
    r.PODGROUPS: _trim_alike,
    r.NUMATOPOLOGIES: _trim_numatopology,
}
