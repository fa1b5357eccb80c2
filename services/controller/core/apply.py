"""Carrying out a gang decision: what each binding needs, and what came of the whole.

Before anything is written, :func:`examine` checks the decision against what is there: another generation, a
gang that is gone, pods placed elsewhere. A binding that is in place already is done, so a decision applied
again after a crash half way goes on where it stopped. :func:`conclude` decides by how many pods were
placed whether the decision stands or is taken back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from services.controller.core.closing import Nodes, closed
from services.controller.core.dependencies import waiting_tasks
from services.controller.core.gangs import reaches_minimum
from services.controller.core.lifecycle import LIVE
from services.controller.core.model import GroupView, Task, Wanted
from services.controller.core.podview import PodView
from services.controller.core.status import Status
from shared.api.batch import JobPhase
from shared.events.contracts import (
    BindFailure,
    Binding,
    BoundPod,
    DecisionOutcome,
    EvictionFailure,
    GangDecided,
)


@dataclass(frozen=True, slots=True)
class InPlace:
    """The pod is where the decision wants it."""

    binding: Binding
    uid: str


@dataclass(frozen=True, slots=True)
class CreateBound:
    """The pod is not there: create it with its node set."""

    binding: Binding
    task: Task
    index: int


@dataclass(frozen=True, slots=True)
class BindExisting:
    """The pod is there without a node: bind it."""

    binding: Binding
    uid: str


Step = InPlace | CreateBound | BindExisting | BindFailure
Placing = TypeVar("Placing", bound=CreateBound | BindExisting)
NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Gang:
    """What is there of a decision's gang; ``wanted`` None: its job is gone."""

    wanted: Wanted | None
    status: Status
    group: GroupView | None
    pods: Mapping[str, PodView]
    nodes: Nodes
    taken: Collection[str] = ()
    """Names of its pods that pods of others have."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do about a decision; ``refused`` says why nothing."""

    refused: str = ""
    enqueue: bool = False
    """The PodGroup must leave Pending first: nothing else would say that its gang was let in."""
    steps: tuple[Step, ...] = ()
    hopeless: bool = False
    """Too many bindings are impossible: take back what is in place, try nothing."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What came of a decision, and which pods have to go for it."""

    outcome: DecisionOutcome
    bound: tuple[BoundPod, ...] = ()
    failures: tuple[BindFailure, ...] = ()
    take_back: tuple[BoundPod, ...] = ()
    eviction_failures: tuple[EvictionFailure, ...] = ()
    message: str = ""

    def with_victims(self, staying: tuple[EvictionFailure, ...]) -> Conclusion:
        """Return it with the victims that stay: the gang has less room than it was decided to have."""
        if not staying:
            return self
        outcome = DecisionOutcome.PARTIAL if self.outcome is DecisionOutcome.APPLIED else self.outcome
        message = self.message or f"{len(staying)} pods could not be evicted: {staying[0].message}"
        return replace(self, outcome=outcome, eviction_failures=staying, message=message)


def examine(
    decision: GangDecided, gang: Gang, unready: Mapping[str, str] = NOTHING, *, born_bound: bool = True
) -> Verdict:
    """Say what each binding needs, or why the decision is void.

    A single pod that is created bound (``born_bound``) says by itself that its gang was let in: it is made in
    one write, so that no part of a gang can be there without. ``unready`` says of pods why they cannot be on
    their nodes: their volumes are not.
    """
    refused = _void(decision, gang)
    if refused or gang.wanted is None or gang.group is None:
        return Verdict(refused)
    members = gang.wanted.members()
    steps = tuple(_step(binding, members, gang, unready) for binding in decision.bindings)
    enough = not decision.bindings or _is_possible(decision, gang, steps)
    alone = born_bound and len(steps) == 1 and isinstance(steps[0], CreateBound)
    return Verdict(
        enqueue=not gang.group.admitted and decision.enqueue and enough and not alone,
        steps=steps,
        hopeless=not enough,
    )


def examine_created(decision: GangDecided, gang: Gang, verdict: Verdict, steps: Sequence[Step]) -> Verdict:
    """Say what is left to be done once the missing pods were created without a node."""
    return replace(verdict, steps=tuple(steps), hopeless=not _is_possible(decision, gang, steps))


def _is_possible(decision: GangDecided, gang: Gang, steps: Sequence[Step]) -> bool:
    """Say whether the gang gets its minimum if every step that is left works."""
    return _enough(decision, gang, [one.binding for one in steps if not isinstance(one, BindFailure)])


def conclude(
    decision: GangDecided, gang: Gang, bound: Sequence[BoundPod], failures: Sequence[BindFailure]
) -> Conclusion:
    """Decide whether what could be bound stands.

    A binding that is neither bound nor failed was not tried, as the gang would not have had its minimum.
    """
    tasks = {binding.pod: binding for binding in decision.bindings}
    if len(bound) == len(tasks):
        return Conclusion(DecisionOutcome.APPLIED, tuple(bound))
    if _enough(decision, gang, [tasks[pod.pod] for pod in bound]):
        return Conclusion(DecisionOutcome.PARTIAL, tuple(bound), tuple(failures))
    return Conclusion(
        DecisionOutcome.ROLLED_BACK,
        failures=tuple(failures),
        take_back=tuple(bound),
        message=why_in_vain(decision, failures),
    )


def why_in_vain(decision: GangDecided, failures: Sequence[BindFailure]) -> str:
    """Say why a decision is taken back."""
    if not failures:
        return "other pods of the gang are gone: with these alone it would be below its minimum"
    return f"{len(failures)} of {len(decision.bindings)} bindings failed: {failures[0].message}"


def _void(decision: GangDecided, gang: Gang) -> str:
    """Return why the decision is about something that is no more; empty: it is not."""
    if gang.wanted is None or gang.wanted.deleting:
        return "the job is gone"
    if gang.group is None or gang.group.deleting or gang.group.uid != decision.gang.uid:
        return "the podgroup is gone"
    return _outdated(decision, gang.status, gang.group)


def _outdated(decision: GangDecided, status: Status, group: GroupView) -> str:
    if status.generation != decision.gang.generation:
        return f"generation {decision.gang.generation} is over: the job is at {status.generation}"
    phase = status.phase or JobPhase.PENDING
    if phase not in LIVE:
        return f"the job is {phase}"
    if decision.bindings and not (group.admitted or decision.enqueue):
        return "the podgroup is not in the queue any more"
    return ""


def _step(
    binding: Binding, members: Mapping[str, tuple[Task, int]], gang: Gang, unready: Mapping[str, str]
) -> Step:
    member = members.get(binding.pod)
    if member is None:
        return _failure(binding, "no-member", "the gang has no such member")
    pod = gang.pods.get(binding.pod)
    step: Step
    if pod is not None:
        step = judge(binding, pod, gang.status.generation)
    elif binding.pod in gang.taken:
        step = name_taken(binding)
    elif binding.uid is not None:
        step = _failure(binding, "pod-gone", "the pod is gone")
    else:
        step = CreateBound(binding, *member)
    if isinstance(step, CreateBound | BindExisting):
        why = closed(gang.nodes, binding.node, member[0].spec.template.spec.tolerations)
        if not why:
            return with_volumes(step, unready)
        return _failure(binding, "node-closed", why)
    return step


def with_volumes(step: Placing, unready: Mapping[str, str]) -> Placing | BindFailure:
    """Return the step; a failure when the pod's volumes cannot be where it is to be."""
    why = unready.get(step.binding.pod)
    return step if why is None else _failure(step.binding, "volume", why)


def judge(binding: Binding, pod: PodView, generation: int) -> InPlace | BindExisting | BindFailure:
    """Say what a binding needs of a pod that is there."""
    if pod.generation != generation or (binding.uid is not None and pod.uid != binding.uid):
        return _failure(binding, "name-taken", "another pod of this name is there")
    if pod.deleting:
        return _failure(binding, "pod-gone", "the pod is being deleted")
    if pod.node is None:
        return BindExisting(binding, pod.uid)
    if pod.node != binding.node:
        return _failure(binding, "placed-elsewhere", f"the pod is on node {pod.node}")
    return InPlace(binding, pod.uid)


def no_devices(binding: Binding, error: ValueError) -> BindFailure:
    """Return the failure of a binding whose node has not the GPUs any more that were chosen."""
    return BindFailure(
        pod=binding.pod, node=binding.node, code="devices-gone", message=f"{binding.pod}: {error}"
    )


def name_taken(binding: Binding) -> BindFailure:
    """Return the failure of a binding whose pod cannot be made, as another one has its name."""
    return _failure(binding, "name-taken", "a pod of this name belongs to somebody else")


def _failure(binding: Binding, code: str, message: str) -> BindFailure:
    return BindFailure(pod=binding.pod, node=binding.node, code=code, message=f"{binding.pod}: {message}")


def _enough(decision: GangDecided, gang: Gang, placed: Sequence[Binding]) -> bool:
    """Say whether the gang has its minimum with these bindings and what it has besides."""
    if gang.wanted is None:
        return False
    decided = {binding.pod for binding in decision.bindings}
    before = [
        pod.task
        for pod in gang.pods.values()
        if pod.generation == gang.status.generation
        and pod.node is not None
        and not pod.deleting
        and pod.name not in decided
    ]
    tasks = [*before, *(binding.task for binding in placed)]
    if len(tasks) < decision.minimum:
        return False
    started = gang.group is not None and gang.group.admitted and bool(before)
    waiting = waiting_tasks(gang.wanted, gang.pods.values(), gang.status.generation)
    return started or reaches_minimum(gang.wanted, tasks, waiting)
