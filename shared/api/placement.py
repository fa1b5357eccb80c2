"""Where pods may go: affinity, tolerations, topology spread."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.api.base import REQUIRED, Int32, Int64, PartialModel
from shared.api.meta import LabelSelector


class NodeSelectorRequirement(PartialModel):
    """One expression on a node's label or field: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: Annotated[str, REQUIRED] = ""
    operator: Annotated[str, REQUIRED] = ""
    values: list[str] = Field(default_factory=list[str])


class NodeSelectorTerm(PartialModel):
    """All expressions must match; a term without any matches no node."""

    match_expressions: list[NodeSelectorRequirement] = Field(default_factory=list[NodeSelectorRequirement])
    match_fields: list[NodeSelectorRequirement] = Field(default_factory=list[NodeSelectorRequirement])


class NodeSelector(PartialModel):
    """At least one term must match."""

    node_selector_terms: Annotated[list[NodeSelectorTerm], REQUIRED] = Field(
        default_factory=list[NodeSelectorTerm]
    )


class PreferredSchedulingTerm(PartialModel):
    """A wish with a weight of 1 to 100."""

    weight: Annotated[Int32, REQUIRED] = 0
    preference: Annotated[NodeSelectorTerm, REQUIRED] = Field(default_factory=NodeSelectorTerm)


class NodeAffinity(PartialModel):
    """Which nodes a pod must and would like to run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] = Field(
        default_factory=list[PreferredSchedulingTerm]
    )


class PodAffinityTerm(PartialModel):
    """Pods, and the topology domain to share with or keep away from them."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] = Field(default_factory=list[str])
    namespace_selector: LabelSelector | None = None
    topology_key: Annotated[str, REQUIRED] = ""
    match_label_keys: list[str] = Field(default_factory=list[str])
    mismatch_label_keys: list[str] = Field(default_factory=list[str])


class WeightedPodAffinityTerm(PartialModel):
    """A wish with a weight of 1 to 100."""

    weight: Annotated[Int32, REQUIRED] = 0
    pod_affinity_term: Annotated[PodAffinityTerm, REQUIRED] = Field(default_factory=PodAffinityTerm)


class PodAffinity(PartialModel):
    """Also the shape of a PodAntiAffinity."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = Field(
        default_factory=list[PodAffinityTerm]
    )
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] = Field(
        default_factory=list[WeightedPodAffinityTerm]
    )


PodAntiAffinity = PodAffinity


class Affinity(PartialModel):
    """The three kinds of affinity of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(PartialModel):
    """Taints that a pod tolerates; an empty key with Exists tolerates all."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class TopologySpreadConstraint(PartialModel):
    """How evenly matching pods spread over topology domains."""

    max_skew: Annotated[Int32, REQUIRED] = 0
    topology_key: Annotated[str, REQUIRED] = ""
    when_unsatisfiable: Annotated[str, REQUIRED] = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] = Field(default_factory=list[str])


class Taint(PartialModel):
    """What keeps pods off a node: NoSchedule, PreferNoSchedule or NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class PodSchedulingGate(PartialModel):
    """A pod with gates is not scheduled until they are removed."""

    name: Annotated[str, REQUIRED] = ""
