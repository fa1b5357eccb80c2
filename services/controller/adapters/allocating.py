"""Gives the claims of decided pods their devices before the pods are bound.

It is what kube-scheduler does: the claim's status names the devices and the pods that may use them. A claim
that was made by a template is waited for, and so are devices that somebody is about to give back. When a pod
of a decision gets none, what the decision's other pods got is given back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from services.controller.adapters.api import Api
from services.controller.adapters.device_views import DeviceViews
from services.controller.adapters.hands import together
from services.controller.core.claims import Claimant
from services.controller.core.deviceclaims import (
    PROTECTION,
    allocation,
    allocation_of,
    is_held_by,
    nodes_of,
    reservation,
    reserved_for,
)
from services.controller.core.model import JSON
from services.controller.core.persistent import reaches
from services.controller.core.podclaims import PodClaim, made_claims
from shared.api import resources as r
from shared.clock import Clock
from shared.errors import Conflict, NotFound, Refused
from shared.keyed import KeyedLocks

_PATIENCE: Final = 20.0
"""Seconds after which a pod that still has no devices is not bound."""
_LOOK: Final = 0.1
_NO_DEVICES: Final[JSON] = {"status": {"reservedFor": None, "allocation": None}}
_MADE: Final = "it is not made yet"


_Given = list[tuple[str, str, str]]
"""What one decision's pods got: namespace and name of each claim, and the UID of the pod."""


class Allocating:
    """See the module. ``pod`` and ``node`` return an object by its name."""

    def __init__(
        self,
        api: Api,
        views: DeviceViews,
        *,
        clock: Clock,
        pod: Callable[[str, str], JSON | None],
        node: Callable[[str], JSON | None],
    ) -> None:
        self._api = api
        self._views = views
        self._clock = clock
        self._pod = pod
        self._node = node
        self._locks = KeyedLocks()

    async def bring_about(
        self, namespace: str, placed: Sequence[Claimant], still: Callable[[], bool]
    ) -> dict[str, str]:
        """Return, by pod, why it gets no devices on its node. ``still``: whether the decision stands.

        Raises what passes.
        """
        given: _Given = []
        until = self._clock.monotonic() + _PATIENCE
        told = await together(self._settle(namespace, one, given, until, still) for one in placed)
        failures = {one.pod: why for one, why in zip(placed, told, strict=True) if why}
        if failures:
            await together(self._give_back(*one) for one in given)
        return failures

    async def _settle(
        self, namespace: str, placed: Claimant, given: _Given, until: float, still: Callable[[], bool]
    ) -> str:
        """Give all claims of a pod their devices; return why one gets none."""
        for one in placed.claims:
            while why := await self._give(namespace, placed, one, given):
                if self._clock.monotonic() >= until:
                    self._views.failed(namespace, one, placed.node)
                    return why
                if not still():
                    return f"{why}, and it is not wanted there any more"
                await self._clock.sleep(_LOOK)
        return ""

    async def _give(self, namespace: str, placed: Claimant, one: PodClaim, given: _Given) -> str:
        """Give a claim devices, if it can be done now; return why not."""
        pod = self._pod(namespace, placed.pod)
        if pod is None:
            return f"pod {namespace}/{placed.pod} is not there yet"
        name = one.claim or made_claims(pod).get(one.name)
        if name == "":
            return ""
        label = f"resource claim {namespace}/{name or one.name}"
        async with self._locks(placed.node):
            claim = self._views.device_claim(namespace, name) if name else None
            if claim is None or name is None:
                return f"{label}: {_MADE if one.template else 'it is not there'}"
            uid = str(pod["metadata"]["uid"])
            try:
                return await self._allocate(label, claim, placed, uid, given)
            except (Conflict, NotFound, Refused) as error:
                return f"{label}: {error}"

    async def _allocate(self, label: str, claim: JSON, placed: Claimant, uid: str, given: _Given) -> str:
        has = allocation_of(claim)
        if has is not None and self._reaches(has, placed.node):
            if uid not in reserved_for(claim):
                await self._reserve(claim, placed.pod, uid)
                given.append((*_key(claim), uid))
            return ""
        if has is not None and not is_held_by(claim, uid):
            return f"{label} has its devices on another node"
        if has is not None:  # it was for this pod alone, elsewhere
            claim = await self._patch(claim, _NO_DEVICES, "status")
        chosen = self._views.held.choose(claim, placed.node, self._views.kinds)
        if isinstance(chosen, str):
            return f"{label}: {chosen}"
        if claim["metadata"].get("deletionTimestamp"):
            return f"{label} is being deleted"
        if PROTECTION not in (claim["metadata"].get("finalizers") or ()):
            finalizers = [*(claim["metadata"].get("finalizers") or ()), PROTECTION]
            claim = await self._patch(claim, {"metadata": {"finalizers": finalizers}})
        status: JSON = {
            "allocation": allocation(claim, chosen, placed.node, self._views),
            "reservedFor": [reservation(placed.pod, uid)],
        }
        await self._patch(claim, {"status": status}, "status")
        given.append((*_key(claim), uid))
        return ""

    async def _reserve(self, claim: JSON, pod: str, uid: str) -> None:
        users = (claim.get("status") or {}).get("reservedFor") or []
        await self._patch(claim, {"status": {"reservedFor": [*users, reservation(pod, uid)]}}, "status")

    async def _give_back(self, namespace: str, name: str, uid: str) -> None:
        """Take a claim back from a pod that was not bound, and its devices when nobody else uses them."""
        claim = self._views.device_claim(namespace, name)
        if claim is None or uid not in reserved_for(claim):
            return
        left = [one for one in claim["status"]["reservedFor"] if one.get("uid") != uid]
        try:
            await self._patch(claim, {"status": {"reservedFor": left}} if left else _NO_DEVICES, "status")
        except (Conflict, NotFound, Refused):
            return  # whoever changed it knows better; Kubernetes gives back what no pod uses

    async def _patch(self, claim: JSON, body: JSON, subresource: str | None = None) -> JSON:
        """Write on this very claim as it was read. Raises Conflict when it has changed since."""
        meta = claim["metadata"]
        version = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        body = {**body, "metadata": {**version, **body.get("metadata", {})}}
        found = await self._api.patch(
            r.RESOURCECLAIMS, meta["namespace"], meta["name"], body, subresource=subresource
        )
        self._views.fold(r.RESOURCECLAIMS, found)
        return found

    def _reaches(self, has: JSON, name: str) -> bool:
        node = self._node(name)
        labels: Mapping[str, str] = {} if node is None else node["metadata"].get("labels") or {}
        return all(reaches(terms, labels, name) for terms in nodes_of(has))


def _key(claim: JSON) -> tuple[str, str]:
    return claim["metadata"]["namespace"], claim["metadata"]["name"]
