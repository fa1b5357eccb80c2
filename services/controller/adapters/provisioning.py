"""Brings about that the claims of decided pods have their volumes before the pods are on their nodes.

A claim of a class that waits for its first pod gets the smallest free volume that suits it and is reached
from the pod's node; where there is none its provisioner is told the node. Then its binding is waited for, as
kube-scheduler does before it binds a pod: until the volume is there, the provisioner takes the node back, or
the time is over. A pod whose claim comes to nothing is not bound, and its gang is decided anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from services.controller.adapters.api import Api
from services.controller.adapters.hands import together
from services.controller.adapters.storage import StorageViews
from services.controller.core.claims import Place
from services.controller.core.model import JSON
from services.controller.core.persistent import class_of, is_for, reaches, volume_for
from services.controller.core.volumes import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    is_bound,
    is_open,
    provisions,
    reach_of,
)
from shared.api import resources as r
from shared.clock import Clock
from shared.errors import NotFound, Refused
from shared.keyed import KeyedLocks

_GLANCE: Final = 1.0
"""Seconds after which it is looked whether the decision still stands."""


class Provisioning:
    """See the module. ``nodes`` are those of the cluster; ``limit`` is in seconds."""

    def __init__(
        self,
        api: Api,
        storage: StorageViews,
        fold: Callable[[JSON], None],
        *,
        clock: Clock,
        nodes: Callable[[], Mapping[tuple[str, str], JSON]],
        limit: float,
    ) -> None:
        self._api = api
        self._storage = storage
        self._fold_claim = fold
        self._clock = clock
        self._nodes = nodes
        self._limit = limit
        self._locks = KeyedLocks()
        self._changes: dict[tuple[str, str], asyncio.Event] = {}

    def claim_changed(self, namespace: str, name: str) -> None:
        """Look at a claim again that is waited for."""
        event = self._changes.pop((namespace, name), None)
        if event is not None:
            event.set()

    async def bring_about(
        self, namespace: str, places: Mapping[str, Place], still: Callable[[], bool]
    ) -> dict[str, str]:
        """Return, by pod, why it cannot be on its node, once nothing is left to wait for.

        ``still``: whether the decision stands; else it is not waited for. Raises what passes.
        """
        first: dict[str, tuple[str, bool]] = {}
        for place in places.values():
            for claim in place.claims:
                first.setdefault(claim, (place.node, claim in place.own))
        if not first:
            return {}
        until = self._clock.monotonic() + self._limit
        told = await together(
            self._settle((namespace, claim), node, own=own, until=until, still=still)
            for claim, (node, own) in first.items()
        )
        failures = dict(zip(first, told, strict=True))
        found: dict[str, str] = {}
        for pod, place in places.items():
            why = next((failures[one] for one in place.claims if failures[one]), "")
            why = why or next(filter(None, (self._far(namespace, one, place) for one in place.claims)), "")
            if why:
                found[pod] = why
        return found

    async def _settle(
        self, name: tuple[str, str], node: str, *, own: bool, until: float, still: Callable[[], bool]
    ) -> str:
        """Wait for one claim's volume; return why it gets none."""
        label, begun = f"claim {name[0]}/{name[1]}", False
        while True:
            change = self._changes.setdefault(name, asyncio.Event())
            claim = self._storage.claim(*name)
            bound = claim is not None and is_bound(claim)
            if bound and claim is not None and self._storage.volume(claim["spec"]["volumeName"]) is not None:
                return ""
            why = _trouble(claim, label, own=own)
            if claim is not None and not (why or bound):
                selected = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
                if begun and not selected and not self._kept(claim):
                    self._storage.provisioning_failed(*name, node)
                    why = f"{label} could not be provisioned for node {node}"
                elif not begun:
                    why = await self._begin(claim, label, node, selected)
                    begun = True
                    if not why:
                        continue
            left = until - self._clock.monotonic()
            if not why and left <= 0:
                why = f"{label} got no volume for node {node} within {self._limit:g} s"
            if why:
                return why
            if not still():
                return f"{label} is not wanted there any more"
            await self._wait(change, min(left, _GLANCE))

    async def _wait(self, change: asyncio.Event, seconds: float) -> None:
        waits = [asyncio.ensure_future(one) for one in (change.wait(), self._clock.sleep(seconds))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    async def _begin(self, claim: JSON, label: str, node: str, selected: str | None) -> str:
        """See to it that a claim gets a volume for a node; return why it gets none."""
        storage_class = self._storage.storage_class(class_of(claim))
        if storage_class is None or not is_open(claim, storage_class):
            return f"{label} is not bound to a volume yet"
        if selected:
            return "" if selected == node else f"{label} is being provisioned for node {selected}"
        labels = self._labels(node)
        async with self._locks(class_of(claim)):
            chosen = volume_for(self._storage.volumes_of(class_of(claim)), claim, labels, node)
            try:
                if chosen is not None:
                    await self._keep(chosen, claim)
                elif provisions(storage_class, labels, node):
                    await self._select(claim, node)
                else:
                    return f"{label} finds no volume for node {node}"
            except (NotFound, Refused) as error:
                return f"{label}: {error}"
        return ""

    async def _keep(self, volume: JSON, claim: JSON) -> None:
        """Keep a free volume for a claim; Kubernetes then binds both. Raises Conflict if it was taken."""
        meta, now = volume["metadata"], claim["metadata"]
        reference = {
            "apiVersion": r.PVCS.api_version,
            "kind": r.PVCS.kind,
            "namespace": now["namespace"],
            "name": now["name"],
            "uid": now["uid"],
        }
        body: JSON = {"metadata": {"resourceVersion": meta["resourceVersion"]}}
        body["spec"] = {"claimRef": reference}
        if not is_for(volume, claim):
            body["metadata"]["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        self._storage.fold(r.PVS, await self._api.patch(r.PVS, None, meta["name"], body))

    async def _select(self, claim: JSON, node: str) -> None:
        """Tell a claim's provisioner for which node its volume is to be."""
        meta = claim["metadata"]
        body = {"metadata": {"uid": meta["uid"], "annotations": {SELECTED_NODE: node}}}
        self._fold_claim(await self._api.patch(r.PVCS, meta["namespace"], meta["name"], body))

    def _kept(self, claim: JSON) -> bool:
        return any(is_for(one, claim) for one in self._storage.volumes_of(class_of(claim)))

    def _far(self, namespace: str, name: str, place: Place) -> str:
        """Say that a claim's volume is not reached from where the pod is to be."""
        claim = self._storage.claim(namespace, name)
        volume = None if claim is None else self._storage.volume(claim["spec"]["volumeName"])
        if volume is None:
            return f"claim {namespace}/{name}: its volume is not there"
        labels = self._labels(place.node)
        if all(reaches(terms, labels, place.node) for terms in reach_of(volume)):
            return ""
        what = f"volume {volume['metadata']['name']} of claim {namespace}/{name}"
        return f"{what} is not reached from node {place.node}"

    def _labels(self, node: str) -> dict[str, str]:
        found = self._nodes().get(("", node))
        return {} if found is None else found["metadata"].get("labels") or {}


def _trouble(claim: JSON | None, label: str, *, own: bool) -> str:
    """Say why nothing can be waited for; a pod's own claim is soon there."""
    if claim is None:
        return "" if own else f"{label} is not there"
    if claim["metadata"].get("deletionTimestamp"):
        return f"{label} is being deleted"
    return f"{label} is lost: its volume is gone" if _phase(claim) == "Lost" else ""


def _phase(claim: JSON) -> str:
    return str((claim.get("status") or {}).get("phase") or "")
