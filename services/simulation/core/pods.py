"""The pods: they are made, put on nodes, run at once, end, and are taken away."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from services.controller.core.claiming import Claims as Claiming
from services.controller.core.claiming import completed
from services.controller.core.devices import node_devices
from services.controller.core.facts import pod_state
from services.controller.core.kin import chosen
from services.controller.core.members import group_of
from services.controller.core.podview import PodView, owner_job, read_pod
from services.controller.core.shapes import marks_of, shape_of
from services.scheduler.core.model import Model
from services.simulation.core.budgets import Budgets
from services.simulation.core.devices import DeviceClaims
from services.simulation.core.history import History, full_name
from services.simulation.core.notes import Run, read_run
from services.simulation.core.numa import NumaNodes
from services.simulation.core.store import SCHEDULERS, Key, Store, key_of
from services.simulation.core.timeline import Timeline
from services.simulation.core.volumes import Claims
from shared.api import names
from shared.api import resources as r
from shared.api.base import JSON
from shared.api.meta import format_time
from shared.api.pods import PodSpec
from shared.events.contracts import PodState, Shape

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class Pods:
    """Changes pods; tells the scheduler's model, and marks those whose controllers have to look."""

    def __init__(
        self,
        store: Store,
        timeline: Timeline,
        history: History,
        model: Model,
        claims: Claims,
        devices: DeviceClaims,
        numa: NumaNodes,
    ) -> None:
        self._claims = claims
        self._devices = devices
        self._numa = numa
        self._store = store
        self._timeline = timeline
        self._history = history
        self._model = model
        self.budgets = Budgets(store, model)
        self.jobs: dict[Key, None] = {}
        """Jobs to be looked at."""
        self.groups: dict[Key, None] = {}
        """PodGroups without a job to be looked at."""
        self.lost: dict[Key, list[PodView]] = {}
        """By job: pods that somebody else took away since it was last looked at."""
        self._ours: set[str] = set()
        """UIDs of pods that their own controller takes away."""

    def make(self, body: JSON) -> JSON:
        """Create a pod; one that has a node already runs."""
        pod = self._store.create(r.PODS, {**body, "status": {"phase": "Pending"}}, self._timeline.now)
        if pod["spec"].get("nodeName"):
            return self._start(pod)
        self._changed(pod)
        return pod

    def bind(self, pod: JSON, node: str) -> JSON:
        """Put a pod on a node, where it runs at once."""
        return self._start({**pod, "spec": {**pod["spec"], "nodeName": node}})

    def _start(self, pod: JSON) -> JSON:
        name, now = full_name(key_of(pod)), self._timeline.now
        status = {
            "phase": "Running",
            "startTime": format_time(now),
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": format_time(now)}
            ],
            "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {}}}],
        }
        pod = self._store.put(r.PODS, self._devices.started({**pod, "status": status}))
        self._history.bound(name, pod["spec"]["nodeName"])
        self._history.tell("started", f"Pod {name}", node=pod["spec"]["nodeName"])
        self._changed(pod)
        run = self.run_of(pod)
        if run.seconds is not None:
            uid = pod["metadata"]["uid"]
            self._timeline.add(now + run.seconds, lambda: self._end(key_of(pod), uid, run.exit_code))
        return pod

    def _end(self, key: Key, uid: str, exit_code: int) -> None:
        pod = self._store.get(r.PODS, key)
        if pod is None or pod["metadata"]["uid"] != uid or pod["metadata"].get("deletionTimestamp"):
            return
        phase = "Failed" if exit_code else "Succeeded"
        terminated = {"exitCode": exit_code, "finishedAt": format_time(self._timeline.now)}
        status = {
            **pod["status"],
            "phase": phase,
            "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}],
        }
        self._history.tell("ended", f"Pod {full_name(key)}", phase=phase, exit_code=exit_code)
        self._changed(self._store.put(r.PODS, {**pod, "status": status}))

    def delete(self, key: Key, uid: str, *, ours: bool = False) -> None:
        """Take a pod away, after its grace. ``ours``: its own controller does, and does not miss it."""
        pod = self._store.get(r.PODS, key)
        if pod is None or pod["metadata"]["uid"] != uid or pod["metadata"].get("deletionTimestamp"):
            return
        if ours:
            self._ours.add(uid)
        grace = self.run_of(pod).grace if _holds_room(pod) else timedelta()
        if not grace:
            self.drop(key)
            return
        self._leave(pod, grace)
        self._timeline.add(self._timeline.now + grace, lambda: self._gone(key, uid))

    def _leave(self, pod: JSON, grace: timedelta) -> None:
        stamps = {
            "deletionTimestamp": format_time(self._timeline.now + grace),
            "deletionGracePeriodSeconds": max(1, int(grace.total_seconds())),
        }
        self._changed(self._store.put(r.PODS, {**pod, "metadata": {**pod["metadata"], **stamps}}))

    def _gone(self, key: Key, uid: str) -> None:
        pod = self._store.get(r.PODS, key)
        if pod is not None and pod["metadata"]["uid"] == uid:
            self.drop(key)

    def drop(self, key: Key, why: str = "") -> None:
        """Take a pod out at once."""
        pod = self._store.remove(r.PODS, key)
        if pod is None:
            return
        self._model.remove_pod(*key)
        self._devices.ended(pod)
        self._history.tell("deleted", f"Pod {full_name(key)}", why)
        self._mark(pod)
        view, owner = read_pod(pod), owner_job(pod)
        if owner is not None and view.uid not in self._ours and (view.taken or not view.finished):
            self.lost.setdefault((key[0], owner[0]), []).append(view)
        self._ours.discard(view.uid)

    def run_of(self, pod: JSON) -> Run:
        """Return how a pod runs: as it says itself (from its template), else as its job says."""
        owner = owner_job(pod)
        job = None if owner is None else self._store.get(r.JOBS, (pod["metadata"]["namespace"], owner[0]))
        return read_run(_annotations(pod), _annotations(job))

    def retell(self, pod: JSON) -> None:
        """Tell the model of a pod anew: its PodGroup or its priority class is there now."""
        if (pod.get("status") or {}).get("phase") not in _ENDED:
            self._model.apply_pod(self._state(pod))

    def shape(self, pod: JSON) -> Shape:
        """Return a pod's shape."""
        spec = PodSpec.model_validate(pod.get("spec") or {})
        shape = shape_of(spec, marks_of(pod), self._store.priorities)
        labels = chosen(pod["metadata"].get("labels") or {}, self._store.label_keys)
        return completed(shape, labels, self.claims_of(pod["metadata"]["namespace"], shape.extras, pod))

    def claims_of(self, namespace: str, extras: Mapping[str, Any], pod: JSON | None = None) -> Claiming:
        """Return what the claims come to that a shape (its ``extras``) names."""
        return Claiming(
            self._claims.of_shape(namespace, extras), self._devices.of_shape(namespace, extras, pod)
        )

    def _changed(self, pod: JSON) -> None:
        """Tell the model, of an ended pod once and then that it is gone, as the observer does."""
        key = key_of(pod)
        self._model.apply_pod(self._state(pod))
        if pod["status"]["phase"] in _ENDED:
            self._model.remove_pod(*key)
            self._devices.ended(pod)
        self._mark(pod)

    def _state(self, pod: JSON) -> PodState:
        shape, node = self.shape(pod), pod["spec"].get("nodeName")
        on = self._store.get(r.NODES, ("", node)) if shape.devices and node else None
        devices = () if on is None else node_devices(on)
        numa = self._numa.of_pod(pod, shape)
        return pod_state(pod, shape, SCHEDULERS, self._membership(pod), self.budgets.of(pod), devices, numa)

    def _mark(self, pod: JSON) -> None:
        namespace = pod["metadata"]["namespace"]
        owner, group = owner_job(pod), group_of(pod, SCHEDULERS)
        if owner is not None:
            self.jobs[namespace, owner[0]] = None
        elif group is not None:
            self.groups[namespace, group] = None

    def _membership(self, pod: JSON) -> tuple[str, str] | None:
        name = group_of(pod, SCHEDULERS)
        if name is None:
            return None
        group = self._store.get(r.PODGROUPS, (pod["metadata"]["namespace"], name))
        spec = {} if group is None else group.get("spec") or {}
        return name, "" if group is None else spec.get("queue") or names.DEFAULT_QUEUE


def _holds_room(pod: JSON) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] not in _ENDED


def _annotations(obj: JSON | None) -> dict[str, str]:
    return {} if obj is None else obj["metadata"].get("annotations") or {}
