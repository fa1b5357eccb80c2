"""A scenario run to its end: objects appear, controllers act, the scheduler decides, pods run.

At each moment everything that is due happens first; then controllers and scheduler take turns until neither
has anything to do. Deciding and carrying out take no time, and a pod runs from the moment it is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from services.controller.core.facts import hypernode_state, node_state, priority_class_state, queue_state
from services.controller.core.persistent import HOSTNAME
from services.controller.core.podclaims import claims_of_spec
from services.controller.core.podview import owner_job
from services.scheduler.core.configuration import configure
from services.scheduler.core.cycle import decide
from services.scheduler.core.events import event_of
from services.scheduler.core.extending import unasked
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Policy
from services.scheduler.core.reports import Reporter
from services.simulation.core.carrying import Applier
from services.simulation.core.devices import KINDS as DEVICE_KINDS
from services.simulation.core.devices import DeviceClaims
from services.simulation.core.groups import Groups
from services.simulation.core.history import History, full_name
from services.simulation.core.jobs import Jobs
from services.simulation.core.kin import label_keys
from services.simulation.core.kinds import POLICY, POLICY_KEY
from services.simulation.core.measures import Measures
from services.simulation.core.notes import read_load
from services.simulation.core.numa import NumaNodes
from services.simulation.core.outcome import Outcome
from services.simulation.core.pods import Pods
from services.simulation.core.scenario import Entry, Scenario
from services.simulation.core.store import Key, Store, key_of
from services.simulation.core.timeline import BEGINNING, Timeline, seconds
from services.simulation.core.volumes import Claims
from shared.api import resources as r
from shared.api.base import JSON
from shared.errors import PumiceError
from shared.events.contracts import NodesMeasured, NodeState
from shared.kube.port import Resource

_UNREACHABLE: Final = timedelta(seconds=300)
"""After so long without its kubelet a node's pods are taken away (Kubernetes' default toleration)."""
_ESTIMATE_PAUSE: Final = timedelta(seconds=10)
"""Estimates of starts are worked out anew after so long, as in a cluster."""
_TICK: Final = timedelta(microseconds=1)
_MOST_TURNS: Final = 100_000
"""Turns of controllers at one moment."""
_IDLE_WAKES: Final = 100
"""Times that the scheduler looks again, with nothing else left to happen, before that is the end."""


class RestlessError(PumiceError):
    """Controllers or the scheduler do not come to rest: that is a mistake of ours."""


class Simulation:
    """The cluster, its controllers and its scheduler."""

    def __init__(self, policy: Policy | None = None, *, fixed: bool = False) -> None:
        """``fixed``: no ConfigMap changes the policy."""
        self._policy = policy or Policy()
        self._fixed = fixed
        self._model = Model(policy=self._policy)
        self._store = Store()
        self._timeline = Timeline()
        self._history = History(self._timeline)
        self._measures = Measures(self._model)
        self._reporter = Reporter(self._model, _ESTIMATE_PAUSE)
        parts = (self._store, self._timeline, self._history, self._model)
        self._claims = Claims(self._store, self._timeline)
        self._claims.on_change = self._claim_changed
        self._claims.on_host = self._host_changed
        self._devices = DeviceClaims(self._store, self._timeline)
        self._devices.on_node = self._devices_changed
        self._devices.on_claim = self._device_claim_changed
        self._numa = NumaNodes(self._store)
        self._pods = Pods(*parts, self._claims, self._devices, self._numa)
        self._jobs = Jobs(*parts, self._pods, self._claims)
        self._groups = Groups(*parts, self._pods)
        self._applier = Applier(*parts, self._pods, self._groups, self._claims, self._devices)
        self._cycle = 0
        self._load: dict[str, dict[str, float]] = {}
        """What nodes really use, in percent; of those that were ever measured."""
        self._told: dict[str, str] = {}
        """Code of the reason last told, by gang."""
        self._comes: dict[Resource, Callable[[Resource, JSON], None]] = {
            r.NODES: self._node,
            r.QUEUES: self._queue,
            r.PRIORITYCLASSES: self._priority_class,
            r.HYPERNODES: self._hypernode,
            r.NUMATOPOLOGIES: self._numatopology,
            r.PDBS: self._budget,
            r.JOBS: self._job,
            r.PODGROUPS: self._podgroup,
            r.PODS: self._pod,
            r.CONFIGMAPS: self._config_map,
            r.PVCS: self._claim,
            r.PVS: self._storage,
            r.STORAGECLASSES: self._storage,
            r.CSINODES: self._storage,
            **dict.fromkeys(DEVICE_KINDS, self._device_object),
        }
        self._goes: dict[Resource, Callable[[Resource, Key], None]] = {
            r.NODES: self._node_gone,
            r.QUEUES: self._queue_gone,
            r.PRIORITYCLASSES: self._priority_class_gone,
            r.HYPERNODES: self._hypernode_gone,
            r.NUMATOPOLOGIES: self._numatopology_gone,
            r.PDBS: self._budget_gone,
            r.JOBS: self._job_gone,
            r.PODGROUPS: self._podgroup_gone,
            r.PODS: self._pod_gone,
            r.CONFIGMAPS: self._config_map_gone,
            r.PVCS: self._claim_gone,
            r.PVS: self._storage_gone,
            r.STORAGECLASSES: self._storage_gone,
            r.CSINODES: self._storage_gone,
            **dict.fromkeys(DEVICE_KINDS, self._device_object_gone),
        }

    def run(self, scenario: Scenario, until: timedelta | None = None) -> Outcome:
        """Run until nothing is left to happen, or until a time."""
        end = None if until is None else BEGINNING + until
        self._store.label_keys = label_keys(entry.raw for entry in scenario.entries)
        for entry in scenario.entries:
            self._timeline.add(BEGINNING + entry.at, partial(self._appear, entry))
        idle, wake, last = 0, None, BEGINNING
        while True:
            planned = self._timeline.next()
            now = min((at for at in (planned, wake) if at is not None), default=None)
            if now is None or idle > _IDLE_WAKES or (end is not None and now > end):
                break
            before = len(self._history.events)
            self._timeline.advance(now)
            wake = self._settle()
            happened = len(self._history.events) > before
            last = self._timeline.now if happened else last
            idle = 0 if happened or planned is not None else idle + 1
        over = seconds(end or last)
        return Outcome(self._history, self._measures.as_json(over), over)

    # ------------------------------------------------------------------ one moment

    def _settle(self) -> datetime | None:
        """Let controllers and scheduler act until both rest; return when the scheduler will look again."""
        self._measure()
        while True:
            self._control()
            outcome = decide(self._model, self._timeline.now)
            self._cycle += 1
            for decision in outcome.decisions:
                self._applier.carry_out(event_of(decision, self._model.pool, self._cycle, None))
            if not outcome.decisions and not outcome.unfinished:
                break
        self._report()
        self._measures.note(self._history.at)
        return outcome.wake_at and max(outcome.wake_at, self._timeline.now + _TICK)

    def _measure(self) -> None:
        """Have it known what nodes really use: they are measured at each moment."""
        if self._load:
            cpu, memory = (
                {name: one[what] for name, one in self._load.items() if what in one}
                for what in ("cpu", "memory")
            )
            now = self._timeline.now
            self._model.apply_measured(NodesMeasured(pool=self._model.pool, at=now, cpu=cpu, memory=memory))

    def _control(self) -> None:
        """Let the controllers look until none of them has anything to do."""
        jobs, groups = self._pods.jobs, self._pods.groups
        for _ in range(_MOST_TURNS):
            if jobs:
                key = next(iter(jobs))
                del jobs[key]
                self._jobs.look(key)
            elif groups:
                key = next(iter(groups))
                del groups[key]
                self._groups.look(key)
            else:
                self._pods.budgets.look()
                return
        raise RestlessError(f"the controllers do not come to rest {self._history.at} s after the beginning")

    def _report(self) -> None:
        """Note why gangs wait, as it changes."""
        self._reporter.begin(self._timeline.now)
        while self._reporter.foresee():
            pass
        while (reports := self._reporter.some(self._timeline.now, 1000)) is not None:
            for report in reports:
                gang, job = report.gang, report.job
                name = (
                    full_name((gang.namespace, job))
                    if job
                    else self._groups.name_of((gang.namespace, gang.name))
                )
                reason = report.reason
                self._history.waits(
                    name,
                    reason.message,
                    is_news=self._told.get(name) != reason.code,
                    estimate=None if report.estimated_start is None else seconds(report.estimated_start),
                )
                self._told[name] = reason.code
        for namespace, name in self._reporter.ended():
            self._told.pop(full_name((namespace, name)), None)

    # ------------------------------------------------------------------ what appears and goes

    def _appear(self, entry: Entry) -> None:
        resource, key = entry.kind.resource, key_of(entry.raw)
        changes = self._store.get(resource, key) is not None
        self._history.tell("changed" if changes else "appeared", f"{resource.kind} {full_name(key)}")
        self._comes.get(resource, self._keep)(resource, entry.raw)
        if entry.gone is not None:
            uid = self._uid(resource, key)
            self._timeline.add(BEGINNING + entry.gone, lambda: self._leave(resource, key, uid))

    def _leave(self, resource: Resource, key: Key, uid: str) -> None:
        if self._uid(resource, key) != uid:
            return  # it is gone already, and this is another of its name
        self._history.tell("deleted", f"{resource.kind} {full_name(key)}")
        self._goes.get(resource, self._forget)(resource, key)

    def _uid(self, resource: Resource, key: Key) -> str:
        raw = self._store.get(resource, key)
        return "" if raw is None else raw["metadata"]["uid"]

    def _keep(self, resource: Resource, raw: JSON) -> None:
        """Create or replace an object."""
        old = self._store.get(resource, key_of(raw))
        if old is None:
            self._store.create(resource, raw, self._timeline.now)
        else:
            self._store.put(resource, {**raw, "metadata": {**old["metadata"], **raw["metadata"]}})

    def _forget(self, resource: Resource, key: Key) -> None:
        self._store.remove(resource, key)

    def _node(self, resource: Resource, raw: JSON) -> None:
        self._keep(resource, raw)
        state = self._tell_node(raw)
        load = read_load(raw["metadata"].get("annotations") or {})
        if load is not None or state.name in self._load:
            self._load[state.name] = load or {}
        for pod in self._store.pods_on(state.name):
            self._pods.retell(pod)
        if not state.ready:
            name = state.name
            self._timeline.add(self._timeline.now + _UNREACHABLE, lambda: self._unreachable(name))

    def _tell_node(self, raw: JSON) -> NodeState:
        state = self._devices.of_node(self._numa.of_node(self._claims.of_node(node_state(raw))))
        self._model.apply_node(state)
        return state

    def _unreachable(self, name: str) -> None:
        raw = self._store.get(r.NODES, ("", name))
        if raw is not None and not node_state(raw).ready:
            self._empty(name, f"node {name} has not been ready for {_UNREACHABLE.total_seconds():g} s")

    def _node_gone(self, resource: Resource, key: Key) -> None:
        self._store.remove(resource, key)
        self._model.remove_node(key[1])
        self._empty(key[1], f"node {key[1]} is gone")

    def _empty(self, node: str, why: str) -> None:
        for pod in self._store.pods_on(node):
            self._pods.drop(key_of(pod), why)

    def _queue(self, resource: Resource, raw: JSON) -> None:
        self._keep(resource, raw)
        self._model.apply_queue(queue_state(self._store.all(resource)[key_of(raw)]))
        self._look_everywhere()

    def _queue_gone(self, resource: Resource, key: Key) -> None:
        self._store.remove(resource, key)
        self._model.remove_queue(key[1])

    def _priority_class(self, resource: Resource, raw: JSON) -> None:
        self._keep(resource, raw)
        self._model.apply_priority_class(priority_class_state(raw))
        self._look_everywhere()

    def _priority_class_gone(self, resource: Resource, key: Key) -> None:
        self._store.remove(resource, key)
        self._model.remove_priority_class(key[1])

    def _hypernode(self, resource: Resource, raw: JSON) -> None:
        self._keep(resource, raw)
        self._model.apply_hypernode(hypernode_state(raw))

    def _hypernode_gone(self, resource: Resource, key: Key) -> None:
        self._store.remove(resource, key)
        self._model.remove_hypernode(key[1])

    def _numatopology(self, resource: Resource, raw: JSON) -> None:
        self._keep(resource, raw)
        self._numa_changed(key_of(raw)[1])

    def _numatopology_gone(self, resource: Resource, key: Key) -> None:
        self._store.remove(resource, key)
        self._numa_changed(key[1])

    def _numa_changed(self, name: str) -> None:
        """Tell anew of a node, and of the pods on it: which CPUs they have is told by it."""
        node = self._store.get(r.NODES, ("", name))
        if node is not None:
            self._tell_node(node)
        for pod in self._store.pods_on(name):
            self._pods.retell(pod)

    def _budget(self, resource: Resource, raw: JSON) -> None:
        self._keep(resource, raw)
        self._tell_pods(key_of(raw)[0])

    def _budget_gone(self, resource: Resource, key: Key) -> None:
        self._store.remove(resource, key)
        self._pods.budgets.forget(key)
        self._tell_pods(key[0])

    def _tell_pods(self, namespace: str) -> None:
        """Tell anew which budgets protect the pods of a namespace."""
        for (own, _), pod in self._store.all(r.PODS).items():
            if own == namespace:
                self._pods.retell(pod)

    def _config_map(self, resource: Resource, raw: JSON) -> None:
        self._keep(resource, raw)
        if key_of(raw) == POLICY and not self._fixed:
            self._model.set_policy(unasked(configure(raw["data"][POLICY_KEY], self._policy).policy))

    def _config_map_gone(self, resource: Resource, key: Key) -> None:
        self._store.remove(resource, key)
        if key == POLICY:
            self._model.set_policy(self._policy)

    def _claim(self, resource: Resource, raw: JSON) -> None:
        self._keep(resource, raw)
        self._claims.appear(raw)
        self._storage_changed()

    def _claim_gone(self, resource: Resource, key: Key) -> None:
        self._store.remove(resource, key)
        self._claim_changed(*key)

    def _storage(self, resource: Resource, raw: JSON) -> None:
        """A volume, a class, or what a node says about drivers: a volume is free unless it is claimed."""
        free = {"status": {"phase": "Available"}} if resource is r.PVS else {}
        self._keep(resource, {**free, **raw})
        self._claims.look()
        self._storage_changed()

    def _storage_gone(self, resource: Resource, key: Key) -> None:
        self._store.remove(resource, key)
        self._storage_changed()

    def _storage_changed(self) -> None:
        """Tell anew of all that has to do with volumes."""
        for node in self._store.all(r.NODES).values():
            self._tell_node(node)
        for pod in self._store.all(r.PODS).values():
            if pod["spec"].get("volumes"):
                self._pods.retell(pod)
        self._look_everywhere()

    def _claim_changed(self, namespace: str, name: str) -> None:
        """Tell anew of pods and gangs that may mount a claim."""
        for key, pod in self._store.all(r.PODS).items():
            mounted = (one.get("persistentVolumeClaim") or {} for one in pod["spec"].get("volumes") or ())
            if key[0] == namespace and any(one.get("claimName") == name for one in mounted):
                self._pods.retell(pod)
        self._look_everywhere()

    def _device_object(self, resource: Resource, raw: JSON) -> None:
        """Something about devices that can be claimed has appeared or changed."""
        key = key_of(raw)
        old = self._store.get(resource, key)
        self._keep(resource, raw)
        self._devices.changed(resource, old, self._store.get(resource, key))
        self._tell_claimants()

    def _device_object_gone(self, resource: Resource, key: Key) -> None:
        old = self._store.remove(resource, key)
        self._devices.changed(resource, old, None)
        self._tell_claimants()

    def _tell_claimants(self) -> None:
        """Tell anew of all pods and gangs that claim devices."""
        for pod in list(self._store.all(r.PODS).values()):
            if pod["spec"].get("resourceClaims"):
                self._pods.retell(pod)
        self._look_everywhere()

    def _devices_changed(self, node: str) -> None:
        raw = self._store.get(r.NODES, ("", node))
        if raw is not None:
            self._tell_node(raw)

    def _device_claim_changed(self, namespace: str, name: str) -> None:
        """Tell anew of pods and gangs that may name a claim."""
        for key, pod in list(self._store.all(r.PODS).items()):
            asked = claims_of_spec(pod["spec"])
            if key[0] == namespace and any(one.claim == name for one in asked):
                self._pods.retell(pod)
        self._look_everywhere()

    def _host_changed(self, host: str) -> None:
        for node in self._store.all(r.NODES).values():
            if (node["metadata"].get("labels") or {}).get(HOSTNAME) == host:
                self._tell_node(node)

    def _look_everywhere(self) -> None:
        """Have all gangs looked at: what they depend on has changed."""
        self._pods.jobs.update(dict.fromkeys(self._store.all(r.JOBS)))
        groups = self._store.all(r.PODGROUPS).items()
        self._pods.groups.update((key, None) for key, group in groups if owner_job(group) is None)

    def _job(self, _: Resource, raw: JSON) -> None:
        self._jobs.appear(raw)

    def _job_gone(self, _: Resource, key: Key) -> None:
        self._jobs.leave(key)

    def _podgroup(self, _: Resource, raw: JSON) -> None:
        self._groups.appear(raw)

    def _podgroup_gone(self, _: Resource, key: Key) -> None:
        self._groups.leave(key)

    def _pod(self, _: Resource, raw: JSON) -> None:
        self._pods.make(raw)

    def _pod_gone(self, _: Resource, key: Key) -> None:
        pod = self._store.all(r.PODS)[key]
        self._pods.delete(key, pod["metadata"]["uid"])
