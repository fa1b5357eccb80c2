"""The podgroup controller's part: PodGroups that no job owns, and the plain pods in them."""

from __future__ import annotations

from services.controller.core.adoption import make_podgroup
from services.controller.core.facts import podgroup_state
from services.controller.core.members import PREFIX, MemberPod, own_group, read_member
from services.controller.core.plaingangs import PlainGroup, plain_gang, read_plain_group
from services.controller.core.plainstatus import plain_phase, plain_status_patch
from services.scheduler.core.model import Model
from services.simulation.core.history import History, full_name
from services.simulation.core.pods import Pods
from services.simulation.core.store import Key, Store, patched
from services.simulation.core.timeline import Timeline
from shared.api import names
from shared.api import resources as r
from shared.api.base import JSON
from shared.api.meta import format_time
from shared.api.scheduling import PodGroupPhase


class Groups:
    """Makes PodGroups that pods lack, and keeps their statuses true."""

    def __init__(self, store: Store, timeline: Timeline, history: History, model: Model, pods: Pods) -> None:
        self._store = store
        self._timeline = timeline
        self._history = history
        self._model = model
        self._pods = pods

    def appear(self, raw: JSON) -> None:
        """Create a PodGroup."""
        meta = raw["metadata"]
        stamp = format_time(self._timeline.stamp(), micro=True)
        annotations = {**(meta.get("annotations") or {}), names.READY_SINCE: stamp}
        group = {**raw, "metadata": {**meta, "annotations": annotations}}
        self._make({"status": {"phase": PodGroupPhase.PENDING.value}, **group})

    def leave(self, key: Key) -> None:
        """Delete a PodGroup; pods that name it stay."""
        if self._store.remove(r.PODGROUPS, key) is not None:
            self._model.remove_podgroup(*key)

    def look(self, key: Key) -> None:
        """Do what a PodGroup needs now."""
        pods = [read_member(pod) for pod in self._store.pods_of_group(key)]
        raw = self._store.get(r.PODGROUPS, key)
        if raw is None:
            self._without_group(key, pods)
            return
        group = read_plain_group(raw)
        if group.adopted and not pods:
            self.leave(key)
            return
        phase = plain_phase(group, pods, queue_open=self._is_open(group.queue))
        patch = plain_status_patch(group, phase, pods, report=None, decision="", now=self._timeline.now)
        if patch is not None:
            raw = self._store.put(r.PODGROUPS, patched(raw, patch))
            group = read_plain_group(raw)
        gang = plain_gang(group, pods, self._store.priorities, self._pods.shape)
        self._model.apply_podgroup(podgroup_state(raw, gang, group.annotations))
        name = self.name_of(key)
        self._history.queued(name, group.queue)
        self._note(name, group, pods)

    def name_of(self, key: Key) -> str:
        """Return how a gang is called: a PodGroup that was made for a bare pod by the pod's name."""
        if key[1].startswith(PREFIX):
            pods = self._store.pods_of_group(key)
            if pods:
                return full_name((key[0], pods[0]["metadata"]["name"]))
        return full_name(key)

    def _make(self, body: JSON) -> None:
        group = self._store.create(r.PODGROUPS, body, self._timeline.now)
        key = (group["metadata"]["namespace"], group["metadata"]["name"])
        for pod in self._store.pods_of_group(key):
            self._pods.retell(pod)
        self._pods.groups[key] = None

    def _without_group(self, key: Key, pods: list[MemberPod]) -> None:
        """Make the group that pods lack; one that they name, and nobody makes, they wait for."""
        waiting = [pod for pod in pods if pod.waits]
        if not waiting:
            return
        if own_group(waiting[0].raw) == key[1]:
            self._make(make_podgroup(waiting[0].raw, None, self._timeline.stamp()))
            return
        message = f"there is no PodGroup {key[1]} in namespace {key[0]}, which the pod names by annotation"
        record = self._history.gang(full_name(key))
        if record.reason != message:
            self._history.waits(full_name(key), message, is_news=True, estimate=None)

    def _note(self, name: str, group: PlainGroup, pods: list[MemberPod]) -> None:
        phase = group.view.phase
        over = phase is PodGroupPhase.COMPLETED and all(pod.view.finished for pod in pods)
        failed = any(pod.view.phase == "Failed" for pod in pods)
        self._history.phase(name, phase.value, "a pod failed" if over and failed else "", final=over)

    def _is_open(self, name: str) -> bool:
        queue = self._store.get(r.QUEUES, ("", name))
        return queue is not None and ((queue.get("status") or {}).get("state") or "Open") == "Open"
