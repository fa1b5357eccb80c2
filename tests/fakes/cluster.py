"""A small Kubernetes in memory, behind the ``Cluster`` port: no HTTP, works under virtual time.

It keeps what the services rely on (resource versions, watches, status subresources, UID preconditions, owner
references, graceful deletion of bound pods) and plays the kubelets when told to.
"""

from __future__ import annotations

import asyncio
import bisect
import copy
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any

import jsonpatch

from shared.api import resources as r
from shared.clock import Clock
from shared.errors import AlreadyExists, Conflict, NotFound
from shared.kube.port import JSON, Listing, Patch, Resource, WatchEvent

WITH_STATUS = {"jobs", "queues", "pods", "nodes", "jobflows", "jobtemplates", "cronjobs", "hypernodes"} | {
    "resourceclaims"
}
Hook = Callable[[str, Resource, str], Awaitable[None]]


async def _pass(verb: str, resource: Resource, name: str) -> None:
    return None


class FakeCluster:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ahead = 0.0
        self.objects: dict[Resource, dict[tuple[str, str], JSON]] = {}
        self.history: dict[Resource, list[tuple[int, WatchEvent]]] = {}
        self.version = 0
        self.uids = 0
        self.writes: Counter[tuple[str, str]] = Counter()
        self.log: list[str] = []
        self.before: Hook = _pass
        self.after: Hook = _pass
        self.admit: Callable[[Resource, JSON], None] = lambda _resource, _obj: None
        """Changes what is created, as defaults and webhooks do."""
        self.provisions = True
        """Claims get volumes: at once, or when a node is selected if their class waits for that."""
        self._changed = asyncio.Condition()

    # ------------------------------------------------------------------ the port
    async def get(self, resource: Resource, namespace: str | None, name: str) -> JSON:
        return copy.deepcopy(self._find(resource, namespace, name))

    async def list(self, resource, namespace=None, *, labels="", fields="", page=500) -> Listing:
        shown = _shows(namespace, fields)
        items = [copy.deepcopy(obj) for obj in self._of(resource).values() if shown(obj)]
        return Listing(items, str(self.version))

    async def watch(
        self, resource, namespace=None, *, resource_version, labels="", fields=""
    ) -> AsyncIterator[WatchEvent]:
        history = self.history.setdefault(resource, [])
        index = bisect.bisect_right(history, int(resource_version), key=lambda entry: entry[0])
        while True:
            while index < len(history):
                event = history[index][1]
                index += 1
                if not _shows(namespace, fields)(event.object):
                    continue
                yield WatchEvent(event.type, copy.deepcopy(event.object))
            async with self._changed:
                await self._changed.wait_for(lambda i=index: i < len(history))

    async def create(
        self, resource: Resource, namespace: str | None, body: JSON, *, dry_run: bool = False
    ) -> JSON:
        name = body["metadata"]["name"]
        if dry_run:
            await self.before("dry-run", resource, name)
            self._count("dry-run", resource, name)
            return self._admitted(resource, body)
        await self.before("create", resource, name)
        obj = self.put(resource, self._admitted(resource, body), namespace)
        self._count("create", resource, name)
        await self.after("create", resource, name)
        return copy.deepcopy(obj)

    def _admitted(self, resource: Resource, body: JSON) -> JSON:
        obj = copy.deepcopy(body)
        self.admit(resource, obj)
        return obj

    def put(self, resource: Resource, body: JSON, namespace: str | None = None) -> JSON:
        """Create an object without counting a write (as somebody else)."""
        obj = copy.deepcopy(body)
        meta = obj["metadata"]
        if resource.namespaced:
            meta.setdefault("namespace", namespace or "default")
        key = (meta.get("namespace", "") if resource.namespaced else "", meta["name"])
        if key in self._of(resource):
            raise AlreadyExists(f"{resource.plural} {meta['name']} already exists")
        self.uids += 1
        meta["uid"] = f"uid-{self.uids}"
        meta["creationTimestamp"] = self._stamp()
        if resource.plural in ("jobs", "queues"):
            obj.pop("status", None)
        if resource is r.PODS:
            obj["status"] = {"phase": "Pending"}
        self._save(resource, key, obj, "ADDED")
        return self._provision(obj) if resource is r.PVCS and self.provisions else obj

    async def replace(self, resource, namespace, body, *, subresource=None) -> JSON:
        raise NotImplementedError

    async def patch(
        self, resource, namespace, name, body, *, kind=Patch.MERGE, subresource=None, params=None
    ) -> JSON:
        await self.before("patch", resource, name)
        obj = self.change(resource, namespace, name, body, kind=kind, subresource=subresource)
        self._count("patch", resource, name)
        await self.after("patch", resource, name)
        return copy.deepcopy(obj)

    def change(self, resource, namespace, name, body, *, kind=Patch.MERGE, subresource=None) -> JSON:
        old = self._find(resource, namespace, name)
        new = copy.deepcopy(old)
        if kind is Patch.JSON:
            new = jsonpatch.apply_patch(new, body)
        else:
            uid = (body.get("metadata") or {}).get("uid")
            if uid is not None and uid != old["metadata"]["uid"]:
                raise Conflict("UID precondition")
            _merge(new, body)
        if resource.plural in WITH_STATUS:
            if subresource == "status":
                new = {**old, "status": new.get("status", {})}
            else:
                new["status"] = old.get("status", {})
        if new == old:
            return old
        key = (namespace or "" if resource.namespaced else "", name)
        self._save(resource, key, new, "MODIFIED")
        return self._provision(new) if resource is r.PVCS and self.provisions else new

    def _provision(self, claim: JSON) -> JSON:
        """Bind a claim to a new volume if it is time for that."""
        meta, spec = claim["metadata"], claim.setdefault("spec", {})
        found = self._of(r.STORAGECLASSES).get(("", spec.get("storageClassName") or ""))
        waits = found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"
        selected = "volume.kubernetes.io/selected-node" in (meta.get("annotations") or {})
        if spec.get("volumeName") or (waits and not selected):
            return claim
        return self.bind_claim(meta["name"], meta["namespace"])

    def bind_claim(self, name: str, namespace: str = "default", **spec: Any) -> JSON:
        """Make a volume for a claim (``spec`` says more about it) and bind both."""
        claim = self._find(r.PVCS, namespace, name)
        volume = f"pv-{claim['metadata']['uid']}"
        self.put(r.PVS, {"metadata": {"name": volume}, "spec": spec, "status": {"phase": "Bound"}})
        bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        body = {"metadata": bound, "spec": {"volumeName": volume}, "status": {"phase": "Bound"}}
        return self.change(r.PVCS, namespace, name, body)

    async def delete(
        self, resource, namespace, name, *, uid=None, propagation="Background", grace_seconds=None
    ) -> None:
        await self.before("delete", resource, name)
        self.remove(resource, namespace, name, uid=uid, graceful=grace_seconds != 0)
        self._count("delete", resource, name)
        await self.after("delete", resource, name)

    def remove(self, resource, namespace, name, *, uid=None, graceful=True) -> None:
        obj = self._find(resource, namespace, name)
        if uid is not None and obj["metadata"]["uid"] != uid:
            raise Conflict("UID precondition")
        key = (namespace or "" if resource.namespaced else "", name)
        runs = (obj.get("spec") or {}).get("nodeName") and obj["status"]["phase"] in ("Pending", "Running")
        if resource is r.PODS and graceful and runs:
            if not obj["metadata"].get("deletionTimestamp"):
                new = copy.deepcopy(obj)
                new["metadata"] |= {"deletionTimestamp": self._stamp(), "deletionGracePeriodSeconds": 30}
                self._save(resource, key, new, "MODIFIED")
            return
        self._save(resource, key, copy.deepcopy(obj), "DELETED")
        self._collect(obj["metadata"]["uid"])

    async def bind(self, namespace, pod, node, *, uid=None, annotations=None) -> None:
        await self.before("bind", r.PODS, pod)
        obj = self._find(r.PODS, namespace, pod)
        if obj["spec"].get("nodeName") or (uid and obj["metadata"]["uid"] != uid):
            raise Conflict("already bound")
        new = copy.deepcopy(obj)
        new["spec"]["nodeName"] = node
        if annotations:
            new["metadata"]["annotations"] = (new["metadata"].get("annotations") or {}) | annotations
        self._save(r.PODS, (namespace, pod), new, "MODIFIED")
        self._count("bind", r.PODS, pod)
        await self.after("bind", r.PODS, pod)

    async def evict(self, namespace, pod, *, uid=None) -> None:
        self.remove(r.PODS, namespace, pod, uid=uid)

    async def ping(self) -> None:
        return None

    async def close(self) -> None:
        return None

    # ------------------------------------------------------------------ the kubelets
    def run_pods(self, *names: str) -> None:
        """Bound pods (these, or all) run."""
        for pod in self.bound():
            if pod["status"]["phase"] == "Pending" and (not names or pod["metadata"]["name"] in names):
                status = {"phase": "Running", "startTime": self._stamp()}
                self.set_status(r.PODS, pod, status)

    def end_pods(self, *names: str, code: int = 0) -> None:
        """Running pods (these, or all) end by themselves."""
        for pod in self.bound():
            if pod["status"]["phase"] == "Running" and (not names or pod["metadata"]["name"] in names):
                state = {"terminated": {"exitCode": code}}
                status = {
                    **pod["status"],
                    "phase": "Failed" if code else "Succeeded",
                    "containerStatuses": [{"name": "c", "state": state, "restartCount": 0}],
                }
                self.set_status(r.PODS, pod, status)

    def stop_pods(self) -> None:
        """Pods that are being deleted end, as their status says, and are gone."""
        for pod in list(self._of(r.PODS).values()):
            if pod["metadata"].get("deletionTimestamp"):
                meta = pod["metadata"]
                state = {"terminated": {"exitCode": 143, "finishedAt": self._stamp()}}
                ended = [{"name": "c", "state": state, "restartCount": 0}]
                meta["deletionGracePeriodSeconds"] = 0
                self.set_status(r.PODS, pod, {**pod["status"], "phase": "Failed", "containerStatuses": ended})
                self.remove(r.PODS, meta["namespace"], meta["name"], graceful=False)

    def bound(self) -> list[JSON]:
        return [
            pod
            for pod in list(self._of(r.PODS).values())
            if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
        ]

    def set_status(self, resource: Resource, obj: JSON, status: JSON) -> None:
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        self._save(resource, key, {**copy.deepcopy(obj), "status": status}, "MODIFIED")

    # ------------------------------------------------------------------ reading in tests
    def all(self, resource: Resource) -> list[JSON]:
        return [copy.deepcopy(obj) for _, obj in sorted(self._of(resource).items())]

    def one(self, resource: Resource, name: str, namespace: str = "default") -> JSON | None:
        key = (namespace if resource.namespaced else "", name)
        return copy.deepcopy(self._of(resource).get(key))

    # ------------------------------------------------------------------ inside
    def _of(self, resource: Resource) -> dict[tuple[str, str], JSON]:
        return self.objects.setdefault(resource, {})

    def _find(self, resource: Resource, namespace: str | None, name: str) -> JSON:
        key = (namespace or "" if resource.namespaced else "", name)
        obj = self._of(resource).get(key)
        if obj is None:
            raise NotFound(f"{resource.plural} {name} not found")
        return obj

    def _save(self, resource: Resource, key: tuple[str, str], obj: JSON, what: Any) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        if what == "ADDED":
            obj["metadata"]["generation"] = 1
        elif what == "MODIFIED" and obj.get("spec") != self._of(resource)[key].get("spec"):
            obj["metadata"]["generation"] = obj["metadata"].get("generation", 1) + 1
        if what == "DELETED":
            self._of(resource).pop(key, None)
        else:
            self._of(resource)[key] = obj
        self.history.setdefault(resource, []).append((self.version, WatchEvent(what, copy.deepcopy(obj))))
        asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(self._tell()))

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _collect(self, uid: str) -> None:
        for resource, objects in list(self.objects.items()):
            for obj in list(objects.values()):
                owners = obj["metadata"].get("ownerReferences") or []
                if any(owner["uid"] == uid for owner in owners):
                    meta = obj["metadata"]
                    self.remove(resource, meta.get("namespace"), meta["name"])

    def _count(self, verb: str, resource: Resource, name: str) -> None:
        self.writes[verb, resource.plural] += 1
        self.log.append(f"{verb} {resource.plural}/{name}")

    def _stamp(self) -> str:
        now: datetime = self.clock.now()
        return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def _merge(target: JSON, patch: JSON) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            if not isinstance(target.get(key), dict):
                target[key] = {}
            _merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)


def _shows(namespace: str | None, fields: str) -> Callable[[JSON], bool]:
    """Return the test of what a list or watch shows: of a namespace, and of one name."""
    name = fields.removeprefix("metadata.name=") or None

    def shown(obj: JSON) -> bool:
        meta = obj["metadata"]
        return namespace in (None, meta.get("namespace")) and name in (None, meta["name"])

    return shown
