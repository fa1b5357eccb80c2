"""The job controller's part: looks at a job and does at once what its plan says."""

from __future__ import annotations

from typing import Final

from services.controller.core import checks
from services.controller.core.claims import claim_objects
from services.controller.core.expiry import expires_at
from services.controller.core.facts import podgroup_state
from services.controller.core.gangs import gang_of
from services.controller.core.jobs import plan
from services.controller.core.learning import learn, ran_for, template_of
from services.controller.core.lifecycle import FINAL
from services.controller.core.model import Wanted, read_job
from services.controller.core.plans import PhaseChange, Plan, World
from services.controller.core.podview import read_pod
from services.controller.core.status import Status, read_status, write_status
from services.scheduler.core.model import Model
from services.simulation.core.history import History, full_name
from services.simulation.core.pods import Pods
from services.simulation.core.store import SCHEDULERS, Key, Store, patched
from services.simulation.core.timeline import Timeline
from services.simulation.core.volumes import Claims
from shared.api import names
from shared.api import resources as r
from shared.api.base import JSON
from shared.api.batch import JobPhase
from shared.api.meta import format_time
from shared.events.contracts import TemplateRunTimes

_MOST_LOOKS: Final = 1000
"""Looks at a job until it has to be settled: far more than any life has at one moment."""


class Jobs:
    """Keeps jobs, their PodGroups and pods true."""

    def __init__(
        self,
        store: Store,
        timeline: Timeline,
        history: History,
        model: Model,
        pods: Pods,
        claims: Claims,
    ) -> None:
        self._claims = claims
        self._store = store
        self._timeline = timeline
        self._history = history
        self._model = model
        self._pods = pods
        self._ran: dict[tuple[str, str], TemplateRunTimes] = {}
        """For how long jobs ran, by queue and template."""

    def appear(self, raw: JSON) -> None:
        """Create a job, or change its spec."""
        meta = raw["metadata"]
        key = (meta["namespace"], meta["name"])
        old = self._store.get(r.JOBS, key)
        if old is None:
            stamp = format_time(self._timeline.stamp(), micro=True)
            annotations = {**(meta.get("annotations") or {}), names.SUBMITTED_AT: stamp}
            raw = {**raw, "metadata": {**meta, "annotations": annotations}}
            self._make_claims(self._store.create(r.JOBS, raw, self._timeline.now))
        else:
            generation = old["metadata"]["generation"] + 1
            self._store.put(
                r.JOBS,
                {**old, "spec": raw["spec"], "metadata": {**old["metadata"], "generation": generation}},
            )
        self._pods.jobs[key] = None

    def _make_claims(self, raw: JSON) -> None:
        """Make the claims that a job wants for itself."""
        for one in claim_objects(read_job(raw)):
            claim = {**one.body, "kind": r.PVCS.kind}
            self._claims.appear(self._store.create(r.PVCS, claim, self._timeline.now))

    def leave(self, key: Key) -> None:
        """Delete a job; its pods and PodGroup go along."""
        raw = self._store.get(r.JOBS, key)
        if raw is None:
            return
        for pod in self._store.pods_of_job(key):
            self._pods.delete((key[0], pod["metadata"]["name"]), pod["metadata"]["uid"], ours=True)
        self._store.remove(r.JOBS, key)
        self._drop_group((key[0], names.podgroup_name(key[1], raw["metadata"]["uid"])))
        self._pods.lost.pop(key, None)

    def look(self, key: Key) -> None:
        """Do what a job needs now; a change that calls for another look marks the job again."""
        raw = self._store.get(r.JOBS, key)
        if raw is None:
            return
        wanted, status = read_job(raw), read_status(raw)
        group = self._store.group(wanted)
        problem = None
        if group is None:
            queues = self._store.all(r.QUEUES)
            problem = checks.problem(wanted, queues, SCHEDULERS, self._store.priorities)
        world = World(
            wanted=wanted,
            status=status,
            group=group,
            pods=tuple(read_pod(pod) for pod in self._own(wanted)),
            lost=tuple(self._pods.lost.pop(key, ())),
            priorities=self._store.priorities,
            problem=problem,
        )
        self._carry_out(key, world, plan(world, self._timeline.stamp()))
        self._tell(key)

    def _own(self, wanted: Wanted) -> list[JSON]:
        """Return the pods of this very job: those of an earlier one of its name may still be leaving."""
        pods = self._store.pods_of_job((wanted.namespace, wanted.name))
        return [pod for pod in pods if pod["metadata"]["ownerReferences"][0]["uid"] == wanted.uid]

    def _carry_out(self, key: Key, world: World, todo: Plan) -> None:
        wanted, group = world.wanted, world.group
        raw = self._store.get(r.JOBS, key)
        status = write_status(todo.status)
        if raw is not None and status != (raw.get("status") or {}):
            self._store.put(r.JOBS, {**raw, "status": status})
            self._pods.jobs[key] = None
            self._expire(key)
        for change in todo.changes:
            self._learn(wanted, todo, change)
        if group is not None and todo.drop_group:
            self._drop_group((key[0], group.name))
            self._pods.jobs[key] = None
        if todo.make_group is not None:
            self._store.create(r.PODGROUPS, todo.make_group, self._timeline.now)
            self._pods.jobs[key] = None
        if group is not None and todo.group_patch is not None:
            self._store.put(r.PODGROUPS, patched(group.raw, todo.group_patch))
            self._pods.jobs[key] = None
        for pod in todo.delete:
            self._pods.delete((key[0], pod.name), pod.uid, ours=True)
        for body in todo.create:
            self._pods.make(body)
        if todo.look_again is not None:
            self._timeline.add(todo.look_again, lambda: self._pods.jobs.setdefault(key))
        self._note(full_name(key), todo.status, wanted)

    def _learn(self, wanted: Wanted, todo: Plan, change: PhaseChange) -> None:
        """Tell the model for how long a job ran that went through."""
        seconds = ran_for(todo.status, change.at) if change.phase is JobPhase.COMPLETED else None
        if seconds is None:
            return
        key = (wanted.queue, template_of(wanted))
        told = learn(self._ran.get(key), wanted, change.generation, seconds, change.at)
        if told is not None:
            self._ran[key] = told
            self._model.apply_run_times(told)

    def _expire(self, key: Key) -> None:
        raw = self._store.get(r.JOBS, key)
        due = None if raw is None else expires_at(raw)
        if raw is None or due is None:
            return
        uid = raw["metadata"]["uid"]

        def expire() -> None:
            now = self._store.get(r.JOBS, key)
            if now is not None and now["metadata"]["uid"] == uid and expires_at(now) == due:
                self._history.tell("deleted", f"Job {full_name(key)}", "its time to live is over")
                self.leave(key)

        self._timeline.add(due, expire)

    def _drop_group(self, key: Key) -> None:
        if self._store.remove(r.PODGROUPS, key) is not None:
            self._model.remove_podgroup(*key)

    def _note(self, name: str, status: Status, wanted: Wanted) -> None:
        phase = status.phase or JobPhase.PENDING
        ended = phase in FINAL
        said = ": ".join(filter(None, (status.reason, status.message)))
        reason = said if phase is not JobPhase.COMPLETED else ""
        if phase is JobPhase.PENDING and status.reason:
            self._history.gang(name).reason = said
        self._history.gang(name).queue = wanted.queue
        self._history.phase(name, phase.value, reason, final=ended)

    def _tell(self, key: Key) -> None:
        """Tell the model of the job's gang as it is now."""
        raw = self._store.get(r.JOBS, key)
        if raw is None:
            return
        wanted, status = read_job(raw), read_status(raw)
        group = self._store.group(wanted)
        if group is None:
            return
        pods = [read_pod(pod) for pod in self._own(wanted)]
        keys = self._store.label_keys
        gang = gang_of(wanted, status, group, self._store.priorities, pods, keys, self._pods.claims_of)
        self._model.apply_podgroup(podgroup_state(group.raw, gang, wanted.annotations))
        if gang is not None:
            self._history.queued(full_name(key), gang.queue)
