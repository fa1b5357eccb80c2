"""Volcano's HyperNode (``topology.volcano.sh/v1alpha1``): nodes near each other, every field of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from shared.api.base import REQUIRED, KubeModel, Time, schema
from shared.api.batch import DNS_SUBDOMAIN
from shared.api.meta import KubeObject, LabelSelector

API_VERSION: Final = "topology.volcano.sh/v1alpha1"
KIND: Final = "HyperNode"
_CONDITION_TYPE: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


class MemberType(StrEnum):
    """What a member is."""

    NODE = "Node"
    HYPER_NODE = "HyperNode"


class ExactMatch(KubeModel):
    """A member by its name."""

    name: Annotated[str, schema(minLength=1, maxLength=253, pattern=DNS_SUBDOMAIN), REQUIRED] = ""
    """Its name."""


class RegexMatch(KubeModel):
    """Members by a pattern of their names."""

    pattern: Annotated[str, schema(minLength=1), REQUIRED] = ""
    """A regular expression (RE2), found anywhere in the name unless anchored."""


_RULES: Final = [
    {
        "rule": "has(self.exactMatch) || has(self.regexMatch) || has(self.labelMatch)",
        "message": "Either ExactMatch or RegexMatch or LabelMatch must be specified",
    },
    {
        "rule": "!(has(self.exactMatch) && has(self.regexMatch)) && "
        "!(has(self.exactMatch) && has(self.labelMatch)) && !(has(self.regexMatch) && has(self.labelMatch))",
        "message": "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
    },
]


class MemberSelector(KubeModel):
    """Which ones; exactly one of the three."""

    exact_match: ExactMatch | None = None
    """By name."""
    regex_match: RegexMatch | None = None
    """By a pattern of names."""
    label_match: LabelSelector | None = None
    """By labels; for nodes only."""


class MemberSpec(KubeModel):
    """Members of one type."""

    type: Annotated[str, schema(enum=[str(kind) for kind in MemberType]), REQUIRED] = ""
    """Node or HyperNode."""
    selector: Annotated[MemberSelector, schema(**{"x-kubernetes-validations": _RULES})] = Field(
        default_factory=MemberSelector
    )
    """Which ones."""


class HyperNodeSpec(KubeModel):
    """A place in the tree and its members."""

    tier: Annotated[int, schema(minimum=0), REQUIRED] = 0
    """Level in the tree: the lower, the nearer its nodes are to each other."""
    tier_name: Annotated[str, schema(maxLength=253)] = ""
    """A name for the level, as rack."""
    members: Annotated[list[MemberSpec], schema(minItems=1)] = Field(default_factory=list[MemberSpec])
    """What it is made of."""


class HyperNodeCondition(KubeModel):
    """A condition, as ``metav1.Condition``."""

    type: Annotated[str, schema(maxLength=316, pattern=_CONDITION_TYPE), REQUIRED] = ""
    """What it is about."""
    status: Annotated[str, schema(enum=["True", "False", "Unknown"]), REQUIRED] = ""
    """True, False or Unknown."""
    observed_generation: Annotated[int, schema(format="int64", minimum=0)] | None = None
    """The generation of the spec that it speaks of."""
    last_transition_time: Annotated[Time | None, REQUIRED] = None
    """When the status last changed."""
    reason: Annotated[
        str,
        schema(minLength=1, maxLength=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        REQUIRED,
    ] = ""
    """One word: why."""
    message: Annotated[str, schema(maxLength=32768), REQUIRED] = ""
    """A sentence: why."""


class HyperNodeStatus(KubeModel):
    """What it holds."""

    conditions: list[HyperNodeCondition] = Field(default_factory=list[HyperNodeCondition])
    """The last verdict of each type."""
    node_count: Annotated[int, schema(format="int64", minimum=0)] = 0
    """How many nodes are in it, at any depth."""


class HyperNode(KubeObject):
    """Nodes that are near each other, or groups of them."""

    spec: HyperNodeSpec = Field(default_factory=HyperNodeSpec)
    """Its place and members."""
    status: HyperNodeStatus = Field(default_factory=HyperNodeStatus)
    """What it holds."""
