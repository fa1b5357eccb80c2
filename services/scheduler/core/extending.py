"""Where an extender's answers count: one more limit of a shape's nodes, and one more term of the sum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np

from services.scheduler.core.columns import BoolArray, FloatArray, SlotArray
from services.scheduler.core.nodes import Nodes
from services.scheduler.core.own import limits_of as own_limits
from services.scheduler.core.rules import Limit
from services.scheduler.core.shapes import LimitMaker, Shape
from services.scheduler.core.terms import Term
from shared.events.contracts import Shape as ShapeContract

if TYPE_CHECKING:
    from services.scheduler.core.policy import Extender, Policy

NAME: Final = "extender"
_NO_MATTER: Final = {"priority", "preemptable", "revocable", "scheduling_gated", "volumes"}
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
    extender = {} if policy.extender is None else {NAME: ExtenderLimit(policy.extender)}
    return {**own_limits(policy), **extender}


def unasked(policy: Policy) -> Policy:
    """Return a policy where nobody is asked: no extender, and none of its scores."""
    extra = tuple(one for one in policy.scores.extra if not isinstance(one, ExtenderScores))
    return replace(policy, extender=None, scores=replace(policy.scores, extra=extra))


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
