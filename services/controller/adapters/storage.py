"""What claims come to, kept as it was worked out until something changes that it follows from.

Volumes, classes and what nodes say about drivers are watched here; the claims are those of the dependents'
informer. A claim is worked out when a pod or gang first asks for it, and again when the claim, its volume or
its class changes; only when it comes to something else are the pods and gangs told anew that asked for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from services.controller.adapters.avoided import Avoided
from services.controller.core.model import JSON
from services.controller.core.persistent import HOSTNAME, class_of, host_of
from services.controller.core.volumes import (
    Asked,
    Found,
    driver_limits,
    free_volumes,
    look_at,
    look_for,
    volumes_of,
)
from shared.api import resources as r
from shared.clock import Clock
from shared.events.contracts import Volumes
from shared.kube.informers import Informers, following
from shared.kube.port import Cluster, Resource

KINDS: Final = (r.PVS, r.STORAGECLASSES, r.CSINODES)
_BY_CLASS: Final = "class"
_BY_HOST: Final = "host"
Name = tuple[str, str]
"""Namespace and name of a claim; of one that is not made yet, what it will be."""


class StorageViews(Informers):
    """Answers from the informers' stores; see :class:`services.controller.core.volumes.Storage`."""

    def __init__(self, cluster: Cluster, *, clock: Clock) -> None:
        indexes = {r.PVS: {_BY_CLASS: lambda one: (class_of(one),), _BY_HOST: _hosts}}
        super().__init__(following(cluster, KINDS, clock=clock, on_change=self._changed, indexes=indexes))
        self.claims: Mapping[Name, JSON] = {}
        """All claims, live."""
        self.on_claim: Callable[[str, str, Iterable[str]], None] = lambda _namespace, _name, _gangs: None
        """Told of a claim that comes to something else, and of the jobs' gangs that asked for it."""
        self.on_volume: Callable[[str, str], None] = lambda _namespace, _name: None
        """Told of a claim whose volume has changed."""
        self.on_node: Callable[[str], None] = lambda _name: None
        """Told of a node, by name, that has other drivers."""
        self.on_host: Callable[[str], None] = lambda _host: None
        """Told of a node, by its hostname, that has other free volumes."""
        self._found: dict[Name, Found] = {}
        self._planned: dict[Name, JSON] = {}
        """Claims that are not made yet, as they will be."""
        self._following: dict[str, set[Name]] = {}
        """Claims by what they depend on."""
        self._known: dict[tuple[object, ...], Volumes | None] = {}
        """What the claims of a pod come to."""
        self._used: dict[Name, set[tuple[object, ...]]] = {}
        self._gangs: dict[Name, set[str]] = {}
        self._kinds: dict[str, dict[Name, JSON]] = {}
        """Claims that ask for free volumes of single nodes, by kind."""
        self._limited: frozenset[str] = frozenset()
        """Drivers that some node limited: once one did, its volumes are always told."""
        self._avoided: Avoided[Name] = Avoided(clock, lambda name: self._look_again([name]))

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())
            group.create_task(self._avoided.run())

    # ------------------------------------------------------------------ what there is

    def claim(self, namespace: str, name: str) -> JSON | None:
        """Return a claim."""
        return self.claims.get((namespace, name))

    def volume(self, name: str) -> JSON | None:
        """Return a persistent volume."""
        return self.store(r.PVS).get(("", name))

    def storage_class(self, name: str) -> JSON | None:
        """Return a storage class."""
        return self.store(r.STORAGECLASSES).get(("", name))

    def classes(self) -> Iterable[JSON]:
        """Return all storage classes."""
        return self.store(r.STORAGECLASSES).values()

    def volumes_of(self, storage_class: str) -> Iterable[JSON]:
        """Return the persistent volumes of a class."""
        return self[r.PVS].by(_BY_CLASS, storage_class)

    def failed_on(self, namespace: str, name: str) -> Iterable[str]:
        """Return the nodes for which a claim could not be provisioned just now."""
        return self._avoided.nodes((namespace, name))

    def is_limited(self, driver: str) -> bool:
        """Whether some node limits how many volumes of a driver it takes."""
        return driver in self._limited

    # ------------------------------------------------------------------ what it comes to

    def of_pod(
        self, namespace: str, extras: Mapping[str, Any], *, pod: str = "", gang: str = ""
    ) -> Volumes | None:
        """Return what the claims of a pod's shape come to; ``gang``: of which job it is asked."""
        asked = Asked.by(namespace, extras, pod)
        if asked is None:
            return None
        if gang:
            for name in asked.names:
                self._gangs.setdefault((namespace, name), set()).add(gang)
        key = asked.key
        if key not in self._known:
            looked: list[Name] = [(namespace, name) for name in asked.names]
            self._known[key] = volumes_of(
                asked, partial(self._look, looked), partial(self._plan, looked), self
            )
            for one in looked:
                self._used.setdefault(one, set()).add(key)
                if gang:
                    self._gangs.setdefault(one, set()).add(gang)
        return self._known[key]

    def of_node(self, node: JSON) -> tuple[dict[str, int], dict[str, int]]:
        """Return how many volumes of each driver a node takes, and how many free ones of each kind it has."""
        meta = node["metadata"]
        limits = driver_limits(self.store(r.CSINODES).get(("", meta["name"])))
        host = (meta.get("labels") or {}).get(HOSTNAME)
        if host is None or not self._kinds:
            return limits, {}
        kinds = {kind: next(iter(claims.values())) for kind, claims in self._kinds.items()}
        return limits, free_volumes(self[r.PVS].by(_BY_HOST, host), kinds)

    def _look(self, looked: list[Name], namespace: str, name: str) -> Found:
        return self._remember(looked, (namespace, name))

    def _plan(self, looked: list[Name], claim: JSON) -> Found:
        name = (claim["metadata"]["namespace"], f"\0{claim['spec']!r}")
        self._planned[name] = claim
        return self._remember(looked, name)

    def _remember(self, looked: list[Name], name: Name) -> Found:
        looked.append(name)
        found = self._found.get(name)
        if found is None:
            found = self._work_out(name)
            self._keep(name, found)
        return found

    def _work_out(self, name: Name) -> Found:
        planned = self._planned.get(name)
        return look_for(self, *name) if planned is None else look_at(planned, self, made=False)

    def _keep(self, name: Name, found: Found) -> None:
        self._found[name] = found
        for one in found.depends:
            self._following.setdefault(one, set()).add(name)
        if found.kind:
            claim = self._planned.get(name) or self.claims[name]
            kinds = self._kinds.setdefault(found.kind, {})
            kinds[name] = claim
            if len(kinds) == 1:
                self._tell_hosts(claim)

    def _drop(self, name: Name) -> None:
        found = self._found.pop(name, Found())
        for one in found.depends:
            self._following[one].discard(name)
            if not self._following[one]:
                del self._following[one]
        if found.kind:
            claim = self._kinds[found.kind].pop(name)
            if not self._kinds[found.kind]:
                del self._kinds[found.kind]
                self._tell_hosts(claim)
        for key in self._used.pop(name, ()):
            self._known.pop(key, None)
        self._planned.pop(name, None)

    # ------------------------------------------------------------------ what changes

    def claim_changed(self, namespace: str, name: str) -> None:
        """Look at a claim anew."""
        self._look_again([(namespace, name)])

    def provisioning_failed(self, namespace: str, name: str, node: str) -> None:
        """Leave a node out for a while for which a claim could not be provisioned."""
        self._avoided.add((namespace, name), node)

    def _look_again(self, names: Iterable[Name], *, anyway: bool = False) -> None:
        asked = [name for name in names if name in self._found or name in self._used]
        stale = [name for name in asked if anyway or self._found.get(name) != self._work_out(name)]
        for name in stale:
            self._drop(name)
        for name in stale:
            self.on_claim(*name, self._gangs.pop(name, ()))

    def _changed(self, resource: Resource, old: JSON | None, new: JSON | None) -> None:
        both = [one for one in (old, new) if one is not None]
        name = both[0]["metadata"]["name"]
        if resource is r.CSINODES:
            self._driver_changed(new)
            self.on_node(name)
            return
        of = [f"class/{name}"]
        if resource is r.PVS:
            of = [f"pv/{name}", *(f"class/{class_of(one)}" for one in both)]
            for host in {host for one in both for host in _hosts(one)} if self._kinds else ():
                self.on_host(host)
            refs = [ref for one in both if (ref := one["spec"].get("claimRef"))]
            for claim in {(ref.get("namespace") or "", ref.get("name") or "") for ref in refs}:
                self.on_volume(*claim)
        self._look_again({one for what in of for one in self._following.get(what, ())})

    def _driver_changed(self, new: JSON | None) -> None:
        """Tell anew of all volumes when a driver is limited for the first time."""
        limited = self._limited | driver_limits(new).keys()
        if limited != self._limited:
            self._limited = limited
            self._look_again(list(self._found), anyway=True)

    def _tell_hosts(self, claim: JSON) -> None:
        for host in {host for one in self.volumes_of(class_of(claim)) for host in _hosts(one)}:
            self.on_host(host)


def _hosts(volume: JSON) -> tuple[str, ...]:
    host = host_of(volume)
    return () if host is None else (host,)
