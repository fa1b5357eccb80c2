"""The scheduler's memory: facts as they arrive, gangs and what they need, decisions in flight.

Every method is an idempotent update: the same event again changes nothing, and events of different
objects may come in any order. What becomes of decisions is in ``results``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from math import inf

from services.scheduler.core.decisions import Flight
from services.scheduler.core.devices import Devices, device_room
from services.scheduler.core.domains import Domains
from services.scheduler.core.earmarks import Earmarks, Victim
from services.scheduler.core.entry import Promises
from services.scheduler.core.evictions import Evictions
from services.scheduler.core.extending import limits_of
from services.scheduler.core.flights import InFlight
from services.scheduler.core.fragments import Typical
from services.scheduler.core.gangs import Gang, Key, Member, OrderKey, Pick, make_gang
from services.scheduler.core.index import ShapeIndex
from services.scheduler.core.learned import Learned
from services.scheduler.core.measured import Measured
from services.scheduler.core.nodegroups import Lot, Lots
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.numa import Numa, cells_of, numa_room
from services.scheduler.core.pods import ENDED, Pod, make_pod
from services.scheduler.core.policy import Policy
from services.scheduler.core.queues import Queues
from services.scheduler.core.reservations import Reservations
from services.scheduler.core.resources import Resources
from services.scheduler.core.shapes import Shape, Shapes
from services.scheduler.core.shares import Shares
from services.scheduler.core.timers import Timers
from services.scheduler.core.victims import Victims
from services.scheduler.core.waiting import Waiting
from services.scheduler.core.work import Work
from services.scheduler.core.workload import Workload
from shared.events import contracts as c

_INDEXES = 512
"""Indexes kept; the one unused for longest goes first. Each has 8 bytes a node and its row."""


class Model:
    """Everything one node pool's scheduler knows."""

    def __init__(  # noqa: PLR0915 - a line for each part
        self, pool: str = "default", policy: Policy | None = None
    ) -> None:
        self.pool = pool
        self.policy = policy or Policy()
        self.resources = Resources()
        self.nodes = Nodes(self.resources, pool)
        self.nodes.heed_numa(self.policy.numa)
        self.devices = Devices(self.nodes)
        self.numa = Numa(self.nodes)
        self.domains = Domains(self.nodes)
        self.shapes = Shapes(self.resources, self.nodes, limits_of(self.policy), self.policy.proportions)
        self.queues = Queues(self.resources, self.policy.sharing)
        self.lots = Lots(self.queues.facts, self.policy)
        self.waiting = Waiting(self.queues)
        self.work = Work()
        self.workload = Workload(self.shapes)
        self.typical = self._typical()
        self.pauses: dict[str, datetime] = {}
        """Until when work is not done again that is done now and then."""
        self.asked: datetime | None = None
        """When it was last asked that gangs move."""
        self.capacity_seen = 0
        """The nodes' capacity version at the last cycle."""
        self.pods: dict[Key, Pod] = {}
        self.gangs: dict[Key, Gang] = {}
        self.shapes.on_column = self._count_anew
        self.shapes.heed_images(heeded=self.policy.scores.image_weight > 0)
        self.flights = InFlight(self.nodes, self.queues)
        self.promises = Promises(self.nodes, self.queues)
        self.victims = Victims()
        self.evictions = Evictions()
        self.earmarks = Earmarks(self.nodes, self.queues)
        self.reservations = Reservations(self.nodes, self.shapes, self.victims)
        self.learned = Learned()
        self.measured = Measured(self.nodes, self.shapes, self.pods)
        self._heed_load()
        self.budgets: dict[Key, int] = {}
        """By namespace and name of a PodDisruptionBudget: how many more pods may go."""
        self.peaceful: set[str] = set()
        """Priority classes whose gangs evict nobody."""
        self.classes: dict[str, int] = {}
        """By name of a priority class: its value."""
        self.dirty: dict[Gang, None] = {}
        """Gangs whose needs may have changed."""
        self.unplaced: dict[Gang, None] = {}
        """Gangs that wait, in a lane or for members or for another try."""
        self.retries: Timers[Gang] = Timers()
        self._pods_of: dict[Key, dict[str, Pod]] = {}
        self._indexes: dict[int, ShapeIndex] = {}
        self._shapes_anew = False
        """Shapes are told apart by something else than before."""
        self._devices_seen = 0
        """Indexes are made anew when nodes have more devices: the first bring other scores."""
        self._aligning = False
        """Whether pods that have CPUs for themselves are placed by NUMA nodes."""

    def set_policy(self, policy: Policy) -> None:
        """Decide by another policy from now on, as a model does that never had the old one.

        Everything that followed from the old one goes: the indexes, and the lanes with their stops. Room that
        is kept for gangs stays where the new one lets them run.
        """
        if policy == self.policy:
            return
        if policy.extender != self.policy.extender:
            self.nodes.answers.clear()
        self.policy = policy
        self.nodes.capacity_version += 1
        self.shapes.set_limits(limits_of(policy))
        self.shapes.set_proportions(policy.proportions)
        self.nodes.heed_numa(policy.numa)
        self._align()
        self._shapes_anew |= self.shapes.heed_images(heeded=policy.scores.image_weight > 0)
        self.queues.govern(policy.sharing)
        self.lots.govern(policy)
        self._heed_load()
        self._indexes.clear()
        self.typical = self._typical()
        for gang in self.gangs.values():
            self.waiting.leave(gang)
            self.dirty[gang] = None

    def index(self, shape: Shape) -> ShapeIndex:
        """Return a shape's index, brought up to date."""
        if self._devices_seen != self.resources.devices:
            self._devices_seen = self.resources.devices
            self._indexes.clear()
        index = self._indexes.pop(shape.number, None)
        if index is None:
            index = ShapeIndex(shape, self.nodes, self.policy.scores, self.typical, self.work)
            if len(self._indexes) >= _INDEXES:
                del self._indexes[next(iter(self._indexes))]
        self._indexes[shape.number] = index
        index.refresh()
        return index

    def _heed_load(self) -> None:
        policy = self.policy
        self.measured.govern(policy.scores.load, policy.load_limit, levels=policy.levelling is not None)

    def _typical(self) -> Typical:
        scores = self.policy.scores
        return Typical(self.nodes, self.shapes, self.workload, scores.fragmentation, spread=scores.spreads)

    # ------------------------------------------------------------------ nodes and queues

    def apply_node(self, state: c.NodeState) -> None:
        """A node is there or has changed."""
        self.nodes.upsert(
            state.name,
            pool=state.pool,
            labels=state.labels,
            taints=[(taint.key, taint.value, taint.effect) for taint in state.taints],
            unschedulable=state.unschedulable,
            ready=state.ready,
            allocatable=state.allocatable | device_room(state.devices) | numa_room(state.numa),
            devices=state.devices,
            numa=state.numa,
            volume_limits=state.volume_limits,
            free_volumes=state.free_volumes,
            images=state.images,
        )
        self._align()
        self.domains.set_node(state.name, state.labels)
        self.measured.seat(state.name)

    def _align(self) -> None:
        """Have shapes and indexes follow the first node that aligns pods, and the last."""
        if self._aligning != self.nodes.numa.active:
            self._aligning = self.nodes.numa.active
            self.shapes.align()
            self._indexes.clear()

    def remove_node(self, name: str) -> None:
        """A node is gone; its pods go by their own events."""
        self.nodes.remove(name)
        self._align()
        self.domains.set_node(name, None)

    def apply_hypernode(self, state: c.HyperNodeState) -> None:
        """A hypernode is there or has changed."""
        self.domains.set_hypernode(state.name, state.spec)

    def remove_hypernode(self, name: str) -> None:
        """A hypernode is gone."""
        self.domains.set_hypernode(name, None)

    def apply_queue(self, state: c.QueueState) -> None:
        """A queue is there or has changed."""
        self.lots.note(self.queues.facts(state.name), state)
        self.queues.upsert(state)

    def apply_usage(self, usage: c.QueueUsage) -> None:
        """A queue's usage over time is told."""
        self.queues.usage.note(usage)

    def forget_usage(self, queue: str) -> None:
        """A queue's usage is no longer told."""
        self.queues.usage.forget(queue)

    def apply_measured(self, event: c.NodesMeasured) -> None:
        """What nodes really use is told."""
        if event.pool == self.pool:
            self.measured.tell(event)

    def forget_measured(self) -> None:
        """What nodes really use is no longer told."""
        self.measured.forget()

    def apply_run_times(self, event: c.TemplateRunTimes) -> None:
        """For how long jobs of a template ran is told."""
        self.learned.note(event)

    def forget_run_times(self, queue: str, template: str) -> None:
        """For how long jobs of a template ran is no longer told."""
        self.learned.forget(queue, template)

    def apply_answer(self, event: c.ExtenderAnswered) -> None:
        """The extender said something of nodes."""
        if event.pool == self.pool:
            changed = self.nodes.answers.note(event)
            if event.about == "nodes":
                self._judge(changed)
            elif changed:
                self.victims.touch()

    def forget_answer(self, pool: str, question: str) -> None:
        """What the extender said is no longer told."""
        if pool == self.pool:
            self._judge(self.nodes.answers.forget(question))
            self.victims.touch()

    def _judge(self, names: list[str]) -> None:
        slots = (self.nodes.slots.get(name) for name in names)
        self.nodes.note_rules([slot for slot in slots if slot is not None and self.nodes.exists[slot]])

    def remove_queue(self, name: str) -> None:
        """A queue is gone."""
        self.lots.note(self.queues.facts(name), None)
        self.queues.remove(name)

    def apply_priority_class(self, state: c.PriorityClassState) -> None:
        """A priority class is there or has changed."""
        self.classes[state.name] = state.value
        if state.preemption_policy == "Never":
            self.peaceful.add(state.name)
        else:
            self.peaceful.discard(state.name)

    def remove_priority_class(self, name: str) -> None:
        """A priority class is gone."""
        self.classes.pop(name, None)
        self.peaceful.discard(name)

    def apply_budget(self, state: c.PodDisruptionBudgetState) -> None:
        """A PodDisruptionBudget is there or has changed."""
        if self.budgets.get((state.namespace, state.name)) != state.disruptions_allowed:
            self.budgets[state.namespace, state.name] = state.disruptions_allowed
            self.victims.touch()

    def remove_budget(self, namespace: str, name: str) -> None:
        """A PodDisruptionBudget is gone."""
        if self.budgets.pop((namespace, name), None) is not None:
            self.victims.touch()

    def ask_to_move(self, at: datetime) -> None:
        """Somebody asks that gangs move now for those that wait for room in one piece."""
        self.asked = at

    # ------------------------------------------------------------------ pods

    def apply_pod(self, state: c.PodState) -> None:
        """A pod is there or has changed."""
        key = (state.namespace, state.name)
        ended = state.phase in ENDED
        shape = self.shapes.intern(state.shape, state.namespace, self.lots.of(state.queue))
        if state.node is not None and (state.devices or state.device_parts):
            shape = self._on_devices(shape, state, state.node)
        if state.node is not None and state.numa:
            shape = self.numa.on(shape, cells_of(state.numa))
        gang = None if state.gang is None else (state.namespace, state.gang)
        old = self.pods.get(key)
        seen_there = old is not None and old.uid == state.uid and old.slot >= 0
        landed = None
        if gang is not None and state.node is not None and not seen_there:
            landed = self.flights.land(gang, state.name, state.generation)
        slot = -1 if ended or state.node is None else self.nodes.hold(state.node)
        pod = make_pod(state, shape, slot, gang, doomed=slot >= 0 and self.evictions.dooms(state.uid))
        self.pods[key] = pod
        if landed is not None or old is not None:
            self._swap(landed, old, pod)
        elif slot >= 0:
            self._count(pod, 1)
        self._note(key, old, pod)
        if old is not None and old.gang is not None and old.gang != gang:
            self._unlink(old.gang, state.name)
        if gang is not None:
            self._link(gang, state.name, pod)

    def _on_devices(self, shape: Shape, state: c.PodState, node: str) -> Shape:
        """Return a pod's shape with what it has of its node's devices."""
        if state.device_parts:
            parts = tuple((part.device, part.cores, part.memory) for part in state.device_parts)
            return self.devices.on(shape, parts)
        return self.devices.on(shape, self.devices.parts(shape, state.devices, self.nodes.slot(node)))

    def remove_pod(self, namespace: str, name: str) -> None:
        """A pod is gone."""
        old = self.pods.pop((namespace, name), None)
        if old is None:
            return
        self._swap(None, old, None)
        self._note((namespace, name), old, None)
        if old.gang is not None:
            self._unlink(old.gang, name)

    def is_there(self, victim: Victim) -> bool:
        """Whether a pod still holds room on a node."""
        namespace, name, uid = victim
        pod = self.pods.get((namespace, name))
        return pod is not None and pod.uid == uid and pod.slot >= 0

    def stays(self, victim: Victim) -> bool:
        """Whether a pod holds room on a node, and does not leave it."""
        pod = self.pods.get(victim[:2])
        return pod is not None and self.is_there(victim) and not pod.leaving

    def doom(self, key: Key, uid: str, *, doomed: bool) -> None:
        """A decision evicts a pod that is on a node (or it stays after all)."""
        pod = self.pods.get(key)
        if pod is None or pod.uid != uid or pod.slot < 0 or pod.doomed == doomed:
            return
        before, pod.doomed = pod.leaving, doomed
        if pod.leaving != before:
            self.nodes.mark_releasing(pod.slot, pod.shape.charged, 1 if doomed else -1)
        self.victims.put(key, pod)
        gang = None if pod.gang is None else self.gangs.get(pod.gang)
        if gang is not None:
            self.show(gang, key[1])

    def _note(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        """Let victims be chosen by what is now, and note that one leaves or has gone."""
        if old is not None and old.gang is None and old.phase not in ENDED:
            self.workload.add(old.shape, -1)
        if new is not None and new.gang is None and new.phase not in ENDED:
            self.workload.add(new.shape, 1)
        self.measured.note(key, new)
        if new is not None and new.slot >= 0:
            new.ends, new.rank = self._declared(new)
            self.victims.put(key, new)
        else:
            self.victims.drop(key)
        if old is not None and (
            new is None or new.uid != old.uid or new.slot < 0 or (new.doomed and new.releasing)
        ):
            self.evictions.seen(old.uid)

    def _swap(self, landed: tuple[Flight, int, Shape] | None, old: Pod | None, new: Pod | None) -> None:
        """Let ``new`` count instead of ``old`` and of what was in flight."""
        if landed is not None:
            flight, slot, shape = landed
            same = (
                new is not None and new.slot == slot and new.shape is shape and new.queue == flight.queue.name
            )
            if same and new is not None and (old is None or old.slot < 0):
                self.nodes.release(slot)
                if new.leaving:
                    self.nodes.mark_releasing(slot, new.shape.charged, 1)
                return
            self.flights.release(*landed)
        if old is not None and new is not None and old.slot >= 0 and _same_room(old, new):
            self.nodes.release(old.slot)
            if old.leaving != new.leaving:
                self.nodes.mark_releasing(new.slot, new.shape.charged, 1 if new.leaving else -1)
            return
        for pod, sign in ((old, -1), (new, 1)):
            if pod is not None and pod.slot >= 0:
                self._count(pod, sign)

    def _count_anew(self, column: int, shapes: frozenset[Shape]) -> None:
        """Count pods that are on nodes already in a column that is new to them."""
        bare = frozenset(shape.number for shape in shapes)
        one = ((column, 1),)
        for pod in self.pods.values():
            if pod.slot >= 0 and pod.shape.number in bare:
                self.nodes.charge(pod.slot, one, 1)
                if pod.leaving:
                    self.nodes.mark_releasing(pod.slot, one, 1)
        for flight in self.flights.by_number.values():
            for slot, shape in flight.pods.values():
                if shape.number in bare:
                    self.nodes.charge(slot, one, 1)
        self.earmarks.count_in(column, bare)

    def _count(self, pod: Pod, sign: int) -> None:
        amounts = pod.shape.amounts
        self.nodes.charge(pod.slot, pod.shape.charged, sign, pod.shape.mounts)
        if pod.leaving:
            self.nodes.mark_releasing(pod.slot, pod.shape.charged, sign)
        if pod.queue:
            self.queues.charge(self.queues.get(pod.queue), amounts, sign)
        if sign < 0:
            self.nodes.release(pod.slot)

    def _link(self, key: Key, name: str, pod: Pod) -> None:
        self._pods_of.setdefault(key, {})[name] = pod
        gang = self.gangs.get(key)
        if gang is not None:
            self._place_pod(gang, name, pod)

    def _unlink(self, key: Key, name: str) -> None:
        pods = self._pods_of.get(key)
        if pods is not None:
            pods.pop(name, None)
            if not pods:
                del self._pods_of[key]
        gang = self.gangs.get(key)
        if gang is not None:
            self._place_pod(gang, name, None)
            if gang.contract.job and not (gang.pods or self.flights.pods_of(gang.contract)):
                # All that was decided is gone: only its PodGroup can still say that it is queued.
                gang.enqueued = False

    def _place_pod(self, gang: Gang, name: str, pod: Pod | None) -> None:
        """Note a pod of the gang, or that there is none, if it is of the gang's generation."""
        if pod is not None and pod.generation == gang.contract.generation:
            gang.pods[name] = pod
        else:
            gang.pods.pop(name, None)
        self.show(gang, name)

    def show(self, gang: Gang, name: str) -> None:
        """Work out anew what a member is doing."""
        gang.set_state(name, self._doing(gang, name, gang.pods.get(name)))
        self.dirty[gang] = None

    def _doing(self, gang: Gang, name: str, pod: Pod | None) -> Member:
        if pod is not None:
            if pod.phase in ENDED:
                return Member.DONE if pod.phase == "Succeeded" else Member.ABSENT
            if pod.leaving:
                return Member.LEAVING
            if pod.slot >= 0:
                return Member.HELD
        if self.flights.has(gang.contract, name):
            return Member.FLYING
        if pod is None:
            return Member.ABSENT
        return Member.GATED if pod.gated else Member.UNBOUND

    # ------------------------------------------------------------------ gangs

    def apply_podgroup(self, state: c.PodGroupState) -> None:
        """A PodGroup is there or has changed, with the gang that should run, if that is known."""
        if state.gang is not None:
            self._upsert(state.gang, confirmed=True)
        gang = self.gangs.get((state.namespace, state.name))
        if gang is None or gang.contract.uid != state.uid:
            return
        if state.phase != gang.phase:
            if state.phase == "Pending" and gang.phase:
                gang.enqueued = False
            gang.phase = state.phase
            self.dirty[gang] = None
        gang.confirmed = True
        gang.traceparent = state.traceparent or gang.traceparent

    def gang_ready(self, contract: c.Gang, traceparent: str | None = None) -> None:
        """A gang can be queued; its PodGroup's state may not have come yet.

        A gang of plain pods grows with them, as its PodGroup's state tells: once that is known it is newer.
        """
        known = self.gangs.get((contract.namespace, contract.name))
        if contract.job is None and known and known.confirmed and known.contract.uid == contract.uid:
            return
        gang = self._upsert(contract, confirmed=False)
        if gang is not None and traceparent is not None:
            gang.traceparent = traceparent

    def remove_podgroup(self, namespace: str, name: str) -> None:
        """A PodGroup is gone; what is in flight for it counts until it is resolved."""
        gang = self.gangs.pop((namespace, name), None)
        if gang is not None:
            self.earmarks.drop((namespace, name))
            self.reservations.drop((namespace, name))
            self._forget(gang)
            self._tell_pods(gang.key)

    def _upsert(self, contract: c.Gang, *, confirmed: bool) -> Gang | None:
        key = (contract.namespace, contract.name)
        old = self.gangs.get(key)
        if old is not None:
            if _older(contract, old.contract):
                return None
            if contract == old.contract:
                return old
        gang = self._install(contract, old)
        gang.confirmed = gang.confirmed or confirmed
        self._tell_pods(key)
        return gang

    def _install(self, contract: c.Gang, old: Gang | None) -> Gang:
        """Let the gang of a contract count instead of the one before."""
        key = (contract.namespace, contract.name)
        gang = make_gang(contract, self.shapes, self.lots.of(contract.queue))
        if old is not None:
            self._inherit(gang, old)
            self._forget(old)
        self.gangs[key] = gang
        if key in self._pods_of:
            self.victims.touch()
        self.count_workload(gang, 1)
        for name, pod in self._pods_of.get(key, {}).items():
            self._place_pod(gang, name, pod)
        for name in self.flights.pods_of(contract):
            self.show(gang, name)
        self.dirty[gang] = None
        return gang

    def sort_lots(self) -> None:
        """Give gangs and pods other shapes whose queues may use other groups of nodes now.

        All get others where shapes are told apart by something else.
        """
        anew, self._shapes_anew = self._shapes_anew, False
        changed, self.lots.changed = self.lots.changed, False
        if not changed and not anew:
            return
        if changed:
            self.nodes.capacity_version += 1  # what is kept on nodes that do not suit any more goes
        asked: dict[Key, dict[Shape, Shape]] = {}
        for key, pod in self.pods.items():
            old_shape = pod.shape
            self._sort_pod(key, pod, anew=anew)
            if pod.gang is not None and pod.shape is not old_shape:
                asked.setdefault(pod.gang, {})[old_shape.bare] = pod.shape.bare
        for flight in self.flights.by_number.values():
            self._sort_flight(flight)
        for old in list(self.gangs.values()):
            lot = self.lots.of(old.contract.queue)
            if lot == old.lot and not anew:
                continue
            new = self._install(old.contract, old)
            shapes = asked.get(old.key, {})
            shapes |= {was.shape: now.shape for was, now in zip(old.tasks, new.tasks, strict=True)}
            self.earmarks.reshape(old.key, partial(self._like, shapes))
            self.reservations.reshape(old.key, partial(self._like, shapes))

    def _sort_pod(self, key: Key, pod: Pod, *, anew: bool) -> None:
        """Give a pod the shape that its queue's lot makes of it: one that is on a node if that counts it."""
        old, lot = pod.shape, self.lots.of(pod.queue)
        if pod.slot < 0:
            if anew or lot != old.lot:
                pod.shape = self._of_lot(pod, key[0], lot)
        elif self._limited_anew(old, pod.queue):
            pod.shape = self._alike(old, self._of_lot(pod, key[0], lot))
            for shape, sign in ((old, -1), (pod.shape, 1)):
                self.nodes.charge(pod.slot, shape.charged, sign, shape.mounts)
                if pod.leaving:
                    self.nodes.mark_releasing(pod.slot, shape.charged, sign)
            if pod.gang is None:
                self.workload.add(old, -1)
                self.workload.add(pod.shape, 1)
            self.victims.put(key, pod)

    def _sort_flight(self, flight: Flight) -> None:
        """Count pods in flight in what their queue may have of groups of nodes."""
        queue = flight.queue.name
        for name, (slot, old) in flight.pods.items():
            if self._limited_anew(old, queue):
                shape = self._alike(old, self.shapes.intern(old.contract, flight.key[0], self.lots.of(queue)))
                flight.pods[name] = slot, shape
                self.nodes.charge(slot, old.charged, -1, old.mounts)
                self.nodes.charge(slot, shape.charged, 1, shape.mounts)

    def _limited_anew(self, shape: Shape, queue: str) -> bool:
        """Whether a queue may have something else of groups of nodes than a shape counts in."""
        lot = self.lots.of(queue)
        now, then = None if lot is None else lot.limits, None if shape.lot is None else shape.lot.limits
        return now != then

    def _alike(self, shape: Shape, bare: Shape) -> Shape:
        """Return a shape with what another has of its node: of devices, or CPUs for itself."""
        return self.numa.on(self.devices.like(shape, bare), shape.on_cells)

    def _of_lot(self, pod: Pod, namespace: str, lot: Lot | None) -> Shape:
        """Return what a pod asks for, where its queue has a lot."""
        said = {"revocable": pod.revocable, "images": pod.images}
        return self.shapes.intern(pod.shape.contract.model_copy(update=said), namespace, lot)

    def _like(self, shapes: Mapping[Shape, Shape], shape: Shape) -> Shape:
        """Return a gang's shape as it is now, on the same devices; ``shapes``: by what they were."""
        return self.devices.like(shape, shapes.get(shape.bare, shape.bare))

    def _declared(self, pod: Pod) -> tuple[float, int]:
        """Return when a pod ends at the latest, and its priority or its gang's, whichever is the higher."""
        gang = None if pod.gang is None else self.gangs.get(pod.gang)
        if gang is None:
            return inf, pod.priority
        contract = gang.contract
        ends = inf if contract.run_seconds is None else pod.since + contract.run_seconds
        return ends, max(pod.priority, contract.priority)

    def _tell_pods(self, key: Key) -> None:
        """Note anew when the pods of a gang end and which rank they have, as it declares something else."""
        for name, pod in self._pods_of.get(key, {}).items():
            ends, rank = self._declared(pod)
            if pod.slot >= 0 and (pod.ends, pod.rank) != (ends, rank):
                pod.ends, pod.rank = ends, rank
                self.victims.put((key[0], name), pod)

    @staticmethod
    def _inherit(gang: Gang, old: Gang) -> None:
        if gang.contract.uid != old.contract.uid:
            return
        gang.phase, gang.confirmed, gang.traceparent = old.phase, old.confirmed, old.traceparent
        gang.decided = old.decided
        if gang.contract.generation == old.contract.generation:
            gang.enqueued, gang.failures, gang.not_before = old.enqueued, old.failures, old.not_before
            gang.trouble = old.trouble

    def _forget(self, gang: Gang) -> None:
        if gang.key in self._pods_of:
            self.victims.touch()
        self.count_workload(gang, -1)
        self.dirty.pop(gang, None)
        self.unplaced.pop(gang, None)
        self.promises.drop(gang)
        self.set_wanted(gang, ())
        self.waiting.leave(gang)

    def count_workload(self, gang: Gang, sign: int) -> None:
        """Count a gang's members in the workload (-1: no longer)."""
        if gang.contract.pool == self.pool:
            for task in gang.tasks:
                self.workload.add(task.shape, sign * len(task.names))

    def places_of(self, gang: Gang) -> dict[str, str]:
        """Return the nodes of members that hold room or are in flight."""
        names = self.nodes.names
        places = {name: names[slot] for name, slot in self.flights.places_of(gang.contract)}
        for name, pod in gang.pods.items():
            if pod.slot >= 0 and not pod.releasing:
                places[name] = names[pod.slot]
        return places

    def pods_of(self, key: Key) -> dict[str, Pod]:
        """Return a gang's pods of all generations, by name."""
        return self._pods_of.get(key, {})

    def set_wanted(self, gang: Gang, picks: Iterable[Pick]) -> None:
        """Count in its queue what the gang asks for: these members, instead of those before."""
        wanted: dict[int, int] = {}
        for pick in picks:
            for column, amount in pick.shape.amounts:
                wanted[column] = wanted.get(column, 0) + amount * len(pick.members)
        if gang.wanted == wanted:
            return
        queue = self.queues.get(gang.contract.queue)
        for what, sign in ((gang.wanted, -1), (wanted, 1)):
            if what:
                self.queues.want(queue, what, sign)
        gang.wanted = wanted

    def order_key(self, gang: Gang) -> OrderKey:
        """Work out a gang's place among those of its queue."""
        return gang.order_key(self.policy.sharing, self.nodes.totals())

    def shares(self) -> Shares:
        """Return what each queue deserves now, of what the pool's usable nodes have in all."""
        return self.queues.shares(self.nodes.totals(), self.nodes.capacity_version)


def _same_room(old: Pod, new: Pod) -> bool:
    return old.slot == new.slot and old.shape is new.shape and old.queue == new.queue


def _older(new: c.Gang, old: c.Gang) -> bool:
    if new.uid == old.uid:
        return new.generation < old.generation
    return new.created_at < old.created_at
