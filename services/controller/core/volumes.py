"""What the claims of pods ask of nodes, worked out from claims, volumes and classes as they are now.

A claim that is bound asks for a node from which its volume is reached. One of a class that waits for its
first pod asks for a node where it will get a volume: one of the topologies in which its class provisions, or
one that a free volume is reached from; of volumes of single nodes it is told what kind they must be, and
nodes tell how many of it they have. With any other claim nobody could say where the pod may go: it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from services.controller.core.model import JSON
from services.controller.core.persistent import (
    Terms,
    affinity_of,
    class_of,
    host_of,
    is_for,
    kind_of,
    reaches,
    suits,
    zones_of,
)
from shared.events.contracts import Mount, NodeTerm, Requirement, Volumes

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_WAITS: Final = "WaitForFirstConsumer"
_NOBODY: Final = ("", "kubernetes.io/no-provisioner")
_ALONE: Final = "ReadWriteOncePod"


class Storage(Protocol):
    """The objects that claims depend on."""

    def claim(self, namespace: str, name: str) -> JSON | None:
        """Return a claim."""
        ...

    def volume(self, name: str) -> JSON | None:
        """Return a persistent volume."""
        ...

    def storage_class(self, name: str) -> JSON | None:
        """Return a storage class."""
        ...

    def classes(self) -> Iterable[JSON]:
        """Return all storage classes."""
        ...

    def volumes_of(self, storage_class: str) -> Iterable[JSON]:
        """Return the persistent volumes of a class."""
        ...

    def failed_on(self, namespace: str, name: str) -> Iterable[str]:
        """Return the nodes for which a claim could not be provisioned just now."""
        ...

    def is_limited(self, driver: str) -> bool:
        """Whether some node limits how many volumes of a driver it takes."""
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """The claims of a pod: ``named`` ones, and ``own`` ones by the name of their volume, as they are made."""

    namespace: str
    named: tuple[str, ...] = ()
    own: tuple[tuple[str, JSON], ...] = ()
    pod: str = ""
    """Whose own claims they are; empty: of a pod that is not made yet."""

    @staticmethod
    def by(namespace: str, extras: Mapping[str, Any], pod: str = "") -> Asked | None:
        """Return what a shape (its ``extras``) asks for; None for a pod without claims."""
        named, own = extras.get("claims") or (), extras.get("ephemeral") or ()
        if not named and not own:
            return None
        templates = tuple((str(one["name"]), dict(one["spec"])) for one in own)
        return Asked(namespace, tuple(named), templates, pod if own else "")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all claims that are there or to be."""
        return (*self.named, *(own_claim(self.pod, volume) for volume, _ in self.own if self.pod))

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from others."""
        return self.namespace, self.named, self.pod, repr(self.own)


def own_claim(pod: str, volume: str) -> str:
    """Return the name of the claim that is made for a pod's volume."""
    return f"{pod}-{volume}"


@dataclass(frozen=True, slots=True)
class Found:
    """What one claim comes to."""

    waits: str = ""
    reach: tuple[Terms, ...] = ()
    driver: str = ""
    kind: str = ""
    """Of free volumes of single nodes, that it gets one of."""
    alone: bool = False
    depends: tuple[str, ...] = ()
    """The volume (``pv/…``) or class (``class/…``) that it depends on."""


Look = Callable[[str, str], Found]
"""What a claim comes to that is there or is not, by namespace and name."""
Planned = Callable[[JSON], Found]
"""What a claim comes to that is made later."""


def volumes_of(asked: Asked, look: Look, plan: Planned, storage: Storage) -> Volumes | None:
    """Return what a pod's claims come to in all; None where they ask for nothing."""
    reach: dict[Terms, None] = {}
    mounts: list[Mount] = []
    waits: list[str] = []
    for name in dict.fromkeys(asked.named):
        found = look(asked.namespace, name)
        waits.append(found.waits)
        reach.update(dict.fromkeys(found.reach))
        mounts += _mounts(found, f"{asked.namespace}/{name}", storage)
    for volume, spec in asked.own:
        found = _look_own(asked, volume, spec, look, plan, storage)
        waits.append(found.waits)
        reach.update(dict.fromkeys(found.reach))
        mounts += _mounts(found, "", storage)
    first = next(filter(None, waits), "")
    if not (first or reach or mounts):
        return None
    return Volumes(waits_for=first, reach=tuple(reach), mounts=tuple(mounts))


def _look_own(asked: Asked, volume: str, spec: JSON, look: Look, plan: Planned, storage: Storage) -> Found:
    name = own_claim(asked.pod, volume)
    if asked.pod and storage.claim(asked.namespace, name) is not None:
        return look(asked.namespace, name)
    spec = spec if "storageClassName" in spec else {**spec, "storageClassName": default_class(storage)}
    return plan({"metadata": {"namespace": asked.namespace, "name": volume}, "spec": spec})


def _mounts(found: Found, volume: str, storage: Storage) -> Iterable[Mount]:
    driver = found.driver if storage.is_limited(found.driver) else ""
    if driver or found.kind or found.alone:
        yield Mount(volume=volume, driver=driver, free=found.kind, exclusive=found.alone and bool(volume))


def look_for(storage: Storage, namespace: str, name: str) -> Found:
    """Return what a claim comes to, if it is there."""
    claim = storage.claim(namespace, name)
    return Found(f"claim {namespace}/{name} is not there") if claim is None else look_at(claim, storage)


def look_at(claim: JSON, storage: Storage, *, made: bool = True) -> Found:
    """Return what a claim comes to; one that is not ``made`` yet is as it will be."""
    meta, spec = claim["metadata"], claim.get("spec") or {}
    label = f"claim {meta['namespace']}/{meta['name']}"
    lost = (claim.get("status") or {}).get("phase") == "Lost"
    if lost or meta.get("deletionTimestamp"):
        return Found(f"{label} is lost: its volume is gone" if lost else f"{label} is being deleted")
    alone = _ALONE in (spec.get("accessModes") or ())
    if is_bound(claim):
        return _bound(spec["volumeName"], label, storage, alone=alone)
    storage_class = storage.storage_class(class_of(claim))
    if storage_class is None or not is_open(claim, storage_class):
        return _soon_bound(claim, storage_class, label, made=made)
    try:
        return _open(claim, storage_class, label, storage, alone=alone)
    except ValueError as error:
        return Found(f"{label} or a volume of its class cannot be read: {error}", depends=_by_class(claim))


def _soon_bound(claim: JSON, storage_class: JSON | None, label: str, *, made: bool) -> Found:
    """Return what a claim comes to that gets its volume before its pod gets a node."""
    if storage_class is None:
        why = "it is of no class that there is"
    elif not made:
        return Found(driver=_provisioner(storage_class))
    else:
        why = f"its class {class_of(claim)} binds at once"
    return Found(f"{label} is not bound to a volume yet: {why}", depends=_by_class(claim))


def is_open(claim: JSON, storage_class: JSON) -> bool:
    """Whether a claim gets its volume when its first pod gets a node."""
    named = bool((claim.get("spec") or {}).get("volumeName"))
    return not named and storage_class.get("volumeBindingMode") == _WAITS


def is_bound(claim: JSON) -> bool:
    """Whether a claim has its volume for good."""
    completed = BIND_COMPLETED in (claim["metadata"].get("annotations") or {})
    return completed and bool((claim.get("spec") or {}).get("volumeName"))


def _by_class(claim: JSON) -> tuple[str, ...]:
    return (f"class/{class_of(claim)}",)


def _bound(name: str, label: str, storage: Storage, *, alone: bool) -> Found:
    volume, depends = storage.volume(name), (f"pv/{name}",)
    if volume is None:
        return Found(f"{label} is bound to volume {name}, which is not there", depends=depends)
    try:
        reach = reach_of(volume)
    except ValueError as error:
        return Found(f"volume {name} of {label} cannot be read: {error}", depends=depends)
    driver = ((volume.get("spec") or {}).get("csi") or {}).get("driver") or ""
    return Found(reach=reach, driver=driver, alone=alone, depends=depends)


def reach_of(volume: JSON) -> tuple[Terms, ...]:
    """Return from where a volume is reached: its affinity and its zones. Raises ValueError."""
    return tuple(terms for terms in (affinity_of(volume), zones_of(volume)) if terms is not None)


def _open(claim: JSON, storage_class: JSON, label: str, storage: Storage, *, alone: bool) -> Found:
    """Return what a claim comes to that gets its volume with its pod's node."""
    depends, provisioner = _by_class(claim), _provisioner(storage_class)
    selected = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
    if selected:
        reach = ((NodeTerm(fields=(_names("In", (selected,)),)),),)
        return Found(reach=reach, driver=provisioner, alone=alone, depends=depends)
    volumes = list(storage.volumes_of(class_of(claim)))
    kept = next((one for one in volumes if is_for(one, claim)), None)
    if kept is not None and not provisioner:
        return Found(reach=_or_all([affinity_of(kept)]), alone=alone, depends=depends)
    suitable = [one for one in volumes if one is kept or suits(one, claim)]
    if provisioner:
        return Found(
            reach=(*_provisioned(storage_class, suitable), *_elsewhere(claim, storage)),
            driver=provisioner,
            alone=alone,
            depends=depends,
        )
    if not suitable:
        why = f"no volume of class {class_of(claim)} is free that suits it, and nobody makes one"
        return Found(f"{label}: {why}", depends=depends)
    if all(host_of(one) is not None for one in suitable):
        return Found(kind=kind_of(claim), alone=alone, depends=depends)
    return Found(reach=_or_all([affinity_of(one) for one in suitable]), alone=alone, depends=depends)


def _provisioned(storage_class: JSON, volumes: list[JSON]) -> tuple[Terms, ...]:
    """Return where a class provisions, or a volume is there already."""
    allowed = storage_class.get("allowedTopologies") or ()
    return _or_all([topologies(allowed), *map(affinity_of, volumes)]) if allowed else ()


def topologies(allowed: Iterable[JSON]) -> Terms:
    """Return the nodes of a class' allowed topologies."""
    return tuple(
        NodeTerm(
            expressions=tuple(
                Requirement(key=one.get("key") or "", operator="In", values=tuple(one.get("values") or ()))
                for one in term.get("matchLabelExpressions") or ()
            )
        )
        for term in allowed
    )


def _elsewhere(claim: JSON, storage: Storage) -> tuple[Terms, ...]:
    """Return the nodes for which provisioning has not just failed."""
    failed = tuple(storage.failed_on(claim["metadata"]["namespace"], claim["metadata"]["name"]))
    return ((NodeTerm(fields=tuple(_names("NotIn", (name,)) for name in failed)),),) if failed else ()


def _names(operator: str, values: tuple[str, ...]) -> Requirement:
    return Requirement.model_validate({"key": "metadata.name", "operator": operator, "values": values})


def _or_all(alternatives: list[Terms | None]) -> tuple[Terms, ...]:
    """Return alternatives as one; nothing when one of them is any node."""
    terms = [terms for terms in alternatives if terms is not None]
    if len(terms) < len(alternatives):
        return ()
    return (tuple(dict.fromkeys(term for some in terms for term in some)),)


def _provisioner(storage_class: JSON) -> str:
    """Return who makes volumes of a class; empty: nobody."""
    provisioner = str(storage_class.get("provisioner") or "")
    return "" if provisioner in _NOBODY else provisioner


def provisions(storage_class: JSON, labels: Mapping[str, str], name: str) -> bool:
    """Whether a class makes volumes for a node."""
    allowed = storage_class.get("allowedTopologies") or ()
    return bool(_provisioner(storage_class)) and (not allowed or reaches(topologies(allowed), labels, name))


def default_class(storage: Storage) -> str:
    """Return the class of claims that name none: of several marked as default the newest."""
    marked = [
        (one["metadata"].get("creationTimestamp") or "", one["metadata"]["name"])
        for one in storage.classes()
        if (one["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    ]
    return max(marked)[1] if marked else ""


# ---------------------------------------------------------------------- what nodes have


def driver_limits(csi_node: JSON | None) -> dict[str, int]:
    """Return how many volumes of each driver a node takes, as its CSINode says."""
    drivers = ((csi_node or {}).get("spec") or {}).get("drivers") or ()
    counts = {one["name"]: (one.get("allocatable") or {}).get("count") for one in drivers}
    return {name: max(0, int(count)) for name, count in sorted(counts.items()) if count is not None}


def free_volumes(volumes: Iterable[JSON], kinds: Mapping[str, JSON]) -> dict[str, int]:
    """Return how many of a node's volumes suit claims, by kind; ``kinds`` has a claim of each."""
    there = list(volumes)
    counts = {kind: sum(suits(one, claim) for one in there) for kind, claim in sorted(kinds.items())}
    return {kind: count for kind, count in counts.items() if count}
