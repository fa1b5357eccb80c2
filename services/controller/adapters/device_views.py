"""Device classes, slices and claims, as far as placing depends on them.

Clusters whose API server does not serve ``resource.k8s.io/v1`` (before Kubernetes 1.34) have none of them:
that is asked at start and now and then.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from services.controller.adapters.avoided import Avoided
from services.controller.core.deviceclaims import (
    NOTHING,
    Claimed,
    Held,
    Kind,
    claimed,
    kinds_of,
    pool_of,
)
from services.controller.core.model import JSON
from services.controller.core.podclaims import PodClaim, claims_in
from shared.api import resources as r
from shared.clock import Clock
from shared.errors import NotFound, Unavailable
from shared.kube.informers import Informers, following
from shared.kube.port import Cluster, Resource

KINDS: Final = (r.DEVICECLASSES, r.RESOURCESLICES, r.RESOURCECLAIMS, r.RESOURCECLAIMTEMPLATES)
_BY_POOL: Final = "pool"
_ASK_AGAIN: Final = 300.0
_AWAY: Final = 1.0
_log = logging.getLogger("pumice.controller")
Name = tuple[Resource, str, str]
"""A kind, a namespace (empty for a class) and a name."""


class DeviceViews(Informers):
    """Answers from the informers' stores; see :class:`services.controller.core.deviceclaims.Catalogue`."""

    def __init__(self, cluster: Cluster, *, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._served: bool | None = None
        indexes = {r.RESOURCESLICES: {_BY_POOL: lambda one: ("/".join(pool_of(one)),)}}
        super().__init__(following(cluster, KINDS, clock=clock, on_change=self._changed, indexes=indexes))
        self.held = Held(self)
        self.on_node: Callable[[str], None] = lambda _name: None
        """Told of a node, by name, that has other devices to count."""
        self.on_claim: Callable[[str, str], None] = lambda _namespace, _name: None
        """Told of a claim that has changed."""
        self.on_asking: Callable[[str], None] = lambda _namespace: None
        """Told of a namespace whose pods with claims may come to something else; empty: of all."""
        self.on_gang: Callable[[str], None] = lambda _key: None
        """Told of a job's gang of which a claim, template or class has changed."""
        self._avoided: Avoided[tuple[str, str]] = Avoided(clock, self._look_again)
        self._gangs: dict[Name, set[str]] = {}
        self._asked: dict[Name, frozenset[Kind]] = {}
        """The kinds that a claim or template asks for."""
        self._selected: Counter[Kind] = Counter()
        """How many ask for the kinds that select among the devices of a class."""

    # ------------------------------------------------------------------ following

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        while not await self._is_served():
            await self._clock.sleep(_AWAY if self._served is None else _ASK_AGAIN)
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())
            group.create_task(self._avoided.run())

    async def synced(self) -> None:
        """Return once all first lists are in, or it is known that there are none."""
        while self._served is None:
            await self._clock.sleep(_AWAY / 10)
        if self._served:
            await super().synced()

    @property
    def waiting(self) -> str:
        """The kinds whose store is not complete and fresh; none, where they are not served."""
        return "" if self._served is False else super().waiting

    async def _is_served(self) -> bool:
        try:
            await self._cluster.list(r.DEVICECLASSES, None)
        except NotFound:
            if self._served is None:
                _log.info("%s is not served: no devices to claim", r.DEVICECLASSES.api_version)
            self._served = False
        except Unavailable:
            pass
        else:
            self._served = True
        return bool(self._served)

    # ------------------------------------------------------------------ what there is

    def device_class(self, name: str) -> JSON | None:
        """Return a device class."""
        return self.store(r.DEVICECLASSES).get(("", name))

    def device_claim(self, namespace: str, name: str) -> JSON | None:
        """Return a claim."""
        return self.store(r.RESOURCECLAIMS).get((namespace, name))

    def claim_template(self, namespace: str, name: str) -> JSON | None:
        """Return a template of claims."""
        return self.store(r.RESOURCECLAIMTEMPLATES).get((namespace, name))

    def avoided(self, namespace: str, name: str) -> Iterable[str]:
        """Return the nodes on which a claim, or one by a template, got no devices just now."""
        return self._avoided.nodes((namespace, name))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """All kinds of devices that are counted: each class, and what claims select of them."""
        return (*(Kind(name) for _, name in self.store(r.DEVICECLASSES)), *self._selected)

    # ------------------------------------------------------------------ what it comes to

    def of_pod(
        self, namespace: str, extras: Mapping[str, Any], *, pod: JSON | None = None, gang: str = ""
    ) -> Claimed:
        """Return what the claims of a pod's shape come to; ``gang``: of which job it is asked."""
        asked = claims_in(extras)
        if not asked:
            return NOTHING
        if gang:
            for one in asked:
                self._note(r.RESOURCECLAIMS, namespace, one.claim, gang)
                self._note(r.RESOURCECLAIMTEMPLATES, namespace, one.template, gang)
            self._note(r.DEVICECLASSES, "", "", gang)
        return claimed(namespace, asked, self, self.held, pod)

    def of_node(self, name: str) -> dict[str, int]:
        """Return how many devices of each kind a node has, by the names of resources."""
        return self.held.counts(name, self.kinds)

    def _note(self, resource: Resource, namespace: str, name: str, gang: str) -> None:
        if name or resource is r.DEVICECLASSES:
            self._gangs.setdefault((resource, namespace, name), set()).add(gang)

    # ------------------------------------------------------------------ what changes

    def failed(self, namespace: str, claim: PodClaim, node: str) -> None:
        """Leave a node out for a while on which a claim, or one by its template, got no devices."""
        self._avoided.add((namespace, claim.template or claim.claim), node)

    def _look_again(self, name: tuple[str, str]) -> None:
        """Tell anew of whoever asks for a claim or template."""
        self.on_asking(name[0])
        for resource in (r.RESOURCECLAIMS, r.RESOURCECLAIMTEMPLATES):
            self._tell_gangs((resource, *name))

    def _changed(self, resource: Resource, old: JSON | None, new: JSON | None) -> None:
        meta = (new or old or {})["metadata"]
        namespace, name = meta.get("namespace") or "", meta["name"]
        if resource is r.RESOURCESLICES:
            both = {pool_of(one) for one in (old, new) if one is not None}
            nodes = set[str]().union(
                *(self.held.put_pool(pool, self[resource].by(_BY_POOL, "/".join(pool))) for pool in both)
            )
            self._tell(nodes)
            return
        if resource is r.DEVICECLASSES:
            self.held.forget_matches()
            self._tell(list(self.held.on_node))
            self.on_asking("")
            self._tell_gangs((resource, "", ""))
            return
        spec = (new or {}).get("spec") or {}
        self._count((resource, namespace, name), kinds_of(spec.get("spec") or spec))
        if resource is r.RESOURCECLAIMS:
            self._tell(self.held.put_claim(old, new))
            self.on_claim(namespace, name)
        else:
            self.on_asking(namespace)
        self._tell_gangs((resource, namespace, name))

    def _count(self, name: Name, kinds: frozenset[Kind]) -> None:
        """Count who asks for kinds that select; where one is new or over, nodes tell anew."""
        before = self._asked.pop(name, frozenset())
        if kinds:
            self._asked[name] = kinds
        known = set(self._selected)
        self._selected.update(kind for kind in kinds if kind.selectors)
        self._selected.subtract(kind for kind in before if kind.selectors)
        self._selected = +self._selected
        if known != set(self._selected):
            self._tell(list(self.held.on_node))

    def _tell(self, nodes: Iterable[str]) -> None:
        for node in sorted(nodes):
            self.on_node(node)

    def _tell_gangs(self, name: Name) -> None:
        for gang in sorted(self._gangs.pop(name, ())):
            self.on_gang(gang)
