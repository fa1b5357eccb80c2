"""The applier's part: carries decisions out at once, and says what became of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from services.controller.core.apply import (
    BindExisting,
    Conclusion,
    CreateBound,
    Gang,
    InPlace,
    conclude,
    examine,
)
from services.controller.core.claims import (
    Claimant,
    Place,
    claimants_of_job,
    claimants_of_pods,
    places_of_job,
    places_of_pods,
)
from services.controller.core.devices import device_annotations
from services.controller.core.evicting import is_to_go
from services.controller.core.members import read_member
from services.controller.core.model import Wanted, read_job
from services.controller.core.numa import numa_annotations
from services.controller.core.plainapply import conclude_plain, examine_plain
from services.controller.core.plaingangs import read_plain_group
from services.controller.core.pods import make_pod
from services.controller.core.podview import owner_job, read_pod
from services.controller.core.status import Status, read_status
from services.scheduler.core.model import Model
from services.scheduler.core.results import apply_result
from services.simulation.core.devices import DeviceClaims
from services.simulation.core.groups import Groups
from services.simulation.core.history import History, full_name, spread
from services.simulation.core.pods import Pods
from services.simulation.core.store import Key, Store, key_of, patched
from services.simulation.core.timeline import Timeline
from services.simulation.core.volumes import Claims
from shared.api import resources as r
from shared.api.base import JSON
from shared.api.scheduling import PodGroupPhase
from shared.events.contracts import (
    BindFailure,
    Binding,
    BoundPod,
    DecisionApplied,
    DecisionOutcome,
    Eviction,
    GangDecided,
)

_STANDS: Final = frozenset({DecisionOutcome.APPLIED, DecisionOutcome.PARTIAL})


class Applier:
    """Applies decisions to the store and tells the model of the result."""

    def __init__(
        self,
        store: Store,
        timeline: Timeline,
        history: History,
        model: Model,
        pods: Pods,
        groups: Groups,
        claims: Claims,
        devices: DeviceClaims,
    ) -> None:
        self._claims = claims
        self._devices = devices
        self._store = store
        self._timeline = timeline
        self._history = history
        self._model = model
        self._pods = pods
        self._groups = groups
        self._kept: dict[str, str] = {}
        """Nodes last told to be kept, by gang: a reservation that is only renewed is no news."""

    def carry_out(self, decision: GangDecided) -> None:
        """Do what a decision says."""
        key = (decision.gang.namespace, decision.gang.name)
        raw = self._store.get(r.PODGROUPS, key)
        owner = None if raw is None else owner_job(raw)
        if owner is not None:
            job = (key[0], owner[0])
            name = full_name(job)
            self._pods.jobs[job] = None
        else:
            job, name = None, self._groups.name_of(key)
            self._pods.groups[key] = None
        self._say(decision, name)
        for eviction in decision.evictions:
            self._evict(eviction, name)
        result = self._plain(key, raw, decision) if job is None else self._of_job(job, decision)
        self._devices.give_back()
        if result.bound and result.outcome in _STANDS:
            self._history.started(name)
        for pod in result.take_back:
            self._pods.delete((key[0], pod.pod), pod.uid, ours=True)
        apply_result(
            self._model,
            DecisionApplied(
                decision=decision.decision,
                pool=decision.pool,
                gang=decision.gang,
                outcome=result.outcome,
                bound=result.bound,
                failures=result.failures,
                message=result.message,
                at=self._timeline.now,
            ),
        )

    def _say(self, decision: GangDecided, name: str) -> None:
        bindings, victims = decision.bindings, decision.evictions
        parts = [
            f"{len(bindings)} pods: {spread(one.node for one in bindings)}" if bindings else "",
            f"takes away {len(victims)} pods" if victims else "",
            f"keeps {', '.join(one.node for one in decision.reservations)}" if decision.reservations else "",
        ]
        kept, self._kept[name] = self._kept.get(name), parts[-1]
        if not bindings and not victims and kept == parts[-1]:
            return
        self._history.tell("decided", f"Gang {name}", "; ".join(filter(None, parts)))

    def _evict(self, eviction: Eviction, name: str) -> None:
        key = (eviction.namespace, eviction.pod)
        if is_to_go(eviction, self._store.get(r.PODS, key)):
            self._history.evict(full_name(key), name, eviction.reason)
            self._pods.delete(key, eviction.uid)

    # ------------------------------------------------------------------ gangs of jobs

    def _of_job(self, job: Key, decision: GangDecided) -> Conclusion:
        raw = self._store.get(r.JOBS, job)
        wanted = None if raw is None else read_job(raw)
        gang = self._gang(wanted, raw)
        places = {} if wanted is None else places_of_job(wanted, decision.bindings)
        claimants = [] if wanted is None else claimants_of_job(wanted, decision.bindings)
        verdict = examine(decision, gang, self._bring_about(decision.gang.namespace, places, claimants))
        if verdict.refused or wanted is None or gang.group is None:
            return Conclusion(DecisionOutcome.REFUSED, message=verdict.refused)
        if decision.enqueue and not gang.group.admitted and not verdict.hopeless:
            self._let_in(gang.group.raw)
        steps = [] if verdict.hopeless else verdict.steps
        bound = [self._step(wanted, gang.status, one) for one in steps if not isinstance(one, BindFailure)]
        failures = [one for one in verdict.steps if isinstance(one, BindFailure)]
        return conclude(decision, gang, bound, failures)

    def _gang(self, wanted: Wanted | None, raw: JSON | None) -> Gang:
        nodes = self._store.all(r.NODES)
        if wanted is None or raw is None:
            return Gang(None, Status(), None, {}, nodes)
        pods = [read_pod(pod) for pod in self._store.pods_of_job((wanted.namespace, wanted.name))]
        return Gang(
            wanted, read_status(raw), self._store.group(wanted), {pod.name: pod for pod in pods}, nodes
        )

    def _step(self, wanted: Wanted, status: Status, step: InPlace | CreateBound | BindExisting) -> BoundPod:
        if isinstance(step, CreateBound):
            body = make_pod(wanted, status, step.task, step.index, node=step.binding.node)
            return _bound(step.binding, self._pods.make(self._told(body, step.binding)))
        return self._bind(wanted.namespace, step)

    # ------------------------------------------------------------------ gangs of plain pods

    def _plain(self, key: Key, raw: JSON | None, decision: GangDecided) -> Conclusion:
        group = None if raw is None else read_plain_group(raw)
        pods = {pod["metadata"]["name"]: read_member(pod) for pod in self._store.pods_of_group(key)}
        places = places_of_pods({name: pod.raw for name, pod in pods.items()}, decision.bindings)
        claimants = claimants_of_pods({name: pod.raw for name, pod in pods.items()}, decision.bindings)
        unready = self._bring_about(key[0], places, claimants)
        verdict = examine_plain(decision, group, pods, self._store.all(r.NODES), unready)
        if verdict.refused or raw is None or group is None:
            return Conclusion(DecisionOutcome.REFUSED, message=verdict.refused)
        if verdict.enqueue:
            self._let_in(raw)
        steps = [] if verdict.hopeless else verdict.steps
        bound = [self._bind(key[0], one) for one in steps if not isinstance(one, BindFailure)]
        failures = [one for one in verdict.steps if isinstance(one, BindFailure)]
        return conclude_plain(decision, group, pods, bound, failures)

    # ------------------------------------------------------------------ both

    def _bring_about(
        self, namespace: str, places: Mapping[str, Place], claimants: Sequence[Claimant]
    ) -> dict[str, str]:
        """Give the claims of decided pods what they ask for; return which pods get it not, and why."""
        unready = self._claims.bring_about(namespace, places)
        return unready or self._devices.bring_about(namespace, claimants)

    def _let_in(self, group: JSON) -> None:
        patch = {"status": {"phase": PodGroupPhase.INQUEUE.value}}
        self._store.put(r.PODGROUPS, patched(group, patch))

    def _told(self, pod: JSON, binding: Binding) -> JSON:
        """Return a pod with what it is told of the GPUs and CPUs that were chosen for it."""
        if not binding.devices and not binding.numa:
            return pod
        node, name = self._store.get(r.NODES, ("", binding.node)), full_name(key_of(pod))
        told = device_annotations(self._pods.shape(pod), binding.devices, node, self._timeline.now)
        told |= numa_annotations(binding.numa)
        if binding.devices:
            self._history.devices[name] = list(binding.devices)
        if binding.numa:
            self._history.numa[name] = {str(one.node): one.cpus for one in binding.numa}
        meta = pod["metadata"]
        return {**pod, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), **told}}}

    def _bind(self, namespace: str, step: InPlace | BindExisting) -> BoundPod:
        pod = self._store.all(r.PODS)[namespace, step.binding.pod]
        if isinstance(step, BindExisting):
            pod = self._pods.bind(self._told(pod, step.binding), step.binding.node)
        return _bound(step.binding, pod)


def _bound(binding: Binding, pod: JSON) -> BoundPod:
    return BoundPod(pod=binding.pod, uid=pod["metadata"]["uid"], node=binding.node)
