"""The applier: carries gang decisions out, whole or not at all.

A crash at any point is harmless: the PodGroup leaves Pending first, unless one pod is all there is to make,
and pods on nodes say as well that their gang was let in. Whoever finds less than a whole gang on nodes
waits for its decision to be carried out again, and takes them back when none comes. The offset is committed
by the caller, after the result and the pods' states are on the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from services.controller.adapters.allocating import Allocating
from services.controller.adapters.dry_runs import DryRuns
from services.controller.adapters.evictor import Evictor
from services.controller.adapters.hands import Hands, together
from services.controller.adapters.marks import Marks
from services.controller.adapters.memory import Memory
from services.controller.adapters.plain_applier import BIND_TRIES, PlainApplier
from services.controller.adapters.provisioning import Provisioning
from services.controller.adapters.views import job_key
from services.controller.core.apply import (
    BindExisting,
    Conclusion,
    CreateBound,
    Gang,
    InPlace,
    Step,
    Verdict,
    conclude,
    examine,
    examine_created,
    judge,
    name_taken,
    no_devices,
)
from services.controller.core.claims import claimants_of_job, places_of_job, pods_first
from services.controller.core.model import Wanted
from services.controller.core.plans import Note
from services.controller.core.podgroups import let_in
from services.controller.core.pods import make_pod
from services.controller.core.podview import owner_job, read_pod
from services.controller.core.status import Status
from shared.api import resources as r
from shared.api.batch import JobReason
from shared.api.scheduling import PodGroupPhase
from shared.errors import AlreadyExists, Conflict, ContractError, NotFound, Refused
from shared.events import topics
from shared.events.codec import data_of
from shared.events.consuming import Message
from shared.events.contracts import (
    BindFailure,
    Binding,
    BoundPod,
    DecisionApplied,
    DecisionOutcome,
    GangDecided,
)
from shared.log.port import EventLog, TopicPartition, up_to_now

_TAIL: Final = 5000
"""Results read back at start; far more than decisions can be in flight."""


class Applier:
    """Handles ``bind-decisions``."""

    def __init__(
        self,
        hands: Hands,
        touch: Callable[[str], None],
        plain: PlainApplier,
        provisioning: Provisioning,
        allocating: Allocating,
        dry_runs: DryRuns,
        evictor: Evictor,
        marks: Marks,
    ) -> None:
        self._hands = hands
        self._marks = marks
        self._evictor = evictor
        self._dry_runs = dry_runs
        self._provisioning = provisioning
        self._allocating = allocating
        self._touch = touch
        self._plain = plain
        self._concluded: dict[str, None] = {}

    async def recover(self, log: EventLog) -> None:
        """Read the last results: a decision that has one is not carried out again.

        (Its offset may not have been committed; meanwhile the scheduler has gone on from the result.)
        """
        start: dict[TopicPartition, int] = {
            where: max(0, end - _TAIL) for where, end in (await log.end_offsets(topics.BIND_RESULTS)).items()
        }
        async for delivery in up_to_now(log, [topics.BIND_RESULTS], start=start):
            if delivery.value is None:
                continue
            try:
                event = data_of(delivery)
            except ContractError as error:
                self._hands.telemetry.log.warning("a result cannot be read: %s", error)
                continue
            if isinstance(event, DecisionApplied):
                self._conclude(event.decision)

    async def handle(self, message: Message) -> None:
        """Carry out one decision and publish what became of it. Raises to be tried again."""
        decision = message.envelope.data
        if not isinstance(decision, GangDecided) or decision.decision in self._concluded:
            return
        plain = self._plain.lock_for(decision)
        if plain is not None:
            unready = await self._plain.bring_about(decision)
            async with self._hands.locks(plain):
                result = await self._plain.apply(decision, unready)
                applied = await self._publish(decision, result, message)
                self._remember(plain, decision, None, applied, message)
            self._plain.concluded(decision, result)
            return
        key = self._key(decision)
        unready = await self._bring_about(key, decision)
        async with self._hands.locks(key):
            gang = self._gang(key, decision)
            result = await self._apply(decision, gang, unready)
            applied = await self._publish(decision, result, message)
            self._remember(key, decision, gang.wanted, applied, message)
        self._touch(key)

    async def _publish(self, decision: GangDecided, result: Conclusion, message: Message) -> DecisionApplied:
        """Say what became of a decision, after the pods' states."""
        applied = DecisionApplied(
            decision=decision.decision,
            pool=decision.pool,
            gang=decision.gang,
            outcome=result.outcome,
            bound=result.bound,
            failures=result.failures,
            eviction_failures=result.eviction_failures,
            message=result.message,
            at=self._hands.clock.now(),
        )
        for pod in result.bound:
            self._hands.observer.account(decision.gang.namespace, pod.pod)
        await self._hands.observer.flush()
        await self._hands.publisher.applied(applied, message.envelope.traceparent)
        self._conclude(decision.decision)
        if self._hands.settings.scheduled_events:
            self._tell_places(decision.gang.namespace, result)
        return applied

    def _tell_places(self, namespace: str, result: Conclusion) -> None:
        """Have an event on each pod say where it was put, as other schedulers do."""
        for pod in result.bound:
            raw = self._hands.views.get(r.PODS, namespace, pod.pod)
            if raw is not None:
                text = f"Successfully assigned {namespace}/{pod.pod} to {pod.node}"
                self._hands.placements.record(raw, "Scheduled", text)

    def _key(self, decision: GangDecided) -> str:
        """Return the key of the job that the decision's gang belongs to."""
        namespace, name = decision.gang.namespace, decision.gang.name
        group = self._hands.views.get(r.PODGROUPS, namespace, name)
        owner = None if group is None else owner_job(group)
        return job_key(namespace, owner[0] if owner else name)

    def _gang(self, key: str, decision: GangDecided) -> Gang:
        views = self._hands.views
        entry, nodes = views.job(key), views.store(r.NODES)
        if entry is None or entry.wanted is None or entry.wanted.podgroup != decision.gang.name:
            return Gang(None, Status(), None, {}, nodes)
        pods = {pod.name: pod for pod in views.pods(entry.wanted)}
        group = views.group(entry.wanted)
        if group is not None:
            memory = self._hands.memories.of(key, entry.uid)
            group = let_in(group, entry.wanted, pods.values(), placed=memory.is_placed(group))
        namespace = decision.gang.namespace
        others = {one.pod for one in decision.bindings if one.pod not in pods}
        taken = {name for name in others if views.get(r.PODS, namespace, name) is not None}
        return Gang(entry.wanted, entry.status, group, pods, nodes, taken)

    async def _bring_about(self, key: str, decision: GangDecided) -> dict[str, str]:
        """Have what the gang's pods claim where they are to be; return which pods cannot be there.

        It may take long, so the job is not held for it. Pods with claims of their own are made first.
        """
        wanted = self._hands.views.wanted(key)
        if wanted is None:
            return {}
        places = places_of_job(wanted, decision.bindings)
        claimants = claimants_of_job(wanted, decision.bindings)
        if not (places or claimants):
            return {}
        if pods_first(wanted):
            async with self._hands.locks(key):
                await self._make_all(key, decision)

        def still() -> bool:
            verdict = examine(decision, self._gang(key, decision))
            return not (verdict.refused or verdict.hopeless)

        unready = await self._provisioning.bring_about(wanted.namespace, places, still)
        return unready or await self._allocating.bring_about(wanted.namespace, claimants, still)

    async def _make_all(self, key: str, decision: GangDecided) -> None:
        """Create a decision's pods without a node."""
        gang = self._gang(key, decision)
        verdict = examine(decision, gang, born_bound=False)
        if verdict.refused or verdict.hopeless or gang.wanted is None or gang.group is None:
            return
        if verdict.enqueue:
            await self._hands.api.set_phase(gang.wanted.namespace, gang.group, PodGroupPhase.INQUEUE)
        await together(self._make(gang.wanted, gang.status, step) for step in verdict.steps)

    async def _apply(self, decision: GangDecided, gang: Gang, unready: Mapping[str, str]) -> Conclusion:
        born_bound = self._hands.settings.born_bound and not (gang.wanted and pods_first(gang.wanted))
        verdict = examine(decision, gang, unready, born_bound=born_bound)
        if verdict.refused or gang.wanted is None or gang.group is None:
            return Conclusion(DecisionOutcome.REFUSED, message=verdict.refused)
        staying = await self._evictor.evict(decision.evictions)
        if verdict.enqueue:
            await self._hands.api.set_phase(gang.wanted.namespace, gang.group, PodGroupPhase.INQUEUE)
        if not (verdict.hopeless or born_bound):
            steps = await together(self._make(gang.wanted, gang.status, step) for step in verdict.steps)
            verdict = examine_created(decision, gang, verdict, steps)
        outcome = await self._bind_all(gang.wanted, gang.status, verdict)
        result = conclude(decision, gang, outcome.bound, outcome.failures)
        if result.outcome is DecisionOutcome.ROLLED_BACK:
            waiting = [step for step in verdict.steps if isinstance(step, BindExisting)]
            await self._take_back(gang, result, waiting, enqueued=decision.enqueue)
        else:
            self._compare(gang.wanted, decision, result)
        return result.with_victims(staying)

    async def _make(self, wanted: Wanted, status: Status, step: Step) -> Step:
        """Create a missing pod without a node; return what is left to be done about it."""
        if not isinstance(step, CreateBound):
            return step
        body = make_pod(wanted, status, step.task, step.index)
        try:
            pod = await self._hands.api.create(r.PODS, wanted.namespace, body)
        except AlreadyExists:
            return await self._look_again(wanted, status, step.binding)
        except (Refused, NotFound) as error:
            return _not_done(step.binding, error)
        return BindExisting(step.binding, str(pod["metadata"]["uid"]))

    def _compare(self, wanted: Wanted, decision: GangDecided, result: Conclusion) -> None:
        """Look whether pods came out as was announced: the first of each task."""
        bound = {pod.pod for pod in result.bound}
        first = {one.task: one.pod for one in reversed(decision.bindings) if one.pod in bound}
        for name, pod in first.items():
            task, raw = wanted.task(name), self._hands.views.get(r.PODS, wanted.namespace, pod)
            if task is not None and raw is not None:
                self._dry_runs.compare(wanted, task, raw, self._hands.views.priorities)

    async def _bind_all(self, wanted: Wanted, status: Status, verdict: Verdict) -> _Outcome:
        """Bind at once what can be; what another world answered is a failure, an outage is raised."""
        return _Outcome.of(
            await together(
                self._bind(wanted, status, step, attempt=not verdict.hopeless) for step in verdict.steps
            )
        )

    async def _bind(
        self, wanted: Wanted, status: Status, step: Step, *, attempt: bool
    ) -> BoundPod | BindFailure | None:
        if isinstance(step, BindFailure):
            return step
        binding = step.binding
        if isinstance(step, InPlace):
            return BoundPod(pod=binding.pod, uid=step.uid, node=binding.node)
        return await self._write(wanted, status, step) if attempt else None

    async def _write(
        self, wanted: Wanted, status: Status, step: CreateBound | BindExisting
    ) -> BoundPod | BindFailure:
        binding = step.binding
        try:
            told = self._marks.of(wanted.namespace, binding, wanted)
        except ValueError as error:
            return no_devices(binding, error)
        try:
            if isinstance(step, CreateBound):
                uid = await self._create(wanted, status, step, told)
            else:
                uid = await self._bind_existing(wanted, status, step, told)
        except (Refused, NotFound) as error:
            return _not_done(binding, error)
        return uid if isinstance(uid, BindFailure) else BoundPod(pod=binding.pod, uid=uid, node=binding.node)

    async def _create(
        self, wanted: Wanted, status: Status, step: CreateBound, told: Mapping[str, str]
    ) -> str | BindFailure:
        """Create a pod bound. Raises Conflict when that passes, as when a quota was written meanwhile."""
        body = make_pod(wanted, status, step.task, step.index, node=step.binding.node, told=told)
        try:
            pod = await self._hands.api.create(r.PODS, wanted.namespace, body)
        except AlreadyExists:
            found = await self._look_again(wanted, status, step.binding)
            if isinstance(found, BindExisting):
                return await self._bind_existing(wanted, status, found, told)
            return found.uid if isinstance(found, InPlace) else found
        return str(pod["metadata"]["uid"])

    async def _bind_existing(
        self, wanted: Wanted, status: Status, step: BindExisting, told: Mapping[str, str]
    ) -> str | BindFailure:
        """Bind a pod; one that stays without a node though nobody else bound it is tried once more."""
        binding, message = step.binding, ""
        for _ in range(BIND_TRIES):
            try:
                await self._hands.api.bind(
                    wanted.namespace,
                    binding.pod,
                    binding.node,
                    uid=step.uid,
                    resource=r.PODS,
                    annotations=told,
                )
            except Conflict as error:
                message = str(error)
            else:
                return step.uid
            found = await self._look_again(wanted, status, binding)
            if not isinstance(found, BindExisting):
                return found.uid if isinstance(found, InPlace) else found
            step = found
        return _failed(binding, "conflict", message)

    async def _look_again(
        self, wanted: Wanted, status: Status, binding: Binding
    ) -> InPlace | BindExisting | BindFailure:
        """The pod is not as the informer said: judge by what the API server says."""
        raw = await self._hands.api.read(r.PODS, wanted.namespace, binding.pod)
        if owner_job(raw) != (wanted.name, wanted.uid):
            return name_taken(binding)
        return judge(binding, read_pod(raw), status.generation)

    async def _take_back(
        self, gang: Gang, result: Conclusion, waiting: Iterable[BindExisting], *, enqueued: bool
    ) -> None:
        """Give back what was bound: first the PodGroup's phase says so, then the pods go.

        With a gang that is Pending again those go too that still wait to be bound.
        """
        assert gang.wanted is not None  # noqa: S101 - a void decision is refused before
        assert gang.group is not None  # noqa: S101 - as above
        group = self._hands.views.group(gang.wanted)
        if enqueued and group is not None and group.phase is PodGroupPhase.INQUEUE:
            await self._hands.api.set_phase(gang.wanted.namespace, gang.group, PodGroupPhase.PENDING)
        memory = self._hands.memories.of(job_key(gang.wanted.namespace, gang.wanted.name), gang.wanted.uid)
        gone = {pod.uid: pod.pod for pod in result.take_back}
        if enqueued:
            gone |= {step.uid: step.binding.pod for step in waiting}
        memory.ours |= gone.keys()
        namespace = gang.wanted.namespace
        await together(self._hands.api.delete(r.PODS, namespace, name, uid=uid) for uid, name in gone.items())

    def _conclude(self, decision: str) -> None:
        self._concluded[decision] = None
        while len(self._concluded) > _TAIL:
            del self._concluded[next(iter(self._concluded))]

    def _remember(
        self,
        key: str,
        decision: GangDecided,
        wanted: Wanted | None,
        result: DecisionApplied,
        message: Message,
    ) -> None:
        memory = None if wanted is None else self._hands.memories.of(key, wanted.uid)
        if wanted is not None and memory is not None and result.outcome is not DecisionOutcome.REFUSED:
            memory.decision = decision.decision
            memory.decided_generation = decision.gang.generation
            memory.decided_at = decision.decided_at
            if decision.bindings and result.outcome is not DecisionOutcome.ROLLED_BACK:
                memory.placed_generation = decision.gang.generation
            memory.reports.forget()
            self._count_refusals(memory, result)
            self._tell_failures(wanted, memory, result)
        self._hands.trail.applied(wanted, memory, result, message.envelope.time)
        if result.outcome is not DecisionOutcome.APPLIED:
            self._hands.telemetry.log.info(
                "a decision was not carried out in full: %s",
                result.message or result.outcome,
                extra={"job": key, "decision": decision.decision, "outcome": result.outcome.value},
            )

    def _tell_failures(self, wanted: Wanted, memory: Memory, result: DecisionApplied) -> None:
        """Say on the job, once, why its pods could not be made or bound."""
        text = result.message or next((one.message for one in result.failures), "")
        if text and text not in memory.noted:
            memory.noted.add(text)
            self._hands.recorder.note(wanted, Note(JobReason.FAILED_CREATE, text, warning=True))

    def _count_refusals(self, memory: Memory, result: DecisionApplied) -> None:
        """Pods that the API server refuses again and again end their job."""
        refused = next((one.message for one in result.failures if one.code == "refused"), None)
        if refused is None:
            memory.worked("decisions")
        else:
            now, limit = self._hands.clock.monotonic(), self._hands.settings.max_requeues
            memory.refused("decisions", refused, now=now, limit=limit)


def _failed(binding: Binding, code: str, message: str) -> BindFailure:
    return BindFailure(pod=binding.pod, node=binding.node, code=code, message=message)


def _not_done(binding: Binding, error: Refused | NotFound) -> BindFailure:
    return _failed(binding, "refused" if isinstance(error, Refused) else "conflict", str(error))


@dataclass(frozen=True, slots=True)
class _Outcome:
    bound: tuple[BoundPod, ...]
    failures: tuple[BindFailure, ...]

    @staticmethod
    def of(results: Iterable[BoundPod | BindFailure | None]) -> _Outcome:
        found = list(results)
        return _Outcome(
            tuple(one for one in found if isinstance(one, BoundPod)),
            tuple(one for one in found if isinstance(one, BindFailure)),
        )


def by_gang(message: Message) -> object:
    """Decisions about one gang are handled in order, others at the same time."""
    decision = message.envelope.data
    if isinstance(decision, GangDecided):
        return ("gang", decision.gang.namespace, decision.gang.name)
    return message.delivery.key
