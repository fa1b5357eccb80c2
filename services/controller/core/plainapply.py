"""Carrying out a decision about a PodGroup of plain pods: what each binding needs, and what came of it.

The pods exist, so nothing is created. When fewer than the minimum could be bound, what was bound is taken
back, except pods that nobody would make again: a bare pod stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.controller.core.apply import (
    NOTHING,
    BindExisting,
    Conclusion,
    InPlace,
    why_in_vain,
    with_volumes,
)
from services.controller.core.closing import Nodes, closed
from services.controller.core.members import MemberPod
from services.controller.core.plaingangs import PlainGroup, task_of
from shared.api.scheduling import PodGroupPhase
from shared.events.contracts import BindFailure, Binding, BoundPod, DecisionOutcome, GangDecided

PlainStep = InPlace | BindExisting | BindFailure


@dataclass(frozen=True, slots=True)
class PlainVerdict:
    """What to do about a decision; ``refused`` says why nothing."""

    refused: str = ""
    enqueue: bool = False
    """The PodGroup must leave Pending before the first pod is bound, so that a crash in between is seen."""
    steps: tuple[PlainStep, ...] = ()
    hopeless: bool = False
    """Too many bindings are impossible: try nothing."""


def examine_plain(
    decision: GangDecided,
    group: PlainGroup | None,
    pods: Mapping[str, MemberPod],
    nodes: Nodes,
    unready: Mapping[str, str] = NOTHING,
) -> PlainVerdict:
    """Say what each binding needs, or why the decision is void; ``unready`` as in :func:`.apply.examine`."""
    if group is None or group.view.deleting or group.view.uid != decision.gang.uid:
        return PlainVerdict("the podgroup is gone")
    steps = tuple(_step(binding, pods.get(binding.pod), nodes, unready) for binding in decision.bindings)
    possible = [step.binding.pod for step in steps if not isinstance(step, BindFailure)]
    enough = not steps or _enough(decision, group, pods, possible)
    pending = group.view.phase is PodGroupPhase.PENDING
    return PlainVerdict(
        enqueue=pending and decision.enqueue and enough and group.minimum > 1,
        steps=steps,
        hopeless=not enough,
    )


def part_held(group: PlainGroup, pods: Sequence[MemberPod]) -> tuple[MemberPod, ...]:
    """Return the pods that hold room for a gang which never started and has fewer than its minimum.

    Only those that somebody makes again; none when the gang has started, or holds nothing.
    """
    if group.view.phase is not PodGroupPhase.INQUEUE:
        return ()
    placed = [pod for pod in pods if pod.placed]
    if group.reached([task_of(pod) for pod in placed]):
        return ()
    return tuple(pod for pod in placed if pod.view.holds_room and pod.made_again)


def _step(binding: Binding, pod: MemberPod | None, nodes: Nodes, unready: Mapping[str, str]) -> PlainStep:
    step = judge_plain(binding, pod)
    if pod is not None and isinstance(step, BindExisting):
        why = closed(nodes, binding.node, pod.tolerations)
        return _failure(binding, "node-closed", why) if why else with_volumes(step, unready)
    return step


def judge_plain(binding: Binding, pod: MemberPod | None) -> PlainStep:  # noqa: PLR0911 - one for each case
    """Say what a binding needs of a pod. One decided before it was seen is whichever has the name."""
    if pod is None:
        return _failure(binding, "pod-gone", "the pod is gone")
    view = pod.view
    if binding.uid is not None and view.uid != binding.uid:
        return _failure(binding, "name-taken", "another pod of this name is there")
    if not pod.living:
        return _failure(binding, "pod-gone", "the pod is being deleted, or has ended")
    if pod.gated:
        return _failure(binding, "gated", "the pod has scheduling gates")
    if view.node is None:
        return BindExisting(binding, view.uid)
    if view.node != binding.node:
        return _failure(binding, "placed-elsewhere", f"the pod is on node {view.node}")
    return InPlace(binding, view.uid)


def conclude_plain(
    decision: GangDecided,
    group: PlainGroup,
    pods: Mapping[str, MemberPod],
    bound: Sequence[BoundPod],
    failures: Sequence[BindFailure],
) -> Conclusion:
    """Decide whether what could be bound stands; see :func:`.apply.conclude`."""
    if len(bound) == len(decision.bindings):
        return Conclusion(DecisionOutcome.APPLIED, tuple(bound))
    if _enough(decision, group, pods, [pod.pod for pod in bound]):
        return Conclusion(DecisionOutcome.PARTIAL, tuple(bound), tuple(failures))
    again = tuple(pod for pod in bound if pod.pod in pods and pods[pod.pod].made_again)
    return Conclusion(
        DecisionOutcome.ROLLED_BACK,
        failures=tuple(failures),
        take_back=again,
        message=why_in_vain(decision, failures),
    )


def _failure(binding: Binding, code: str, message: str) -> BindFailure:
    return BindFailure(pod=binding.pod, node=binding.node, code=code, message=f"{binding.pod}: {message}")


def _enough(
    decision: GangDecided, group: PlainGroup, pods: Mapping[str, MemberPod], placed: Sequence[str]
) -> bool:
    """Say whether the group may run with these pods placed; one that runs is not stopped for the rest."""
    if group.view.phase not in (PodGroupPhase.PENDING, PodGroupPhase.INQUEUE):
        return True
    decided = {binding.pod for binding in decision.bindings}
    before = [task_of(pod) for name, pod in pods.items() if pod.placed and name not in decided]
    return group.reached([*before, *(task_of(pods[name]) for name in placed if name in pods)])
