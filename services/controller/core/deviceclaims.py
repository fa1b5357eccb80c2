"""Claims on devices (dynamic resource allocation): what they ask of nodes, and which devices they get.

Devices are counted for the scheduler like any other resource. A claim's request asks for so many of its
class, ``deviceclass/NAME``, and where it selects among them also for so many of what it selects,
``deviceclass/NAME/DIGEST``. A node tells how many it has of each, but for those that somebody holds who does
not count them: so what pods count and what nodes tell always fit together, also where one device is of
several classes. Which devices a claim gets is chosen when its pod has a node.

Claims that ask for more than can be counted (``firstAvailable``, all devices of a node, access for
administrators, parts of devices) are said to be so, and their pods wait. Devices are left out that are not
of one node, are tainted, or share counters with others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Protocol

from services.controller.core.model import JSON
from services.controller.core.podclaims import PodClaim, made_claims
from services.controller.core.selectors import Facts, problem_of, quantity, selects, version
from services.controller.core.shapes import node_term
from shared.api.names import DEVICE_CLASS
from shared.api.placement import NodeSelectorTerm
from shared.events.contracts import NodeTerm, Requirement

PROTECTION: Final = "resource.kubernetes.io/delete-protection"
"""Finalizer of a claim that has devices."""
_TRIES: Final = 20_000
"""Steps after which no other choice of devices is tried."""
_STOPS: Final = frozenset({"NoSchedule", "NoExecute"})
_UNCOUNTED: Final = ("consumesCounters", "bindingConditions", "bindsToNode", "allowMultipleAllocations")

DeviceId = tuple[str, str, str]
"""Driver, pool and name."""
Terms = tuple[NodeTerm, ...]


class Catalogue(Protocol):
    """The objects that claims depend on."""

    def device_class(self, name: str) -> JSON | None:
        """Return a device class."""
        ...

    def device_claim(self, namespace: str, name: str) -> JSON | None:
        """Return a claim."""
        ...

    def claim_template(self, namespace: str, name: str) -> JSON | None:
        """Return a template of claims."""
        ...

    def avoided(self, namespace: str, name: str) -> Iterable[str]:
        """Return the nodes on which a claim, or one by a template, got no devices just now."""
        ...


# ---------------------------------------------------------------------- what is asked for


@dataclass(frozen=True, slots=True)
class Kind:
    """Devices that are asked for alike: those of a class, or some of them."""

    device_class: str
    selectors: tuple[str, ...] = ()

    @property
    def resource(self) -> str:
        """The name by which they are counted."""
        if not self.selectors:
            return f"{DEVICE_CLASS}{self.device_class}"
        digest = blake2b("\0".join(self.selectors).encode(), digest_size=4).hexdigest()
        return f"{DEVICE_CLASS}{self.device_class}/{digest}"

    @property
    def counted(self) -> tuple[Kind, ...]:
        """All kinds that such a device is counted as: its class, and what is selected of it."""
        return (Kind(self.device_class), self) if self.selectors else (self,)


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a claim."""

    name: str
    kind: Kind
    count: int


def requests_of(spec: JSON) -> tuple[Request, ...]:
    """Return what a claim asks for. Raises ValueError for what is not supported, naming it."""
    devices = spec.get("devices") or {}
    for one in devices.get("constraints") or ():
        if not one.get("matchAttribute"):
            raise ValueError("constraints other than matchAttribute are not supported")
    return tuple(_request(one) for one in devices.get("requests") or ())


def _request(raw: JSON) -> Request:
    name, exactly = str(raw.get("name") or ""), raw.get("exactly")
    at = f"request {name}"
    if exactly is None:
        raise ValueError(f"{at}: firstAvailable is not supported")
    if (mode := exactly.get("allocationMode") or "ExactCount") != "ExactCount":
        raise ValueError(f"{at}: allocationMode {mode} is not supported")
    for what in ("adminAccess", "capacity"):
        if exactly.get(what):
            raise ValueError(f"{at}: {what} is not supported")
    selectors = _expressions(exactly)
    for expression in selectors:
        if problem := problem_of(expression):
            raise ValueError(f"{at}: its selector cannot be read: {problem}")
    count = exactly.get("count")
    return Request(
        name, Kind(str(exactly.get("deviceClassName") or ""), selectors), 1 if count is None else count
    )


def _expressions(obj: JSON) -> tuple[str, ...]:
    return tuple(str((one.get("cel") or {}).get("expression") or "") for one in obj.get("selectors") or ())


def kinds_of(spec: JSON) -> frozenset[Kind]:
    """Return the kinds that a claim asks for; none for one that is not supported."""
    try:
        return frozenset(kind for one in requests_of(spec) for kind in one.kind.counted)
    except ValueError:
        return frozenset()


@dataclass(frozen=True, slots=True)
class Claimed:
    """What the claims of a pod come to."""

    waits_for: str = ""
    """Which claim is in no state to be placed by, and why."""
    reach: tuple[Terms, ...] = ()
    """The nodes of devices that claims have: a node must match one term of each."""
    amounts: tuple[tuple[str, int], ...] = ()
    """How many devices of each kind the pod takes on its node, by the name of the resource."""


NOTHING: Final = Claimed()


def claimed(
    namespace: str, asked: Sequence[PodClaim], there: Catalogue, held: Held, pod: JSON | None = None
) -> Claimed:
    """Return what the claims of a pod come to; of a pod that is not made yet, as far as they are there."""
    made = {} if pod is None else made_claims(pod)
    uid = "" if pod is None else str(pod["metadata"]["uid"])
    waits, reach, amounts = "", dict[Terms, None](), Counter[str]()
    for one in asked:
        name = one.claim or made.get(one.name)
        if name == "":
            continue
        found = _named(namespace, name, one, there, held, uid) if name else _planned(namespace, one, there)
        waits = waits or found.waits_for
        reach.update(dict.fromkeys(found.reach))
        amounts.update(dict(found.amounts))
    return Claimed(waits, tuple(reach), tuple(sorted(amounts.items())))


def _named(namespace: str, name: str, one: PodClaim, there: Catalogue, held: Held, uid: str) -> Claimed:
    raw, label = there.device_claim(namespace, name), f"resource claim {namespace}/{name}"
    if raw is None:
        return Claimed(f"{label} is not there")
    allocation = allocation_of(raw)
    if allocation is None:
        if raw["metadata"].get("deletionTimestamp"):
            return Claimed(f"{label} is being deleted")
        return _asks(label, raw.get("spec") or {}, there, there.avoided(namespace, one.template or name))
    amounts = tuple(sorted(held.amounts_of(raw).items())) if holder_of(raw) == uid != "" else ()
    try:
        reach = () if is_held_by(raw, uid) else nodes_of(allocation)
    except ValueError as error:
        return Claimed(f"{label}: its node selector cannot be read: {error}")
    return Claimed("", reach, amounts)


def _planned(namespace: str, one: PodClaim, there: Catalogue) -> Claimed:
    template = there.claim_template(namespace, one.template)
    label = f"resource claim template {namespace}/{one.template}"
    if template is None:
        return Claimed(f"{label} is not there")
    return _asks(label, template_spec(template), there, there.avoided(namespace, one.template))


def template_spec(template: JSON) -> JSON:
    """Return what claims by a template ask for; nothing where it does not say."""
    spec: JSON = (template.get("spec") or {}).get("spec") or {}
    return spec


def _asks(label: str, spec: JSON, there: Catalogue, avoided: Iterable[str]) -> Claimed:
    """Return what a claim comes to that has no devices yet."""
    try:
        requests = requests_of(spec)
    except ValueError as error:
        return Claimed(f"{label}: {error}")
    amounts = Counter[str]()
    for one in requests:
        name = one.kind.device_class
        found = there.device_class(name)
        if found is None:
            return Claimed(f"{label}: there is no device class {name}")
        for expression in _expressions(found.get("spec") or {}):
            if problem := problem_of(expression):
                return Claimed(f"{label}: a selector of device class {name} cannot be read: {problem}")
        for kind in one.kind.counted:
            amounts[kind.resource] += one.count
    return Claimed("", _elsewhere(tuple(avoided)), tuple(sorted(amounts.items())))


def _elsewhere(avoided: tuple[str, ...]) -> tuple[Terms, ...]:
    if not avoided:
        return ()
    names = Requirement(key="metadata.name", operator="NotIn", values=avoided)
    return ((NodeTerm(fields=(names,)),),)


# ---------------------------------------------------------------------- what claims have


def allocation_of(claim: JSON) -> JSON | None:
    """Return which devices a claim has; None: none yet."""
    found: JSON | None = (claim.get("status") or {}).get("allocation")
    return found


def reserved_for(claim: JSON) -> tuple[str, ...]:
    """Return the UIDs of those who may use a claim's devices."""
    return tuple(str(one.get("uid") or "") for one in (claim.get("status") or {}).get("reservedFor") or ())


def holder_of(claim: JSON) -> str:
    """Return the UID of the pod that counts a claim's devices: the first of those that may use them."""
    return next(iter(reserved_for(claim)), "")


def is_held_by(claim: JSON, uid: str) -> bool:
    """Whether a claim's devices are for one pod alone: without a node yet, it may get others elsewhere."""
    return reserved_for(claim) == (uid,) and uid != ""


def nodes_of(allocation: JSON) -> tuple[Terms, ...]:
    """Return the nodes from which devices are reached. Raises ValueError."""
    selector = allocation.get("nodeSelector")
    if selector is None:
        return ()
    terms = selector.get("nodeSelectorTerms") or ()
    return (tuple(node_term(NodeSelectorTerm.model_validate(one)) for one in terms),)


def devices_held(claim: JSON) -> Iterator[tuple[DeviceId, str]]:
    """Yield the devices that a claim has, each with its request."""
    allocation = allocation_of(claim) or {}
    for one in (allocation.get("devices") or {}).get("results") or ():
        if not one.get("adminAccess"):
            yield (one["driver"], one["pool"], one["device"]), one.get("request") or ""


def counted_as(claim: JSON) -> dict[DeviceId, tuple[Kind, ...]]:
    """Return as what the holder counts each of a claim's devices."""
    try:
        kinds = {one.name: one.kind.counted for one in requests_of(claim.get("spec") or {})}
    except ValueError:  # somebody else chose for it
        kinds = dict[str, tuple[Kind, ...]]()
    return {device: kinds.get(request, ()) for device, request in devices_held(claim)}


# ---------------------------------------------------------------------- what nodes have


@dataclass(frozen=True, slots=True)
class Device:
    """A device that can be claimed."""

    id: DeviceId
    node: str
    facts: Facts = field(repr=False, compare=False)

    def attribute(self, name: str) -> Any:
        """Return the value of an attribute by its full name; None where it has none."""
        domain, _, last = name.rpartition("/")
        return self.facts["attributes"].get(domain or self.id[0], {}).get(last)


def pool_of(resource_slice: JSON) -> tuple[str, str]:
    """Return the driver and the pool that a slice is a part of."""
    spec = resource_slice.get("spec") or {}
    return str(spec.get("driver") or ""), str((spec.get("pool") or {}).get("name") or "")


def devices_in(slices: Iterable[JSON]) -> list[Device]:
    """Return the devices of a pool that can be counted, in order; none of a pool of which a part is missing.

    Only what its newest generation says holds.
    """
    specs: list[JSON] = [one.get("spec") or {} for one in slices]
    generations = [int((one.get("pool") or {}).get("generation") or 0) for one in specs]
    newest = [one for one, at in zip(specs, generations, strict=True) if at == max(generations)]
    if any(len(newest) < int((one.get("pool") or {}).get("resourceSliceCount") or 1) for one in newest):
        return []
    found = [device for spec in newest for raw in spec.get("devices") or () if (device := _device(spec, raw))]
    return sorted(found, key=lambda one: one.id)


def _device(spec: JSON, raw: JSON) -> Device | None:
    node = spec.get("nodeName") or (raw.get("nodeName") if spec.get("perDeviceNodeSelection") else None)
    if not node or any(raw.get(what) for what in _UNCOUNTED):
        return None
    if any(one.get("effect") in _STOPS for one in raw.get("taints") or ()):
        return None
    driver, pool = pool_of({"spec": spec})
    facts = {
        "driver": driver,
        "attributes": _by_domain(driver, raw.get("attributes") or {}, _value),
        "capacity": _by_domain(
            driver, raw.get("capacity") or {}, lambda one: quantity(str(one.get("value")))
        ),
    }
    return Device((driver, pool, str(raw["name"])), str(node), facts)


def _by_domain(driver: str, values: JSON, read: Callable[[JSON], Any]) -> dict[str, dict[str, Any]]:
    """Return values by domain and name; what cannot be read is as if it were not there."""
    found: dict[str, dict[str, Any]] = {}
    for name, raw in values.items():
        domain, _, last = name.rpartition("/")
        try:
            value = read(raw)
        except ValueError:
            continue
        found.setdefault(domain or driver, {})[last] = value
    return found


def _amount(raw: JSON) -> int:
    return quantity(str(raw.get("value")))


def _value(raw: JSON) -> Any:
    if "version" in raw:
        return version(str(raw["version"]))
    return next((raw[kind] for kind in ("string", "int", "bool") if kind in raw), None)


@dataclass(slots=True)
class Held:
    """Which devices there are, which of them are held, and as what they are counted."""

    catalogue: Catalogue
    on_node: dict[str, dict[DeviceId, Device]] = field(default_factory=dict[str, "dict[DeviceId, Device]"])
    taken: dict[DeviceId, tuple[Kind, ...]] = field(default_factory=dict[DeviceId, "tuple[Kind, ...]"])
    """Devices that claims have: as what their holder counts each; as nothing, where nobody holds it."""
    _where: dict[DeviceId, str] = field(default_factory=dict[DeviceId, str])
    _pools: dict[tuple[str, str], list[Device]] = field(default_factory=dict[tuple[str, str], "list[Device]"])
    _matches: dict[DeviceId, dict[Kind, bool]] = field(default_factory=dict[DeviceId, "dict[Kind, bool]"])

    def put_pool(self, pool: tuple[str, str], slices: Iterable[JSON]) -> set[str]:
        """Take in what a pool (of a driver, by name) has now; return the nodes that have other devices."""
        nodes = {self._drop(device) for device in self._pools.pop(pool, ())}
        found = devices_in(slices)
        for device in found:
            self.on_node.setdefault(device.node, {})[device.id] = device
            self._where[device.id] = device.node
            nodes.add(device.node)
        if found:
            self._pools[pool] = found
        return nodes

    def _drop(self, device: Device) -> str:
        del self._where[device.id]
        on_node = self.on_node[device.node]
        del on_node[device.id]
        if not on_node:
            del self.on_node[device.node]
        self._matches.pop(device.id, None)
        return device.node

    def forget_matches(self) -> None:
        """Look anew which devices are of which kind: a class has changed."""
        self._matches.clear()

    def put_claim(self, old: JSON | None, new: JSON | None) -> set[str]:
        """Take in what a claim has now; return the nodes of devices that were taken or given back."""
        before, after = (() if one is None else _taken_by(one) for one in (old, new))
        if before == after:
            return set()
        for device, _ in before:
            self.taken.pop(device, None)
        self.taken.update(after)
        return {self._where[device] for device, _ in (*before, *after) if device in self._where}

    def amounts_of(self, claim: JSON) -> Counter[str]:
        """Return how many devices of each kind the holder of a claim counts on its node."""
        found = Counter[str]()
        for device, kinds in counted_as(claim).items():
            if device in self._where:
                found.update(kind.resource for kind in kinds)
        return found

    def is_of(self, device: Device, kind: Kind) -> bool:
        """Whether a device is of a kind."""
        matches = self._matches.setdefault(device.id, {})
        known = matches.get(kind)
        if known is None:
            found = self.catalogue.device_class(kind.device_class)
            known = found is not None and all(
                selects(expression, device.facts)
                for expression in (*_expressions(found.get("spec") or {}), *kind.selectors)
            )
            matches[kind] = known
        return known

    def counts(self, node: str, kinds: Iterable[Kind]) -> dict[str, int]:
        """Return how many devices of each kind a node has, free or counted by those who hold them."""
        devices = self.on_node.get(node)
        if not devices:
            return {}
        found: dict[str, int] = {}
        for kind in kinds:
            number = sum(
                self.is_of(device, kind) and (device.id not in self.taken or kind in self.taken[device.id])
                for device in devices.values()
            )
            if number:
                found[kind.resource] = number
        return dict(sorted(found.items()))

    def choose(self, claim: JSON, node: str, kinds: Collection[Kind]) -> list[JSON] | str:
        """Return devices of a node for a claim, as its allocation names them, or why it gets none.

        Devices of fewer of ``kinds`` go first: others may be all that somebody can use.
        """
        spec = claim.get("spec") or {}
        try:
            requests = requests_of(spec)
        except ValueError as error:
            return str(error)
        free = [one for key, one in self.on_node.get(node, {}).items() if key not in self.taken]
        free.sort(key=lambda one: (sum(self.is_of(one, kind) for kind in kinds), one.id))
        slots: list[tuple[Request, list[Device]]] = []
        for request in requests:
            candidates = [device for device in free if self.is_of(device, request.kind)]
            if len(candidates) < request.count:
                asked = f"{request.count} {request.kind.resource} of request {request.name}"
                return f"node {node} has {len(candidates)} free of the {asked}"
            slots += [(request, candidates)] * request.count
        alike = [
            (frozenset(one.get("requests") or ()), str(one["matchAttribute"]))
            for one in (spec.get("devices") or {}).get("constraints") or ()
        ]
        chosen = _Choice(slots, alike).make()
        if chosen is None:
            return f"node {node} has no free devices that go together as the claim asks"
        return [
            {"request": request.name, "driver": one.id[0], "pool": one.id[1], "device": one.id[2]}
            for (request, _), one in zip(slots, chosen, strict=True)
        ]


def _taken_by(claim: JSON) -> tuple[tuple[DeviceId, tuple[Kind, ...]], ...]:
    counted = counted_as(claim)
    return tuple(counted.items()) if reserved_for(claim) else tuple((one, ()) for one in counted)


class _Choice:
    """Looks for devices, one for each slot, of which some are to have the same attribute."""

    def __init__(
        self, slots: Sequence[tuple[Request, list[Device]]], alike: Sequence[tuple[frozenset[str], str]]
    ) -> None:
        self._slots = slots
        self._alike = alike
        self._chosen: list[Device] = []
        self._steps = 0

    def make(self) -> list[Device] | None:
        """Return a device for each slot; None: there is no such choice, or it was not found in time."""
        return self._chosen if self._fill(0) else None

    def _fill(self, first: int) -> bool:
        number = len(self._chosen)
        if number == len(self._slots):
            return True
        request, candidates = self._slots[number]
        for index in range(first, len(candidates)):
            self._steps += 1
            if self._steps > _TRIES:
                return False
            device = candidates[index]
            if device in self._chosen or not self._goes_with(request, device):
                continue
            self._chosen.append(device)
            # Slots of one request are filled in order: no choice is tried twice.
            more = number + 1 < len(self._slots) and self._slots[number + 1][0] is request
            if self._fill(index + 1 if more else 0):
                return True
            self._chosen.pop()
        return False

    def _goes_with(self, request: Request, device: Device) -> bool:
        for names, attribute in self._alike:
            if names and request.name not in names:
                continue
            value = device.attribute(attribute)
            if value is None:
                return False
            for (other, _), one in zip(self._slots, self._chosen, strict=False):
                if (not names or other.name in names) and one.attribute(attribute) != value:
                    return False
        return True


# ---------------------------------------------------------------------- what is written


def allocation(claim: JSON, results: Sequence[JSON], node: str, there: Catalogue) -> JSON:
    """Return what a claim's status says of the devices that it gets on a node."""
    spec = claim.get("spec") or {}
    by_class: list[JSON] = [
        {"source": "FromClass", "requests": [one.name], **setting}
        for one in requests_of(spec)
        for setting in ((there.device_class(one.kind.device_class) or {}).get("spec") or {}).get("config")
        or ()
    ]
    own: list[JSON] = (spec.get("devices") or {}).get("config") or []
    config = [*by_class, *({"source": "FromClaim", **setting} for setting in own)]
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {
        "devices": {"results": list(results), **({"config": config} if config else {})},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }


def reservation(pod: str, uid: str) -> JSON:
    """Return how a claim says that a pod may use its devices."""
    return {"resource": "pods", "name": pod, "uid": uid}
