"""Claims and volumes of a scenario: who gets which volume, and from where it is reached.

It stands for Kubernetes' volume controller and the provisioners: a claim that need not wait for a pod is
bound when it appears, others when their first pod is placed. Making a volume takes no time and never fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from services.controller.core.claims import Place
from services.controller.core.model import JSON
from services.controller.core.persistent import (
    HOSTNAME,
    class_of,
    host_of,
    kind_of,
    reaches,
    smallest,
    volume_for,
)
from services.controller.core.volumes import (
    BIND_COMPLETED,
    Asked,
    driver_limits,
    free_volumes,
    is_bound,
    is_open,
    look_at,
    look_for,
    provisions,
    reach_of,
    topologies,
    volumes_of,
)
from services.simulation.core.store import Key, Store, key_of
from services.simulation.core.timeline import Timeline
from shared.api import resources as r
from shared.events.contracts import NodeState, Volumes


class Claims:
    """The claims and volumes in the store."""

    def __init__(self, store: Store, timeline: Timeline) -> None:
        self._store = store
        self._timeline = timeline
        self.on_change: Callable[[str, str], None] = lambda _namespace, _name: None
        """Told of a claim that got its volume."""
        self.on_host: Callable[[str], None] = lambda _host: None
        """Told of a node, by its hostname, that has other free volumes."""

    # ------------------------------------------------------------------ what there is

    def claim(self, namespace: str, name: str) -> JSON | None:
        """Return a claim."""
        return self._store.get(r.PVCS, (namespace, name))

    def volume(self, name: str) -> JSON | None:
        """Return a persistent volume."""
        return self._store.get(r.PVS, ("", name))

    def storage_class(self, name: str) -> JSON | None:
        """Return a storage class."""
        return self._store.get(r.STORAGECLASSES, ("", name))

    def classes(self) -> Iterable[JSON]:
        """Return all storage classes."""
        return self._store.all(r.STORAGECLASSES).values()

    def volumes_of(self, storage_class: str) -> Iterable[JSON]:
        """Return the persistent volumes of a class."""
        return [one for one in self._store.all(r.PVS).values() if class_of(one) == storage_class]

    def failed_on(self, namespace: str, name: str) -> Iterable[str]:
        """Return no node: making a volume never fails."""
        del namespace, name
        return ()

    def is_limited(self, driver: str) -> bool:
        """Whether some node limits how many volumes of a driver it takes."""
        return any(driver in driver_limits(one) for one in self._store.all(r.CSINODES).values())

    def of_shape(self, namespace: str, extras: Mapping[str, Any]) -> Volumes | None:
        """Return what the claims come to that a shape (its ``extras``) names; pods' own count as bound."""
        asked = Asked.by(namespace, {"claims": extras.get("claims")})
        if asked is None:
            return None
        return volumes_of(
            asked, lambda *name: look_for(self, *name), lambda claim: look_at(claim, self, made=False), self
        )

    def of_node(self, state: NodeState) -> NodeState:
        """Return a node's fact with the volumes that it takes and has free."""
        limits = driver_limits(self._store.get(r.CSINODES, ("", state.name)))
        host = state.labels.get(HOSTNAME)
        volumes = [one for one in self._store.all(r.PVS).values() if host and host_of(one) == host]
        free = {}
        if volumes:
            open_ = (one for one in self._store.all(r.PVCS).values() if not is_bound(one))
            free = free_volumes(volumes, {kind_of(one): one for one in open_})
        return state.model_copy(update={"volume_limits": limits, "free_volumes": free})

    # ------------------------------------------------------------------ who gets which

    def appear(self, raw: JSON) -> None:
        """Bind a claim that need not wait for a pod; of a class that is not there it is bound as it is."""
        claim = self._store.get(r.PVCS, key_of(raw))
        if claim is None or is_bound(claim):
            return
        named = (claim.get("spec") or {}).get("volumeName")
        found = self.storage_class(class_of(claim))
        volume = self.volume(named) if named else None
        if named and volume is None:
            return  # its volume may appear
        if volume is None and found is not None:
            if is_open(claim, found):
                return
            volume = smallest(self.volumes_of(class_of(claim)), claim)
            if volume is None and not (found.get("provisioner") and _makes(found)):
                return
        self._bind(claim, volume or self._make(claim, found, None))

    def look(self) -> None:
        """Bind what can be bound now: volumes or classes have appeared."""
        for claim in list(self._store.all(r.PVCS).values()):
            self.appear(claim)

    def bring_about(self, namespace: str, places: Mapping[str, Place]) -> dict[str, str]:
        """Give the claims of decided pods their volumes; return which pods cannot be where, and why."""
        failures: dict[str, str] = {}
        for pod, place in places.items():
            for name in place.claims:
                why = "" if name in place.own else self._settle((namespace, name), place.node)
                if why:
                    failures.setdefault(pod, why)
        return failures

    def _settle(self, key: Key, node: str) -> str:
        claim, label = self._store.get(r.PVCS, key), f"claim {key[0]}/{key[1]}"
        if claim is None:
            return f"{label} is not there"
        there = self._store.all(r.NODES)[("", node)]
        labels = there["metadata"].get("labels") or {}
        found = self.storage_class(class_of(claim))
        if not is_bound(claim) and found is not None and is_open(claim, found):
            volume = volume_for(self.volumes_of(class_of(claim)), claim, labels, node)
            if volume is None and provisions(found, labels, node):
                volume = self._make(claim, found, there)
            if volume is not None:
                claim = self._bind(claim, volume)
        if not is_bound(claim):
            return f"{label} finds no volume for node {node}"
        bound = self.volume(claim["spec"]["volumeName"])
        if bound is None or not all(reaches(terms, labels, node) for terms in reach_of(bound)):
            return f"{label}: its volume is not reached from node {node}"
        return ""

    def _make(self, claim: JSON, storage_class: JSON | None, node: JSON | None) -> JSON:
        """Make a volume, reached from where its driver says that volumes made for such a node are."""
        spec = claim.get("spec") or {}
        driver = "" if storage_class is None else storage_class.get("provisioner") or ""
        terms = self._topology(driver, node) or _first_allowed(storage_class)
        body: JSON = {
            "apiVersion": "v1",
            "kind": r.PVS.kind,
            "metadata": {"name": f"pvc-{claim['metadata']['uid']}"},
            "spec": {
                "accessModes": spec.get("accessModes") or [],
                "capacity": (spec.get("resources") or {}).get("requests") or {},
                "storageClassName": class_of(claim),
                **({"csi": {"driver": driver}} if driver else {}),
                **({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}),
            },
        }
        return self._store.create(r.PVS, body, self._timeline.now)

    def _topology(self, driver: str, node: JSON | None) -> list[JSON]:
        csi = None if node is None else self._store.get(r.CSINODES, ("", node["metadata"]["name"]))
        labels = {} if node is None else node["metadata"].get("labels") or {}
        drivers = ((csi or {}).get("spec") or {}).get("drivers") or ()
        keys = next((one.get("topologyKeys") or () for one in drivers if one.get("name") == driver), ())
        needs = [{"key": key, "operator": "In", "values": [labels[key]]} for key in keys if key in labels]
        return [{"matchExpressions": needs}] if needs else []

    def _bind(self, claim: JSON, volume: JSON) -> JSON:
        meta = claim["metadata"]
        ref = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
        name = volume["metadata"]["name"]
        taken = {**volume, "spec": {**volume["spec"], "claimRef": ref}, "status": {"phase": "Bound"}}
        self._store.put(r.PVS, taken)
        annotations = {**(meta.get("annotations") or {}), BIND_COMPLETED: "yes"}
        bound = {
            **claim,
            "metadata": {**meta, "annotations": annotations},
            "spec": {**(claim.get("spec") or {}), "volumeName": name},
            "status": {"phase": "Bound"},
        }
        self._store.put(r.PVCS, bound)
        host = host_of(volume)
        if host is not None:
            self.on_host(host)
        self.on_change(meta["namespace"], meta["name"])
        return bound


def _makes(storage_class: JSON) -> bool:
    return storage_class.get("provisioner") != "kubernetes.io/no-provisioner"


def _first_allowed(storage_class: JSON | None) -> list[JSON]:
    """Return the nodes of the first topology that a class allows."""
    allowed = (storage_class or {}).get("allowedTopologies") or ()
    expressions = [one for term in topologies(allowed[:1]) for one in term.expressions]
    needs = [{"key": one.key, "operator": one.operator, "values": list(one.values)} for one in expressions]
    return [{"matchExpressions": needs}] if needs else []
