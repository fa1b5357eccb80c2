"""A small cluster that carries decisions out, and checks each one against its own books.

It stands for the controller and Kubernetes: it keeps what exists in the simplest way, tells the model by
the same events, and knows nothing of the model's inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from services.scheduler.core.cycle import decide
from services.scheduler.core.decisions import Decision
from services.scheduler.core.model import Model
from services.scheduler.core.numa import numa_cpus
from services.scheduler.core.policy import Policy
from services.scheduler.core.results import apply_result
from shared.api.names import NODEGROUP_NAME
from shared.events import contracts as c
from tests.scenarios.aligning import Having, check_numa
from tests.scenarios.among_pods import There, check_among
from tests.scenarios.mounting import check_volumes
from tests.scenarios.nearness import check_near
from tests.scenarios.sharing import asked_of, check_alone, counts, room_of

START = datetime(2026, 1, 1, tzinfo=UTC)
Key = tuple[str, str]


@dataclass
class Books:
    """What really exists."""

    nodes: dict[str, c.NodeState] = field(default_factory=dict)
    queues: dict[str, c.QueueState] = field(default_factory=dict)
    hypernodes: dict[str, c.HyperNodeState] = field(default_factory=dict)
    measured: c.NodesMeasured | None = None
    """What nodes really use, as it was told last."""
    gangs: dict[Key, c.Gang] = field(default_factory=dict)
    phases: dict[Key, str] = field(default_factory=dict)
    pods: dict[Key, c.PodState] = field(default_factory=dict)
    flying: dict[str, Decision] = field(default_factory=dict)
    shapes: dict[str, dict[str, c.Shape]] = field(default_factory=dict)
    """Of flying decisions, by number and task."""
    queue_of: dict[str, str] = field(default_factory=dict)
    """Of flying decisions, by number."""
    evicted: list[str] = field(default_factory=list)
    """All pods that were ever evicted, in order."""
    leaving: dict[Key, str] = field(default_factory=dict)
    """Pods that are being taken away, by name: their UIDs."""
    earmarks: dict[Key, Decision] = field(default_factory=dict)
    """By gang: the decision that keeps room for it: its own, or that of a gang for which it moves."""
    order: dict[str, int] = field(default_factory=dict)
    """By number: which decision came when."""
    placed: dict[Key, Decision] = field(default_factory=dict)
    """By gang: the last decision that placed some of it."""


class World:
    """The books, and a model that is told of every change."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.model = Model("default", self.policy)
        self.books = Books()
        self.now = START
        self.decisions = 0

    # ------------------------------------------------------------------ facts

    def set_policy(self, policy: Policy) -> None:
        self.policy = policy
        self.model.set_policy(policy)

    def node(self, state: c.NodeState) -> None:
        self.books.nodes[state.name] = state
        self.model.apply_node(state)

    def remove_node(self, name: str) -> None:
        self.books.nodes.pop(name, None)
        self.model.remove_node(name)

    def queue(self, state: c.QueueState) -> None:
        self.books.queues[state.name] = state
        self.model.apply_queue(state)

    def remove_queue(self, name: str) -> None:
        self.books.queues.pop(name, None)
        self.model.remove_queue(name)

    def hypernode(self, state: c.HyperNodeState) -> None:
        self.books.hypernodes[state.name] = state
        self.model.apply_hypernode(state)

    def remove_hypernode(self, name: str) -> None:
        self.books.hypernodes.pop(name, None)
        self.model.remove_hypernode(name)

    def measure(self, cpu: dict[str, float], memory: dict[str, float], *, ago: float = 0.0) -> None:
        """It is found what nodes use, in percent; some seconds ago."""
        at = self.now - timedelta(seconds=ago)
        if self.books.measured is None or self.books.measured.at <= at:
            self.books.measured = c.NodesMeasured(pool="default", at=at, cpu=cpu, memory=memory)
            self.model.apply_measured(self.books.measured)

    def pod(self, state: c.PodState) -> None:
        key = (state.namespace, state.name)
        self.books.pods[key] = state
        self.model.apply_pod(state)

    def end_pod(self, key: Key, phase: str = "Succeeded") -> None:
        """A pod ends: its state says so once, then it is gone."""
        pod = self.books.pods.pop(key)
        self.model.apply_pod(pod.model_copy(update={"phase": phase}))
        self.model.remove_pod(*key)

    def delete_pod(self, key: Key) -> None:
        self.books.pods.pop(key)
        self.model.remove_pod(*key)

    def submit(self, gang: c.Gang, phase: str = "Pending") -> None:
        key = (gang.namespace, gang.name)
        self.books.gangs[key] = gang
        self.books.phases.setdefault(key, phase)
        self.tell_gang(key)

    def tell_gang(self, key: Key) -> None:
        gang = self.books.gangs[key]
        self.model.apply_podgroup(
            c.PodGroupState(
                namespace=gang.namespace,
                name=gang.name,
                uid=gang.uid,
                phase=self.books.phases[key],
                gang=gang,
            )
        )

    def remove_gang(self, key: Key) -> None:
        """A job is deleted with its pods."""
        self.books.earmarks.pop(key, None)
        del self.books.gangs[key], self.books.phases[key]
        self.model.remove_podgroup(*key)
        for pod in [pod for pod, state in self.books.pods.items() if (state.namespace, state.gang) == key]:
            self.delete_pod(pod)

    # ------------------------------------------------------------------ decisions

    def decide(self, limit: int | None = None) -> list[Decision]:
        """Let the model decide, check each decision, put them in flight."""
        found: list[Decision] = []
        unfinished = True
        while unfinished:
            outcome = decide(self.model, self.now, limit=limit)
            unfinished = outcome.unfinished
            found += outcome.decisions
        for decision in found:
            self._remember(decision)
            if not decision.again and not decision.evictions and not decision.reservations:
                self.check(decision)
            self.books.flying[decision.number] = decision
            gang = self.books.gangs[decision.namespace, decision.name]
            self.books.shapes[decision.number] = {task.name: task.shape for task in gang.tasks}
            self.books.queue_of[decision.number] = gang.queue
            if not decision.again:
                self.check_room({row[2] for row in decision.rows})
                self.check_kept({one.node for one in decision.reservations})
                self.check_queues(decision)
                self.check_groups(decision)
        self.decisions += len(found)
        return found

    def settle(self, rounds: int = 20) -> None:
        """Decide and carry out until nothing is decided any more."""
        for _ in range(rounds):
            found = self.decide()
            if not found and not self.books.leaving:
                return
            for decision in found:
                self.carry_out(decision)
            self.victims_go()
        raise AssertionError("the scheduler does not come to rest")

    def _remember(self, decision: Decision) -> None:
        """Note who keeps room: until its gang is placed, or keeps other room."""
        key = (decision.namespace, decision.name)
        self.books.order.setdefault(decision.number, len(self.books.order))
        if decision.evictions or decision.reservations:
            movers = {(one.gang.namespace, one.gang.name) for one in decision.reservations if one.gang}
            self.books.earmarks |= dict.fromkeys((key, *movers), decision)
            if not decision.again:
                self.books.evicted += [f"{one.namespace}/{one.pod}" for one in decision.evictions]
        else:
            self.books.earmarks.pop(key, None)
            self.books.placed[key] = decision

    def _end_earmarks(self, decision: Decision) -> None:
        """Nothing is kept any more by a decision that was not carried out as it was."""
        for key in [key for key, one in self.books.earmarks.items() if one is decision]:
            del self.books.earmarks[key]

    def victims_go(self, *, remade: bool = True) -> None:
        """Pods that are being taken away are gone; the controller makes them again, Pending."""
        for key, uid in list(self.books.leaving.items()):
            del self.books.leaving[key]
            pod = self.books.pods.get(key)
            if pod is None or pod.uid != uid:
                continue
            self.delete_pod(key)
            if remade and (pod.namespace, pod.gang or "") in self.books.gangs:
                update = {"node": None, "phase": "Pending", "uid": f"{uid}+", "releasing": False}
                self.pod(pod.model_copy(update=update))

    def evict(self, decision: Decision, result: c.DecisionApplied, fail: frozenset[str]) -> None:
        """Take the victims away that are there still, but for those that refuse."""
        failures: list[c.EvictionFailure] = []
        for one in decision.evictions:
            key = (one.namespace, one.pod)
            pod = self.books.pods.get(key)
            if pod is None or pod.uid != one.uid or pod.releasing:
                continue
            if one.pod in fail:
                refused = {"namespace": one.namespace, "pod": one.pod, "uid": one.uid}
                failures.append(c.EvictionFailure(**refused, code="x", message="x"))
            else:
                self.pod(pod.model_copy(update={"releasing": True}))
                self.books.leaving[key] = one.uid
        if failures:
            self._end_earmarks(decision)
        outcome = c.DecisionOutcome.PARTIAL if failures else c.DecisionOutcome.APPLIED
        self.say(result.model_copy(update={"eviction_failures": tuple(failures)}), outcome)

    def carry_out(self, decision: Decision, fail: frozenset[str] = frozenset()) -> None:
        """Do what the controller does: all of it, or with failures as far as the minimum allows."""
        self.books.flying.pop(decision.number, None)
        key = (decision.namespace, decision.name)
        gang = self.books.gangs.get(key)
        ref = c.GangRef(
            namespace=decision.namespace, name=decision.name, uid=decision.uid, generation=decision.generation
        )
        result = c.DecisionApplied(
            decision=decision.number,
            pool="default",
            gang=ref,
            outcome=c.DecisionOutcome.APPLIED,
            at=self.now,
        )
        if gang is None or (gang.uid, gang.generation) != (decision.uid, decision.generation):
            self._end_earmarks(decision)
            self.say(result, c.DecisionOutcome.REFUSED)
            return
        if decision.evictions or decision.reservations:
            self.evict(decision, result, fail)
            return
        good = [row for row in decision.rows if row[0] not in fail and self._can_bind(row)]
        bad = [row for row in decision.rows if row not in good]
        before = sum(1 for pod in self.members(key) if pod.node is not None)
        if len(good) + before < decision.minimum or not good:
            self.say(result, c.DecisionOutcome.ROLLED_BACK)
            return
        if decision.enqueue:
            self.books.phases[key] = "Inqueue"
        for name, task, node, _ in good:
            has = {"devices": decision.devices.get(name, ()), "numa": numa_cpus(decision.cells.get(name, ()))}
            self.bind(gang, name, task, node, has)
        self.create_rest(gang)
        failures = tuple(c.BindFailure(pod=row[0], node=row[2], code="x", message="x") for row in bad)
        partial = c.DecisionOutcome.PARTIAL if bad else c.DecisionOutcome.APPLIED
        self.say(result.model_copy(update={"failures": failures}), partial)
        self.tell_gang(key)

    def say(self, result: c.DecisionApplied, outcome: c.DecisionOutcome) -> None:
        apply_result(self.model, result.model_copy(update={"outcome": outcome}))

    def _can_bind(self, row: tuple[str, str, str, str | None]) -> bool:
        return row[2] in self.books.nodes

    def bind(
        self, gang: c.Gang, name: str, task: str, node: str, has: Mapping[str, object] | None = None
    ) -> None:
        update = {"node": node, "phase": "Running", **(has or {})}
        self.pod(self._pod(gang, name, task).model_copy(update=update))

    def create_rest(self, gang: c.Gang) -> None:
        """Members that got no place are created Pending."""
        for task in gang.tasks:
            for member in task.members:
                if (gang.namespace, member.pod) not in self.books.pods:
                    self.pod(self._pod(gang, member.pod, task.name))

    def _pod(self, gang: c.Gang, name: str, task: str) -> c.PodState:
        there = self.books.pods.get((gang.namespace, name))
        shape = next(one.shape for one in gang.tasks if one.name == task)
        return c.PodState(
            namespace=gang.namespace,
            name=name,
            uid=there.uid if there else f"uid-{name}-{gang.generation}-{self.decisions}",
            gang=gang.name,
            task=task,
            generation=gang.generation,
            queue=gang.queue,
            shape=shape,
            created_at=self.now,
        )

    def members(self, key: Key) -> list[c.PodState]:
        """Pods of a gang's present generation."""
        gang = self.books.gangs[key]
        return [
            pod
            for pod in self.books.pods.values()
            if (pod.namespace, pod.gang) == key and pod.generation == gang.generation
        ]

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # ------------------------------------------------------------------ invariants

    def check(self, decision: Decision) -> None:
        """Invariant 1: at least the minimums together, or nothing; each member once, on a known node."""
        key = (decision.namespace, decision.name)
        gang = self.books.gangs[key]
        names = [row[0] for row in decision.rows]
        assert len(set(names)) == len(names)
        flying = [
            row[1]
            for other in self.books.flying.values()
            if (other.namespace, other.name, other.uid, other.generation)
            == (gang.namespace, gang.name, gang.uid, gang.generation)
            for row in other.rows
            if (gang.namespace, row[0]) not in self.books.pods
            or self.books.pods[gang.namespace, row[0]].node is None
        ]
        held = [pod.task for pod in self.members(key) if pod.node is not None]
        tasks = held + flying + [row[1] for row in decision.rows]
        assert len(tasks) >= gang.min_member, decision
        if sum(task.minimum for task in gang.tasks) <= gang.min_member:
            for task in gang.tasks:
                assert tasks.count(task.name) >= task.minimum, (decision, task.name)
        self._check_near(gang, decision)
        self._check_among(decision)
        for name, _, node, _ in decision.rows:
            assert node in self.books.nodes, decision
            pod = self.books.pods.get((gang.namespace, name))
            assert pod is None or pod.generation != gang.generation or pod.node is None, decision

    def _check_near(self, gang: c.Gang, decision: Decision) -> None:
        if gang.topology is None and not gang.sub_groups:
            return
        places = {
            pod.name: pod.node
            for pod in self.members((gang.namespace, gang.name))
            if pod.node is not None and not pod.releasing
        }
        for other in (*self.books.flying.values(), decision):
            if (other.uid, other.generation) == (gang.uid, gang.generation):
                places |= {row[0]: row[2] for row in other.rows if row[0] not in places}
        decided = [row[0] for row in decision.rows]
        check_near(gang, decided, places, self.books.hypernodes, self.books.nodes)

    def there(self, *, twice: bool = False) -> list[There]:
        """All pods that are on nodes, or in flight; ``twice``: of an earlier generation too, if both are."""
        bound = [
            pod
            for pod in self.books.pods.values()
            if pod.node is not None and pod.phase not in ("Succeeded", "Failed")
        ]
        there = [There(pod.name, pod.namespace, pod.node, pod.shape) for pod in bound]
        known = {(pod.namespace, pod.name): pod.generation for pod in bound}
        for other in self.books.flying.values():
            shapes = self.books.shapes[other.number]
            there += [
                There(row[0], other.namespace, row[2], shapes[row[1]], flight=other.number)
                for row in other.rows
                if (there_now := known.get((other.namespace, row[0]))) is None
                or (twice and there_now != other.generation)
            ]
        return there

    def _check_among(self, decision: Decision) -> None:
        there = self.there()
        gang = self.books.gangs[decision.namespace, decision.name]
        own = {task.name: task.shape for task in gang.tasks}
        there += [There(row[0], gang.namespace, row[2], own[row[1]], True) for row in decision.rows]
        check_among(there, self.books.nodes)
        check_volumes(there, self.books.nodes)
        for node in {row[2] for row in decision.rows}:
            check_alone(self._devices_on(node, decision))
        if self.model.policy.numa:
            check_numa(self.having(decision), self.books.nodes)

    def _devices_on(self, node: str, decision: Decision) -> Iterator[tuple[c.Shape, tuple[int, ...]]]:
        """Yield what pods on a node take of devices, those in flight and in a decision included."""
        flying: dict[Key, tuple[c.Shape, tuple[int, ...]]] = {}
        for one in (*self.books.flying.values(), decision):
            tasks = self.books.gangs[decision.namespace, decision.name].tasks
            shapes = self.books.shapes.get(one.number) or {task.name: task.shape for task in tasks}
            for name, task, on, _ in one.rows:
                if on == node:
                    flying[one.namespace, name] = shapes[task], one.devices.get(name, ())
        for key, pod in self.books.pods.items():
            if pod.node == node and pod.phase not in ("Succeeded", "Failed"):
                flying.pop(key, None)
                yield pod.shape, pod.devices
        yield from flying.values()

    def cells(self) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
        """What is used of NUMA nodes, by node and resource, and what of it by pods that are being deleted."""
        there = [
            pod
            for pod in self.books.pods.values()
            if pod.node is not None and pod.phase not in ("Succeeded", "Failed")
        ]
        on = [(pod, (pod.node or "", {f"numa/{one.node}": one.cpus for one in pod.numa})) for pod in there]
        flying = [
            (row[2], {f"numa/{number}": cpus for number, cpus in decision.cells.get(row[0], ())})
            for decision in self.books.flying.values()
            for row in decision.rows
        ]
        used = [cells for _, cells in on] + flying
        return _sums(used), _sums(cells for pod, cells in on if self._leaves(pod))

    def having(self, decision: Decision) -> list[Having]:
        """All pods that are on nodes, in flight or in this decision, with the CPUs that they have."""
        having = [
            Having(pod.node, pod.shape, {one.node: one.cpus for one in pod.numa}, False)
            for pod in self.books.pods.values()
            if pod.node is not None and pod.phase not in ("Succeeded", "Failed")
        ]
        known = {(pod.namespace, pod.name) for pod in self.books.pods.values() if pod.node is not None}
        gang = self.books.gangs[decision.namespace, decision.name]
        own = {task.name: task.shape for task in gang.tasks}
        for one in (*self.books.flying.values(), decision):
            shapes = own if one is decision else self.books.shapes[one.number]
            having += [
                Having(row[2], shapes[row[1]], dict(one.cells.get(row[0], ())), one is decision)
                for row in one.rows
                if (one.namespace, row[0]) not in known
            ]
        return having

    def charges(self) -> list[tuple[str, str | None, dict[str, int]]]:
        """Node, queue and requests of each bound pod and each pod in flight."""
        found: list[tuple[str, str | None, dict[str, int]]] = [
            (pod.node, pod.queue or None, self._asked(pod))
            for pod in self.books.pods.values()
            if pod.node is not None and pod.phase not in ("Succeeded", "Failed")
        ]
        for number, decision in self.books.flying.items():
            for name, task, node, _ in decision.rows:
                state, devices = self.books.nodes.get(node), decision.devices.get(name, ())
                amounts = asked_of(self.books.shapes[number][task], devices, state)
                found.append((node, self.books.queue_of[number], amounts))
        return found

    def _asked(self, pod: c.PodState) -> dict[str, int]:
        return asked_of(pod.shape, pod.devices, self.books.nodes.get(pod.node or ""))

    def used(self) -> dict[str, dict[str, int]]:
        """What is used on each node, by resource."""
        return _sums((node, amounts) for node, _, amounts in self.charges())

    def releasing(self) -> dict[str, dict[str, int]]:
        """What of it is used by pods that are being deleted."""
        return _sums(
            (pod.node, self._asked(pod))
            for pod in self.books.pods.values()
            if pod.node is not None and pod.phase not in ("Succeeded", "Failed") and self._leaves(pod)
        )

    def _leaves(self, pod: c.PodState) -> bool:
        """It is being deleted, or a decision that is not carried out yet says so."""
        return pod.releasing or any(
            one.uid == pod.uid for decision in self.books.flying.values() for one in decision.evictions
        )

    def kept(self) -> dict[str, dict[str, int]]:
        """What is kept on each node for gangs, of what decisions said: as far as the model still keeps it."""
        return _sums(
            (one.node, self._kept_by(key, one))
            for key, decision in self.books.earmarks.items()
            if (mark := self.model.earmarks.of(key)) is not None and mark.number == decision.number
            for one in decision.reservations
            if key
            == ((one.gang.namespace, one.gang.name) if one.gang else (decision.namespace, decision.name))
        )

    def _kept_by(self, key: Key, one: c.Reservation) -> dict[str, int]:
        shape = next(task.shape for task in self.books.gangs[key].tasks if task.name == one.task)
        amounts = asked_of(shape, one.devices, self.books.nodes.get(one.node))
        parts = {name: each * one.pods for name, each in amounts.items() if name.startswith("device/")}
        return one.resources | parts

    def check_room(self, touched: set[str]) -> None:
        """Invariant 2: a node that was given a pod holds no more than it has, in any resource.

        What is kept for gangs counts, but for what is to come from pods that leave.
        """
        used, kept, releasing = self.used(), self.kept(), self.releasing()
        for node in touched:
            for name, amount in kept.get(node, {}).items():
                more = max(0, amount - releasing.get(node, {}).get(name, 0))
                used.setdefault(node, {})[name] = used.get(node, {}).get(name, 0) + more
        for node in touched:
            there = room_of(self.books.nodes[node])
            for name, amount in used[node].items():
                if not counts(name, there):
                    continue
                assert amount <= there.get(name, 1 << 40 if name == "pods" else 0), (node, name, used[node])

    def check_kept(self, touched: set[str]) -> None:
        """And once all that leaves it has left, a node has what is kept on it."""
        used, kept, releasing = self.used(), self.kept(), self.releasing()
        for node in touched:
            there, leaves = room_of(self.books.nodes[node]), releasing.get(node, {})
            for name, amount in kept.get(node, {}).items():
                left = used.get(node, {}).get(name, 0) - leaves.get(name, 0)
                assert left + amount <= there.get(name, 1 << 40 if name == "pods" else 0), (node, name)

    def check_queues(self, decision: Decision) -> None:
        """Invariant 3, for capability: no level above the gang holds more than it may of what it took."""
        gang = self.books.gangs[decision.namespace, decision.name]
        shapes = {task.name: task.shape for task in gang.tasks}
        took = {"pods"} | {name for row in decision.rows for name in shapes[row[1]].requests}
        for level in self._levels(gang.queue):
            held: dict[str, int] = {}
            for _, queue, amounts in self.charges():
                if level in self._levels(queue):
                    for resource, amount in amounts.items():
                        held[resource] = held.get(resource, 0) + amount
            state = self.books.queues.get(level)
            for resource, limit in ((state.capability or {}) if state else {}).items():
                assert resource not in took or held.get(resource, 0) <= limit, (level, held)

    def check_groups(self, decision: Decision) -> None:
        """A queue has no more of a group of nodes than it may, if the decision gave it any there."""
        grouping = self.policy.grouping
        queue = self.books.queues.get(self.books.gangs[decision.namespace, decision.name].queue)
        if grouping is None or not grouping.filters or queue is None or not queue.node_group_limits:
            return
        label = {name: state.labels.get(NODEGROUP_NAME) for name, state in self.books.nodes.items()}
        for group in {label.get(row[2]) for row in decision.rows}:
            held: Counter[str] = Counter()
            for node, owner, amounts in self.charges():
                if owner == queue.name and label.get(node) == group:
                    held.update(amounts)
            for resource, most in queue.node_group_limits.get(group or "", {}).items():
                assert held[resource] <= most, (decision.number, queue.name, group, resource)

    def _levels(self, queue: str | None) -> list[str]:
        levels: list[str] = []
        while queue is not None and queue not in levels:
            levels.append(queue)
            queue = self._parent(queue)
        return levels

    def _parent(self, queue: str) -> str | None:
        state = self.books.queues.get(queue) if self.policy.sharing.hierarchy else None
        return state.parent if state and state.parent in self.books.queues else None


def _sums(charges: Iterable[tuple[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    """Add up amounts by node and resource."""
    sums: dict[str, dict[str, int]] = {}
    for node, amounts in charges:
        row = sums.setdefault(node, {})
        for name, amount in amounts.items():
            row[name] = row.get(name, 0) + amount
    return sums
