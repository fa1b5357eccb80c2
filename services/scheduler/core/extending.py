"""Where an extender's answers count: one more limit of a shape's nodes, and one more term of the sum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from services.scheduler.core.columns import BoolArray, FloatArray, SlotArray
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.own import limits_of as own_limits
from services.scheduler.core.rules import Limit
from services.scheduler.core.shapes import LimitMaker, Shape
from services.scheduler.core.terms import Term
from shared.events.contracts import Gang
from shared.events.contracts import Shape as ShapeContract

if TYPE_CHECKING:
    from services.scheduler.core.model import Model
    from services.scheduler.core.policy import Extender, Policy, VictimFilter

NAME: Final = "extender"
_NO_MATTER: Final = {
    "devices",
    "images",
    "more_devices",
    "numa",
    "preemptable",
    "priority",
    "revocable",
    "scheduling_gated",
    "volumes",
}
"""What may differ between pods of one shape, or is nothing that an extender is told."""


def question_of(extender: Extender, shape: ShapeContract) -> str | None:
    """Return the name of what an extender is asked about pods of a shape; None: they are not its."""
    if extender.managed and not any(name in shape.requests for name in extender.managed):
        return None
    asked = (
        extender.url,
        extender.predicate,
        extender.prioritize,
        shape.model_dump(mode="json", exclude=_NO_MATTER),
    )
    return blake2b(json.dumps(asked, sort_keys=True).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class ExtenderLimit:
    """Makes the limit of a shape: nodes that the extender accepted."""

    extender: Extender

    def __call__(self, shape: Shape, nodes: Nodes) -> Limit:
        """Return the test of nodes."""
        question, answers = question_of(self.extender, shape.contract), nodes.answers
        answers.ask(shape.number, question, shape.contract)
        ignorable = self.extender.ignorable

        def limit(slots: SlotArray) -> BoolArray:
            if question is None:
                return np.ones(slots.size, np.bool_)
            names = [nodes.names[slot] for slot in slots.tolist()]
            return np.array(answers.passes(question, names, ignorable=ignorable), np.bool_)

        return limit


def limits_of(policy: Policy) -> Mapping[str, LimitMaker]:
    """Return what plugins say of nodes, the extender last: it is asked about those that are left."""
    extender = policy.extender
    asked = extender is not None and (extender.predicate or extender.prioritize)
    return {
        **own_limits(policy),
        **({NAME: ExtenderLimit(extender)} if extender is not None and asked else {}),
    }


def unvoted(model: Model, gang: Gang) -> tuple[int, str]:
    """Return how many pods are not answered about yet that might be evicted for a gang, and why."""
    answers, policy = model.nodes.answers, model.policy.eviction
    votes = {
        one for tiers in (policy.preempt_filters, policy.reclaim_filters) for tier in tiers for one in tier
    }
    count, words = 0, ""
    for vote in sorted(one.question(gang) or "" for one in votes if isinstance(one, ExtenderVote)):
        known = answers.known.get(vote)
        silent = [] if known is None else [one.words for one in known.verdicts.values() if not one.answered]
        count += len(answers.lacking.get(vote, ())) + len(silent)
        words = words or (silent[0] if silent else "")
    return count, words


def unasked(policy: Policy) -> Policy:
    """Return a policy where nobody is asked: no extender, and none of its scores and votes."""
    extra = tuple(one for one in policy.scores.extra if not isinstance(one, ExtenderScores))
    eviction = replace(
        policy.eviction,
        preempt_filters=_without_votes(policy.eviction.preempt_filters),
        reclaim_filters=_without_votes(policy.eviction.reclaim_filters),
    )
    scores = replace(policy.scores, extra=extra)
    return replace(policy, extender=None, scores=scores, eviction=eviction)


def _without_votes(tiers: tuple[tuple[VictimFilter, ...], ...]) -> tuple[tuple[VictimFilter, ...], ...]:
    """Drop its votes, and tiers in which it alone votes unless there is no other."""
    always = set.intersection(*map(set, tiers)) if tiers else set()
    left: list[tuple[VictimFilter, ...]] = [
        tuple(one for one in tier if not isinstance(one, ExtenderVote)) for tier in tiers
    ]
    some = [tier for tier, before in zip(left, tiers, strict=True) if tier == before or set(tier) - always]
    return tuple(some or left[:1])


@dataclass(frozen=True, slots=True)
class ExtenderVote:
    """The extender's vote on who may be evicted for a gang: of those it has answered about."""

    extender: Extender
    method: Literal["preemptable", "reclaimable"]

    @property
    def verb(self) -> str:
        """The path by which it is asked."""
        return self.extender.preemptable if self.method == "preemptable" else self.extender.reclaimable

    def question(self, gang: Gang) -> str | None:
        """Return the name of what is asked; None: the gang is none of its."""
        shapes = [task.shape for task in gang.tasks]
        if self.extender.managed and not any(
            one in shape.requests for shape in shapes for one in self.extender.managed
        ):
            return None
        asked = (self.extender.url, self.verb, self.method, gang.uid, gang.generation)
        return blake2b(json.dumps(asked).encode(), digest_size=12).hexdigest()

    def __call__(self, model: Model, gang: Gang, rows: SlotArray) -> BoolArray | None:
        """Return which rows of the pods may go for a gang; None: it has nothing to say."""
        question, answers = self.question(gang), model.nodes.answers
        if question is None:
            return None
        answers.votes[question] = self.verb, gang
        pods = model.victims.pods
        uids = ["" if (pod := pods[row]) is None else pod.uid for row in rows.tolist()]
        found = np.array(answers.passes(question, uids, ignorable=False), np.bool_)
        known = answers.known.get(question)
        return None if known is not None and known.abstains else found


@dataclass(frozen=True, slots=True)
class ExtenderScores:
    """Makes the term of a shape: how much the extender likes nodes."""

    extender: Extender

    def __call__(self, shape: Shape, nodes: Nodes) -> Term | None:
        """Return the term; None for pods that are not the extender's."""
        question = question_of(self.extender, shape.contract)
        return None if question is None else _Liked(question, nodes)


class _Liked(Term):
    rising = True

    def __init__(self, question: str, nodes: Nodes) -> None:
        self._question = question
        self._nodes = nodes

    def many(self, slots: SlotArray) -> FloatArray:
        names = self._nodes.names
        return np.array(self._nodes.answers.scores(self._question, [names[slot] for slot in slots.tolist()]))
