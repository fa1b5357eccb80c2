"""Who gives claims their volumes in a simulated cluster: Kubernetes' volume controller and all provisioners.

A claim is bound to a volume that is kept for it; else one is made, of network storage that every node
reaches: at once, or when a node is selected for it where its class waits for the first pod. Nothing is made
where a class has no provisioner.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from shared.api import resources as r
from shared.clock import Clock
from shared.errors import AlreadyExists, NotFound
from shared.keyed import KeyedQueue, retry_level
from shared.kube.informer import Informer
from shared.kube.port import JSON, Cluster, Resource

_log = logging.getLogger(__name__)

_SELECTED: Final = "volume.kubernetes.io/selected-node"
_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_KINDS: Final = (r.PVCS, r.PVS)
_WORKERS: Final = 4


class Provisioner:
    """Looks at claims and volumes as they change."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._queue = KeyedQueue(self._look, clock=clock, workers=_WORKERS, on_retry=self._retried)
        self._informers = {
            resource: Informer(cluster, resource, clock=clock, on_change=self._changed) for resource in _KINDS
        }

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(informer.run())
            group.create_task(self._queue.run())

    @staticmethod
    def _retried(key: str, error: Exception, failures: int) -> None:
        _log.log(retry_level(error, failures), "volume of claim %s: %s", key, error)

    def _changed(self, _old: JSON | None, new: JSON | None) -> None:
        if new is None:
            return
        meta = new["metadata"]
        ref = new["spec"].get("claimRef") if new["kind"] == r.PVS.kind else None
        if ref:
            self._queue.add(f"{ref.get('namespace')}/{ref.get('name')}")
        self._queue.add(f"{meta.get('namespace') or ''}/{meta['name']}")

    async def _look(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        if not namespace:
            await self._offer(name)
            return
        claim = self._informers[r.PVCS].store.get((namespace, name))
        if claim is None or (claim.get("status") or {}).get("phase") == "Bound":
            return
        volume = self._kept_for(claim)
        if volume is None and await self._is_to_be_made(claim):
            volume = await self._make(claim)
        if volume is not None:
            await self._bind(claim, volume)

    async def _offer(self, name: str) -> None:
        """Let a volume be claimed that nobody has."""
        volume = self._informers[r.PVS].store.get(("", name))
        if volume is not None and not volume["spec"].get("claimRef"):
            await self._status(r.PVS, None, volume, "Available")

    def _kept_for(self, claim: JSON) -> JSON | None:
        wanted = (claim["metadata"]["namespace"], claim["metadata"]["name"])
        for volume in self._informers[r.PVS].store.values():
            ref = volume["spec"].get("claimRef") or {}
            if (ref.get("namespace"), ref.get("name")) == wanted:
                return volume
        return None

    async def _is_to_be_made(self, claim: JSON) -> bool:
        if claim["spec"].get("volumeName"):
            return False
        name = claim["spec"].get("storageClassName")
        if not name:
            return True
        try:
            found = await self._cluster.get(r.STORAGECLASSES, None, name)
        except NotFound:
            return False
        if found.get("provisioner") == "kubernetes.io/no-provisioner":
            return False
        waits = found.get("volumeBindingMode") == "WaitForFirstConsumer"
        return not waits or _SELECTED in (claim["metadata"].get("annotations") or {})

    async def _make(self, claim: JSON) -> JSON:
        meta, spec = claim["metadata"], claim["spec"]
        reference = {"apiVersion": "v1", "kind": r.PVCS.kind, "uid": meta["uid"]}
        body: JSON = {
            "apiVersion": "v1",
            "kind": r.PVS.kind,
            "metadata": {"name": f"pvc-{meta['uid']}"},
            "spec": {
                "accessModes": spec["accessModes"],
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "storageClassName": spec.get("storageClassName") or "",
                "claimRef": {**reference, "namespace": meta["namespace"], "name": meta["name"]},
                "csi": {"driver": "simulated.pumice.dev", "volumeHandle": meta["uid"]},
                "persistentVolumeReclaimPolicy": "Delete",
            },
        }
        try:
            return await self._cluster.create(r.PVS, None, body)
        except AlreadyExists:
            return await self._cluster.get(r.PVS, None, body["metadata"]["name"])

    async def _bind(self, claim: JSON, volume: JSON) -> None:
        meta, name = claim["metadata"], volume["metadata"]["name"]
        await self._status(r.PVS, None, volume, "Bound")
        body = {
            "metadata": {"uid": meta["uid"], "annotations": {_COMPLETED: "yes"}},
            "spec": {"volumeName": name},
        }
        bound = await self._cluster.patch(r.PVCS, meta["namespace"], meta["name"], body)
        await self._status(r.PVCS, meta["namespace"], bound, "Bound")

    async def _status(self, resource: Resource, namespace: str | None, obj: JSON, phase: str) -> None:
        if (obj.get("status") or {}).get("phase") != phase:
            body = {"status": {"phase": phase}}
            await self._cluster.patch(
                resource, namespace, obj["metadata"]["name"], body, subresource="status"
            )
