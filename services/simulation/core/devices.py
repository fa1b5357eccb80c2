"""Claims on devices of a scenario: who gets which.

It stands for Kubernetes' controller of resource claims as well: claims are made by templates when their pod
is placed, and go with it; devices are given back when the last pod that may use them has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from services.controller.core.claims import Claimant
from services.controller.core.deviceclaims import (
    NOTHING,
    Claimed,
    Held,
    Kind,
    allocation,
    allocation_of,
    claimed,
    kinds_of,
    nodes_of,
    pool_of,
    reservation,
    template_spec,
)
from services.controller.core.model import JSON
from services.controller.core.persistent import reaches
from services.controller.core.podclaims import PodClaim, claims_in, claims_of_spec, made_claims
from services.simulation.core.store import Key, Store, key_of
from services.simulation.core.timeline import Timeline
from shared.api import resources as r
from shared.events.contracts import NodeState
from shared.kube.port import Resource

KINDS: Final = (r.DEVICECLASSES, r.RESOURCESLICES, r.RESOURCECLAIMS, r.RESOURCECLAIMTEMPLATES)
_POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim that was made for a pod."""
_TO_BE: Final = ""
"""UID of a pod that is decided and not started yet."""


class DeviceClaims:
    """The classes, slices and claims in the store; a catalogue of them."""

    def __init__(self, store: Store, timeline: Timeline) -> None:
        self._store = store
        self._timeline = timeline
        self._held = Held(self)
        self._given: list[Key] = []
        """Claims that got devices for pods which have not started yet."""
        self.on_node: Callable[[str], None] = lambda _name: None
        """Told of a node, by name, that has other devices to count."""
        self.on_claim: Callable[[str, str], None] = lambda _namespace, _name: None
        """Told of a claim that has devices now, or gave them back, and that several pods may name."""

    # ------------------------------------------------------------------ what there is

    def device_class(self, name: str) -> JSON | None:
        """Return a device class."""
        return self._store.get(r.DEVICECLASSES, ("", name))

    def device_claim(self, namespace: str, name: str) -> JSON | None:
        """Return a claim."""
        return self._store.get(r.RESOURCECLAIMS, (namespace, name))

    def claim_template(self, namespace: str, name: str) -> JSON | None:
        """Return a template of claims."""
        return self._store.get(r.RESOURCECLAIMTEMPLATES, (namespace, name))

    def avoided(self, namespace: str, name: str) -> Iterable[str]:
        """Return no node: what is decided is done at once."""
        del namespace, name
        return ()

    @property
    def _kinds(self) -> list[Kind]:
        templates = map(template_spec, self._store.all(r.RESOURCECLAIMTEMPLATES).values())
        claims = (one.get("spec") or {} for one in self._store.all(r.RESOURCECLAIMS).values())
        asked = {kind for spec in (*templates, *claims) for kind in kinds_of(spec) if kind.selectors}
        classes = (Kind(name) for _, name in self._store.all(r.DEVICECLASSES))
        return [*classes, *sorted(asked, key=lambda kind: kind.resource)]

    def of_shape(self, namespace: str, extras: Mapping[str, Any], pod: JSON | None = None) -> Claimed:
        """Return what the claims come to that a shape (its ``extras``) names."""
        asked = claims_in(extras)
        return claimed(namespace, asked, self, self._held, pod) if asked else NOTHING

    def of_node(self, state: NodeState) -> NodeState:
        """Return a node's fact with the devices that can be claimed."""
        counts = self._held.counts(state.name, self._kinds)
        if not counts:
            return state
        return state.model_copy(update={"allocatable": dict(sorted({**state.allocatable, **counts}.items()))})

    # ------------------------------------------------------------------ what appears and goes

    def changed(self, resource: Resource, old: JSON | None, new: JSON | None) -> None:
        """Take in an object that has appeared, changed or gone."""
        if resource is r.RESOURCESLICES:
            slices = self._store.all(r.RESOURCESLICES).values()
            for pool in {pool_of(one) for one in (old, new) if one is not None}:
                own = [one for one in slices if pool_of(one) == pool]
                for node in sorted(self._held.put_pool(pool, own)):
                    self.on_node(node)
            return
        if resource is r.DEVICECLASSES:
            self._held.forget_matches()
        if resource is r.RESOURCECLAIMS:
            self._held.put_claim(old, new)
        for node in sorted(self._held.on_node):
            self.on_node(node)

    def _put(self, old: JSON, status: JSON) -> JSON:
        new = self._store.put(r.RESOURCECLAIMS, {**old, "status": status})
        for node in sorted(self._held.put_claim(old, new)):
            self.on_node(node)
        if _POD_CLAIM not in (new["metadata"].get("annotations") or {}):
            self.on_claim(*key_of(new))
        return new

    # ------------------------------------------------------------------ who gets which

    def bring_about(self, namespace: str, claimants: Sequence[Claimant]) -> dict[str, str]:
        """Give the claims of decided pods their devices; return which pods get none where, and why."""
        failures: dict[str, str] = {}
        for one in claimants:
            for claim in one.claims:
                why = self._give(namespace, one, claim)
                if why:
                    failures.setdefault(one.pod, why)
        if failures:
            self.give_back()
        return failures

    def _give(self, namespace: str, pod: Claimant, asked: PodClaim) -> str:
        claim = self._make(namespace, pod, asked)
        label = f"resource claim {namespace}/{asked.claim or asked.template}"
        if claim is None:
            return f"{label} is not there"
        has = allocation_of(claim)
        user = reservation(pod.pod, _TO_BE)
        if has is None:
            chosen = self._held.choose(claim, pod.node, self._kinds)
            if isinstance(chosen, str):
                return f"{label}: {chosen}"
            status = {"allocation": allocation(claim, chosen, pod.node, self), "reservedFor": [user]}
        else:
            node = self._store.all(r.NODES)[("", pod.node)]
            labels = node["metadata"].get("labels") or {}
            if not all(reaches(terms, labels, pod.node) for terms in nodes_of(has)):
                return f"{label} has its devices on another node"
            status = {**claim["status"], "reservedFor": [*(claim["status"].get("reservedFor") or ()), user]}
        self._given.append(key_of(self._put(claim, status)))
        return ""

    def _make(self, namespace: str, pod: Claimant, asked: PodClaim) -> JSON | None:
        """Return a pod's claim, made by its template if it is by one."""
        name = asked.claim or _made_name(pod.pod, asked.name)
        found = self.device_claim(namespace, name)
        if found is not None or asked.claim:
            return found
        template = self.claim_template(namespace, asked.template)
        if template is None:
            return None
        body = {
            "apiVersion": r.RESOURCECLAIMS.api_version,
            "kind": r.RESOURCECLAIMS.kind,
            "metadata": {"namespace": namespace, "name": name, "annotations": {_POD_CLAIM: asked.name}},
            "spec": template_spec(template),
        }
        return self._store.create(r.RESOURCECLAIMS, body, self._timeline.now)

    def started(self, pod: JSON) -> JSON:
        """Return a pod that has its claims' devices, as it says so."""
        asked = claims_of_spec(pod.get("spec"))
        if not asked:
            return pod
        (namespace, pod_name), uid = key_of(pod), pod["metadata"]["uid"]
        made: list[JSON] = []
        for one in asked:
            name = one.claim or _made_name(pod_name, one.name)
            claim = self.device_claim(namespace, name)
            if claim is None:
                continue
            if one.template:
                made.append({"name": one.name, "resourceClaimName": name})
            users = [
                user
                for user in (claim.get("status") or {}).get("reservedFor") or ()
                if (user["name"], user["uid"]) != (pod_name, _TO_BE)
            ]
            status = {**(claim.get("status") or {}), "reservedFor": [*users, reservation(pod_name, uid)]}
            self._put(claim, status)
            if (namespace, name) in self._given:
                self._given.remove((namespace, name))
        return {**pod, "status": {**pod["status"], **({"resourceClaimStatuses": made} if made else {})}}

    def ended(self, pod: JSON) -> None:
        """Take back what a pod had that has ended or is gone."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        made = made_claims(pod)
        for one in claims_of_spec(pod.get("spec")):
            self._take_back(
                (namespace, one.claim or made.get(one.name) or ""), uid, of_pod=bool(one.template)
            )

    def give_back(self) -> None:
        """Take back what was given for pods that did not start."""
        for key in self._given:
            self._take_back(key, _TO_BE, of_pod=False)
        self._given = []

    def _take_back(self, key: Key, uid: str, *, of_pod: bool) -> None:
        claim = self._store.get(r.RESOURCECLAIMS, key)
        if claim is None or allocation_of(claim) is None:
            return
        left = [one for one in claim["status"].get("reservedFor") or () if one["uid"] != uid]
        self._put(claim, {**claim["status"], "reservedFor": left} if left else {})
        if of_pod:
            self._store.remove(r.RESOURCECLAIMS, key)


def _made_name(pod: str, claim: str) -> str:
    return f"{pod}-{claim}"
