"""Tells the cluster where volumes are wanted whose class waits for a pod to be placed.

A claim of a class with ``volumeBindingMode: WaitForFirstConsumer`` gets its volume only when somebody notes
on it which node was chosen. kube-scheduler does so for the pods that it places; for ours it is done here,
before they are created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from services.controller.adapters.api import Api
from services.controller.adapters.hands import together
from services.controller.core.model import JSON
from shared.api import resources as r
from shared.errors import NotFound, Refused
from shared.kube.port import Cluster

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


class Provisioning:
    """Notes the nodes of claims; ``claim(namespace, name)`` returns a claim if it is there."""

    def __init__(self, cluster: Cluster, api: Api, claim: Callable[[str, str], JSON | None]) -> None:
        self._cluster = cluster
        self._api = api
        self._claim = claim
        self._waits: dict[str, bool] = {}
        """Whether a class waits for the first pod, by name; that never changes in a class."""

    async def place(self, namespace: str, places: Mapping[str, str]) -> None:
        """Note for each claim without a volume where the first of its pods will be.

        Raises Conflict and Unavailable to be tried again.
        """
        await together(self._note(namespace, name, node) for name, node in places.items())

    async def _note(self, namespace: str, name: str, node: str) -> None:
        claim = self._claim(namespace, name)
        if claim is None or SELECTED_NODE in (claim["metadata"].get("annotations") or {}):
            return
        spec = claim.get("spec") or {}
        if spec.get("volumeName") or not await self._waits_for_pods(spec.get("storageClassName") or ""):
            return
        body = {"metadata": {"uid": claim["metadata"]["uid"], "annotations": {SELECTED_NODE: node}}}
        try:
            await self._api.patch(r.PVCS, namespace, name, body)
        except (NotFound, Refused):
            return  # it has gone, or may not be changed: its pods wait and Kubernetes says why

    async def _waits_for_pods(self, name: str) -> bool:
        if not name:
            return False
        if name not in self._waits:
            try:
                found = await self._cluster.get(r.STORAGECLASSES, None, name)
            except (NotFound, Refused):
                return False
            self._waits[name] = found.get("volumeBindingMode") == "WaitForFirstConsumer"
        return self._waits[name]
