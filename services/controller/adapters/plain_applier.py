"""Carries decisions about plain pods out: binds them by the binding subresource, whole gangs or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from services.controller.adapters.allocating import Allocating
from services.controller.adapters.evictor import Evictor
from services.controller.adapters.groups import GroupController, lock_of
from services.controller.adapters.hands import Hands, together
from services.controller.adapters.marks import Marks
from services.controller.adapters.plain import PlainGangs
from services.controller.adapters.provisioning import Provisioning
from services.controller.adapters.views import job_key
from services.controller.core.apply import BindExisting, Conclusion, InPlace, no_devices
from services.controller.core.claims import claimants_of_pods, places_of_pods
from services.controller.core.members import MemberPod, read_member
from services.controller.core.plainapply import PlainVerdict, conclude_plain, examine_plain, judge_plain
from services.controller.core.plaingangs import PlainGroup
from services.controller.core.podview import owner_job
from shared.api import resources as r
from shared.api.scheduling import PodGroupPhase
from shared.errors import Conflict, NotFound, Refused
from shared.events.contracts import BindFailure, BoundPod, DecisionOutcome, GangDecided

_DONE: Final = frozenset({DecisionOutcome.APPLIED, DecisionOutcome.PARTIAL})
BIND_TRIES: Final = 2
"""A binding that is refused because of a write at the same time passes."""


class PlainApplier:
    """Applies a decision; the caller holds the PodGroup's lock and publishes the result."""

    def __init__(
        self,
        hands: Hands,
        gangs: PlainGangs,
        groups: GroupController,
        provisioning: Provisioning,
        allocating: Allocating,
        evictor: Evictor,
        marks: Marks,
    ) -> None:
        self._hands = hands
        self._marks = marks
        self._provisioning = provisioning
        self._allocating = allocating
        self._evictor = evictor
        self._gangs = gangs
        self._groups = groups

    def lock_for(self, decision: GangDecided) -> str | None:
        """Return the lock's name if the decision is about a PodGroup that no Job owns, else None."""
        namespace, name = decision.gang.namespace, decision.gang.name
        raw = self._hands.views.get(r.PODGROUPS, namespace, name)
        return None if raw is None or owner_job(raw) else lock_of(job_key(namespace, name))

    async def bring_about(self, decision: GangDecided) -> dict[str, str]:
        """Have what pods claim where they are to be; return which of them cannot be there.

        It may take long: the PodGroup is not held for it. Raises what passes.
        """
        namespace = decision.gang.namespace
        found = ((one.pod, self._hands.views.get(r.PODS, namespace, one.pod)) for one in decision.bindings)
        pods = {name: pod for name, pod in found if pod is not None}
        places, claimants = (
            places_of_pods(pods, decision.bindings),
            claimants_of_pods(pods, decision.bindings),
        )
        if not (places or claimants):
            return {}

        def still() -> bool:
            verdict = self._examine(decision, self._pods(decision), {})
            return not (verdict.refused or verdict.hopeless)

        unready = await self._provisioning.bring_about(namespace, places, still)
        return unready or await self._allocating.bring_about(namespace, claimants, still)

    def _pods(self, decision: GangDecided) -> dict[str, MemberPod]:
        found = self._hands.views.group_pods(decision.gang.namespace, decision.gang.name)
        return {pod.view.name: pod for pod in found}

    def _examine(
        self, decision: GangDecided, pods: Mapping[str, MemberPod], unready: Mapping[str, str]
    ) -> PlainVerdict:
        group = self._gangs.group(decision.gang.namespace, decision.gang.name)
        return examine_plain(decision, group, pods, self._hands.views.store(r.NODES), unready)

    async def apply(self, decision: GangDecided, unready: Mapping[str, str]) -> Conclusion:
        """Carry a decision out. Raises Unavailable to be tried again."""
        namespace, name = decision.gang.namespace, decision.gang.name
        group, pods = self._gangs.group(namespace, name), self._pods(decision)
        verdict = self._examine(decision, pods, unready)
        if verdict.refused or group is None:
            return Conclusion(DecisionOutcome.REFUSED, message=verdict.refused)
        staying = await self._evictor.evict(decision.evictions)
        if verdict.enqueue:
            await self._hands.api.set_phase(namespace, group.view, PodGroupPhase.INQUEUE)
        found = await together(
            self._bind(namespace, step, attempt=not verdict.hopeless) for step in verdict.steps
        )
        bound = [one for one in found if isinstance(one, BoundPod)]
        failures = [one for one in found if isinstance(one, BindFailure)]
        result = conclude_plain(decision, group, pods, bound, failures)
        if result.outcome is DecisionOutcome.ROLLED_BACK:
            await self._take_back(group, result)
        if result.failures:
            text = result.message or result.failures[0].message
            self._hands.recorder.record(group.view.raw, "FailedScheduling", text, warning=True)
        return result.with_victims(staying)

    def concluded(self, decision: GangDecided, result: Conclusion) -> None:
        """Note that the result of a decision is known to all."""
        key = job_key(decision.gang.namespace, decision.gang.name)
        self._groups.decided(key, decision.decision if result.outcome in _DONE else "")

    async def _bind(
        self, namespace: str, step: InPlace | BindExisting | BindFailure, *, attempt: bool
    ) -> BoundPod | BindFailure | None:
        if isinstance(step, BindFailure):
            return step
        binding = step.binding
        if isinstance(step, InPlace):
            return BoundPod(pod=binding.pod, uid=step.uid, node=binding.node)
        if not attempt:
            return None
        try:
            return await self._bind_pod(namespace, step)
        except (NotFound, Refused) as error:
            code = "refused" if isinstance(error, Refused) else "pod-gone"
            return BindFailure(pod=binding.pod, node=binding.node, code=code, message=str(error))

    async def _bind_pod(self, namespace: str, step: BindExisting) -> BoundPod | BindFailure:
        """Bind a pod; one that stays without a node though nobody else bound it is tried once more."""
        binding, message = step.binding, ""
        try:
            told = self._marks.of(namespace, binding)
        except ValueError as error:
            return no_devices(binding, error)
        for _ in range(BIND_TRIES):
            try:
                await self._hands.api.bind(
                    namespace,
                    binding.pod,
                    binding.node,
                    uid=step.uid,
                    resource=r.PODS,
                    annotations=told,
                )
            except Conflict as error:
                message = str(error)
            else:
                return BoundPod(pod=binding.pod, uid=step.uid, node=binding.node)
            # The pod is not as the informer said: judge by what the API server says.
            pod = read_member(await self._hands.api.read(r.PODS, namespace, binding.pod))
            found = judge_plain(binding.model_copy(update={"uid": step.uid}), pod)
            if isinstance(found, InPlace):
                return BoundPod(pod=binding.pod, uid=found.uid, node=binding.node)
            if isinstance(found, BindFailure):
                return found
        return BindFailure(pod=binding.pod, node=binding.node, code="conflict", message=message)

    async def _take_back(self, group: PlainGroup, result: Conclusion) -> None:
        """Give back what was bound: first the PodGroup's phase says so, then the pods go."""
        now = self._gangs.group(group.namespace, group.view.name)
        if now is not None and now.view.uid == group.view.uid and now.view.phase is PodGroupPhase.INQUEUE:
            await self._hands.api.set_phase(group.namespace, group.view, PodGroupPhase.PENDING)
        await together(
            self._hands.api.delete(r.PODS, group.namespace, pod.pod, uid=pod.uid) for pod in result.take_back
        )
