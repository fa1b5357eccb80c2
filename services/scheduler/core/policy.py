"""What an operator can choose. A policy is a value: the same policy decides the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, TypeAlias

from services.scheduler.core.load import Levelling, LoadLimit, LoadScore
from shared.events.contracts import Shape

if TYPE_CHECKING:
    from services.scheduler.core.extending import ExtenderVote
    from services.scheduler.core.own import Own, OwnOrder
    from services.scheduler.core.terms import TermFactory
    from services.scheduler.core.votes import OwnShares, OwnVote


@dataclass(frozen=True, slots=True)
class FitRule:
    """How one resource (or, with a trailing ``*``, each whose name begins so) counts in a ``StrategyFit``."""

    pattern: str
    most: bool = False
    """Nodes that would have most of it used are preferred (MostAllocated), not those with the least."""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class StrategyFit:
    """Volcano's ``resource-strategy-fit``: pack by some resources, spread by others (0..100 each)."""

    weight: float = 10.0
    rules: tuple[FitRule, ...] = (FitRule("cpu"), FitRule("memory"))

    def rule(self, name: str) -> FitRule | None:
        """Return the rule of a resource: its own, else that of the longest pattern it matches."""
        found: FitRule | None = None
        for rule in self.rules:
            if rule.pattern == name:
                return rule
            begins = rule.pattern.endswith("*") and name.startswith(rule.pattern[:-1])
            if begins and (found is None or len(rule.pattern) > len(found.pattern)):
                found = rule
        return found


@dataclass(frozen=True, slots=True)
class Scarce:
    """Nodes without scarce resources before those that have them: ``sra`` of ``resource-strategy-fit``."""

    weight: float
    resources: tuple[tuple[str, float], ...]
    """Which are scarce, and how much each counts."""


@dataclass(frozen=True, slots=True)
class Proportion:
    """What stays free beside each idle unit of a scarce resource (see ``proportions``)."""

    resource: str
    cpu: float
    """In milli-CPU."""
    memory: float
    """In bytes."""


@dataclass(frozen=True, slots=True)
class TypicalPod:
    """A shape of pods that take parts of devices, and how frequent it is."""

    shape: Shape
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """Keep free devices usable, where pods take parts of devices (points as of the other scores)."""

    weight: float = 16.0
    """Times 100 points for each device that a typical pod could use after a placement and not before."""
    cpu_weight: float = 3.2
    """Times 100 points for each core more beside a free device."""
    enough_cpu: float = 16.0
    """Cores beside a free device; more is not better."""
    typical: tuple[TypicalPod, ...] = ()
    """The workload to keep devices usable for. Empty: the present one, running and waiting."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Weights of the scores by which the best of the nodes with room is chosen; 0 leaves one out.

    The formulas are Volcano's: ``binpack`` (0..100 times its weight), the scores of ``nodeorder`` (0..100
    each; affinity and PreferNoSchedule taints with their default weights 2 and 3), ``resource-strategy-fit``.
    """

    binpack_weight: float = 1.0
    resource_weights: tuple[tuple[str, float], ...] = (("cpu", 1.0), ("memory", 1.0), ("pods", 0.0))
    """Weight of each resource in binpack; a resource of weight 0 does not count."""
    extended_weight: float = 10.0
    """Weight of every resource not named above: accelerators are what clusters are short of, so
    they should be packed first (Volcano leaves them out unless they are listed)."""
    node_affinity_weight: float = 2.0
    taint_weight: float = 3.0
    pod_affinity_weight: float = 2.0
    pod_spread_weight: float = 2.0
    """Of preferred affinity between pods, and of spread constraints that need not hold."""
    least_requested_weight: float = 0.0
    """Spreads by CPU and memory."""
    most_requested_weight: float = 0.0
    """Packs by CPU and memory."""
    balanced_weight: float = 0.0
    """Prefers nodes whose CPU, memory and GPUs would be used to the same degree."""
    image_weight: float = 0.0
    """Prefers nodes that have large images of the pod."""
    task_topology_weight: float = 0.0
    """Puts members of tasks that belong together on one node, and those that do not apart."""
    strategy_fit: StrategyFit | None = None
    scarce: Scarce | None = None
    device_policy: Literal["", "binpack", "spread"] = ""
    """``spread``: a part is taken of the device with the fewest parts taken; else of the one that it fills
    best. By this the nodes are compared, too, where ``device_weight`` is not 0."""
    device_weight: float = 0.0
    """Volcano's ``deviceshare``: 100 for each device that would be used by nobody else (``spread``), or by
    how full its memory would be (``binpack``)."""
    numa_weight: float = 0.0
    """Prefers nodes where pods that ask for a NUMA policy have CPUs of fewer NUMA nodes."""
    fragmentation: Fragmentation | None = field(default_factory=Fragmentation)
    load: LoadScore | None = None
    """None: what nodes really use does not count."""
    extra: tuple[TermFactory, ...] = ()
    """Terms of plugins. A factory's ``repr`` tells it from others in the policy's digest."""

    @property
    def spreads(self) -> bool:
        """Whether parts are spread over devices."""
        return self.device_policy == "spread"

    def resource_weight(self, name: str) -> float:
        """Return the binpack weight of a resource."""
        for known, weight in self.resource_weights:
            if known == name:
                return weight
        return self.extended_weight


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a cluster is shared between queues, and the order of gangs inside a queue.

    Orders are lists of comparisons, the most important first; what they leave equal is decided by age
    and then by name.
    """

    mode: Literal["mixed", "proportion", "capacity", "drf"] = "mixed"
    """``mixed`` gives a queue the ``deserved`` that it names, resource by resource, and divides the rest by
    weight between those that name none. ``proportion`` divides all by weight and demand, ``capacity`` goes by
    ``deserved`` alone, as Volcano's plugins of these names. ``drf`` divides as ``proportion`` and serves
    first who has the least dominant share of the cluster over its weight (Volcano's hierarchical drf)."""
    hierarchy: bool = True
    """Queues are below their parents. False: all are equals, and parents do not count."""
    queue_order: tuple[Literal["priority", "share"], ...] = ("priority", "share")
    """Of queues below the same one; from the top of the tree down."""
    gang_order: tuple[Literal["priority", "broken", "deadline", "share", "lasting"] | OwnOrder, ...] = (
        "priority",
        "broken",
        "deadline",
        "share",
    )
    """Of gangs in a queue. ``broken``: those that run below their minimum first (others wait for less);
    ``deadline``: who should have started the soonest; ``share``: who holds the least of the cluster (DRF);
    ``lasting``: those whose owners do not say that they may be evicted."""
    waiting_limit: timedelta | None = None
    """How long a gang should wait at most, unless its annotation ``sla-waiting-time`` says it."""
    usage_weight: float = 1.0
    """How much a queue's claim on idle capacity sinks when it used more than its part by weight over time
    (topic queue-usage): its weight is divided by 1 + this times the excess. What it is guaranteed, and what
    it names as ``deserved``, stays. 0: only the present counts."""
    factors: tuple[OwnShares, ...] = ()
    """Plugins that say how many times its weight and its ``deserved`` a queue gets: all of them count."""


VictimFilter: TypeAlias = (
    'Literal["gang", "priority", "conformance", "pdb", "cdp", "tdm"] | OwnVote | ExtenderVote'
)


@dataclass(frozen=True, slots=True)
class Eviction:
    """Who may be evicted for whom, and for how long the room is kept.

    Whatever is chosen here: a gang preempts only gangs of strictly lower priority in its queue; a queue
    reclaims only what it deserves, from queues that hold more than they deserve; and nobody is evicted
    whose annotation forbids it, or without a gang that then fits as a whole.

    Filters are Volcano's plugins: ``gang`` (only members beyond the minimum), ``priority`` (also when
    reclaiming), ``conformance`` (no pods of the system), ``pdb`` (no more than disruption budgets allow),
    ``cdp`` (nobody within its cool-down), ``tdm`` (only for gangs that may not be evicted themselves, on
    nodes of no zone, as many of each gang as its budget allows); others are plugins of one's own. Inside a
    tier all of them have to agree; the first tier that leaves somebody counts.
    """

    preempt: bool = True
    reclaim: bool = True
    preempt_filters: tuple[tuple[VictimFilter, ...], ...] = (("conformance", "pdb", "cdp"),)
    reclaim_filters: tuple[tuple[VictimFilter, ...], ...] = (("conformance", "pdb", "cdp"),)
    undershoot: bool = False
    """A queue that holds more than it deserves may hold less after the last pod that is taken, as in
    Volcano, if others then have more of what they deserve than it lacks."""
    cooldown: timedelta = timedelta(0)
    """How long after it was bound a pod is safe that does not say it (by ``cdp``)."""
    min_run_time: timedelta = timedelta(0)
    """How long after its start any pod is safe."""
    earmark: timedelta = timedelta(minutes=10)
    """For how long the room of victims is kept: longer than pods take to end."""
    most_victims: int = 5000
    """Pods that may be evicted by one decision."""


@dataclass(frozen=True, slots=True)
class Backfill:
    """Which gangs get a reservation, and who runs in its shadow.

    For the first gang of a queue that finds no room, and has waited for longer than ``threshold``, room is
    reserved on the nodes where it can start the soonest. Others use that room if they declared a run time
    which ends before that start.
    """

    enabled: bool = True
    threshold: timedelta | None = None
    """How long a gang waits before room is reserved for it; None: as long as ``Policy.hold``."""
    per_queue: int = 1
    in_all: int = 4
    """Most reservations at a time."""
    margin: timedelta = timedelta(seconds=30)
    """So much before the start of the reserved gang others end: pods take a while to begin and to go."""
    learned: bool = False
    """Others may use reserved room, too, that declared nothing, if nine of ten earlier jobs of their template
    would end before that start (``Learned``): one of ten may then delay the reserved gang."""
    lasts: timedelta = timedelta(minutes=20)
    """A reservation is worked out anew after half this time: on other nodes only if the gang would wait for a
    tenth less there. A scheduler that starts anew takes over those of the log that are not older."""


@dataclass(frozen=True, slots=True)
class Defragmentation:
    """When running gangs move so that one can start whose room is free in sum and nowhere in one piece.

    Whatever is chosen here: only pods move that may be evicted, of gangs of no higher priority, and only if
    each of them has room elsewhere, which is kept for it, and the waiting gang starts.
    """

    enabled: bool = False
    """Whether it is done without being asked for."""
    after: timedelta = timedelta(minutes=5)
    """How long a gang waits before others move for it."""
    period: timedelta = timedelta(minutes=1)
    """Between two looks."""
    threshold: float = 0.0
    """Of what is free of the scarcest thing that the gang asks for: the part, 0..1, that has to be where none
    of its pods fit."""
    most_pods: int = 64
    """Pods that may move for one gang."""
    rest: timedelta = timedelta(minutes=30)
    """How long after it was bound a pod stays where it is: so nobody is moved again and again."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Queues on groups of nodes: Volcano's ``nodegroup``."""

    strict: bool = True
    """A queue without affinity gets no node; False: those that are of no group."""
    ordered: bool = False
    """Of preferred groups the first are liked the most."""
    hierarchy: bool = False
    """A queue without affinity has that of the nearest queue above it that has any."""
    filters: bool = True
    """Affinity says where pods may run."""
    scores: bool = True
    """It says where they run rather."""


@dataclass(frozen=True, slots=True)
class Window:
    """The hours of a zone, each day, in minutes after midnight (UTC); past it where the end is before."""

    zone: str
    begins: int
    ends: int


@dataclass(frozen=True, slots=True)
class Zones:
    """Nodes that take pods which may be evicted, during some hours: Volcano's ``tdm``."""

    windows: tuple[Window, ...] = ()
    period: timedelta = timedelta(minutes=1)
    """How often pods are evicted from zones that are closed."""
    filters: bool = True
    """Other pods, and at other hours all, are kept from nodes of zones."""
    scores: bool = True
    """Pods that may run there do so rather than elsewhere."""
    evicts: bool = True
    """Pods are evicted from zones that are closed."""


@dataclass(frozen=True, slots=True)
class Extender:
    """A program that is asked over HTTP: Volcano's ``extender``. An empty verb is not asked."""

    url: str
    timeout: timedelta = timedelta(seconds=1)
    """Of each request; zero is no limit, as in Go."""
    predicate: str = ""
    prioritize: str = ""
    preemptable: str = ""
    reclaimable: str = ""
    ignorable: bool = False
    """Nodes that it could not be asked about take pods, too."""
    managed: tuple[str, ...] = ()
    """It is asked about pods alone that ask for one of these; empty: about all."""


@dataclass(frozen=True, slots=True)
class Policy:
    """All that is chosen, each area of choices a value of its own."""

    scores: Scores = field(default_factory=Scores)
    sharing: Sharing = field(default_factory=Sharing)
    eviction: Eviction = field(default_factory=Eviction)
    backfill: Backfill = field(default_factory=Backfill)
    defragmentation: Defragmentation = field(default_factory=Defragmentation)
    grouping: Grouping | None = None
    """None: groups of nodes mean nothing."""
    proportions: tuple[Proportion, ...] = ()
    """What pods that need no scarce resource leave free beside it."""
    zones: Zones | None = None
    """None: zones of nodes mean nothing."""
    numa: bool = False
    """Pods that have CPUs for themselves go where their kubelet can align them: Volcano's ``numa-aware``.
    False: NUMA nodes mean nothing."""
    load_limit: LoadLimit | None = None
    """None: nodes take pods whatever they really use."""
    levelling: Levelling | None = None
    """None: pods stay whatever their nodes really use."""
    own: tuple[Own, ...] = ()
    """Plugins that are not Volcano's."""
    extender: Extender | None = None
    hold: timedelta = timedelta(minutes=5)
    """For how long a gang that does not fit yet keeps later gangs, which need the same scarce thing,
    from taking it piece by piece. Bounded, so that a gang that can never start stops nobody."""
    retry_first: timedelta = timedelta(milliseconds=500)
    """Wait before a gang whose decision was rolled back is decided anew; doubles each time."""
    retry_most: timedelta = timedelta(seconds=30)
    patience: timedelta = timedelta(minutes=2)
    """A decision without a result after this time is sent again (applying it twice is harmless); a
    pod said to be bound but never seen after this time no longer counts."""

    @property
    def late_after(self) -> timedelta:
        """How long a gang waits before room is reserved for it."""
        return self.hold if self.backfill.threshold is None else self.backfill.threshold

    @property
    def digest(self) -> str:
        """A name for what is chosen: equal for equal policies, on any machine."""
        return blake2b(repr(self).encode(), digest_size=8).hexdigest()
