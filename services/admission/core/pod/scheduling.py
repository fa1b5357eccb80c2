"""Where a pod may go: affinity, tolerations, spread."""

from __future__ import annotations

import re
from typing import Final

from services.admission.core.formats import dns_label, label_value, qualified_name
from services.admission.core.pod.checks import Violations, formed, label_map, named, one_of, within
from services.admission.core.violations import Violation
from shared.api.meta import LabelSelector
from shared.api.placement import (
    Affinity,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)

_WITH_VALUES: Final = frozenset({"In", "NotIn"})
_WITHOUT: Final = frozenset({"Exists", "DoesNotExist"})
_COMPARING: Final = frozenset({"Gt", "Lt"})
_EFFECTS: Final = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_UNSATISFIABLE: Final = frozenset({"DoNotSchedule", "ScheduleAnyway"})
_INCLUSION: Final = frozenset({"Honor", "Ignore"})
_WEIGHT_MAX: Final = 100


def affinity(value: Affinity | None, path: str) -> Violations:
    """The three kinds of affinity."""
    if value is None:
        return
    if value.node_affinity is not None:
        yield from _node_affinity(value.node_affinity, f"{path}.nodeAffinity")
    for name, pods in (("podAffinity", value.pod_affinity), ("podAntiAffinity", value.pod_anti_affinity)):
        if pods is not None:
            yield from _pod_affinity(pods, f"{path}.{name}")


def _node_affinity(value: NodeAffinity, path: str) -> Violations:
    required = value.required_during_scheduling_ignored_during_execution
    at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if required is not None:
        if not required.node_selector_terms:
            yield Violation("required", at, "must have at least one node selector term")
        for index, term in enumerate(required.node_selector_terms):
            yield from _term(term, f"{at}[{index}]")
    for index, preferred in enumerate(value.preferred_during_scheduling_ignored_during_execution):
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from within(preferred.weight, f"{at}.weight", 1, _WEIGHT_MAX)
        yield from _term(preferred.preference, f"{at}.preference")


def _term(term: NodeSelectorTerm, path: str) -> Violations:
    for index, expression in enumerate(term.match_expressions):
        at = f"{path}.matchExpressions[{index}]"
        yield from named(expression.key, f"{at}.key", qualified_name)
        yield from _operator(expression, at, comparing=True)
        if expression.operator in _WITH_VALUES:
            for position, text in enumerate(expression.values):
                yield from formed(text, f"{at}.values[{position}]", label_value)
    for index, expression in enumerate(term.match_fields):
        at = f"{path}.matchFields[{index}]"
        if expression.key != "metadata.name":
            yield Violation("unsupported", f"{at}.key", 'only "metadata.name" can be matched')
        if expression.operator not in _WITH_VALUES:
            yield Violation("unsupported", f"{at}.operator", 'must be "In" or "NotIn"')
        elif len(expression.values) != 1:
            yield Violation("required", f"{at}.values", "must have exactly one value")


def _operator(expression: NodeSelectorRequirement, path: str, *, comparing: bool) -> Violations:
    operator, values = expression.operator, expression.values
    if operator in _WITH_VALUES:
        if not values:
            yield Violation("required", f"{path}.values", f"{operator} needs values")
    elif operator in _WITHOUT:
        if values:
            yield Violation("forbidden", f"{path}.values", f"{operator} takes no values")
    elif comparing and operator in _COMPARING:
        if len(values) != 1 or not _INTEGER.fullmatch(values[0]):
            yield Violation("required", f"{path}.values", f"{operator} needs exactly one integer")
    else:
        allowed = _WITH_VALUES | _WITHOUT | (_COMPARING if comparing else frozenset())
        if operator:
            yield from one_of(operator, f"{path}.operator", allowed)
        else:
            yield Violation("required", f"{path}.operator", "operator is required")


def label_selector(selector: LabelSelector | None, path: str) -> Violations:
    """A label selector's names, values and operators."""
    if selector is None:
        return
    yield from label_map(selector.match_labels, f"{path}.matchLabels")
    for index, expression in enumerate(selector.match_expressions):
        at = f"{path}.matchExpressions[{index}]"
        yield from named(expression.key, f"{at}.key", qualified_name)
        same = NodeSelectorRequirement(
            key=expression.key, operator=expression.operator, values=expression.values
        )
        yield from _operator(same, at, comparing=False)


def _pod_affinity(value: PodAffinity, path: str) -> Violations:
    for index, term in enumerate(value.required_during_scheduling_ignored_during_execution):
        yield from _pod_term(term, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]")
    for index, preferred in enumerate(value.preferred_during_scheduling_ignored_during_execution):
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from within(preferred.weight, f"{at}.weight", 1, _WEIGHT_MAX)
        yield from _pod_term(preferred.pod_affinity_term, f"{at}.podAffinityTerm")


def _pod_term(term: PodAffinityTerm, path: str) -> Violations:
    yield from named(term.topology_key, f"{path}.topologyKey", qualified_name)
    yield from label_selector(term.label_selector, f"{path}.labelSelector")
    yield from label_selector(term.namespace_selector, f"{path}.namespaceSelector")
    for index, namespace in enumerate(term.namespaces):
        yield from named(namespace, f"{path}.namespaces[{index}]", dns_label)


def tolerations(values: list[Toleration], path: str) -> Violations:
    """Keys, operators, values and effects of tolerations."""
    for index, toleration in enumerate(values):
        at = f"{path}[{index}]"
        yield from formed(toleration.key, f"{at}.key", qualified_name)
        if not toleration.key and toleration.operator != "Exists":
            yield Violation("invalid", f"{at}.operator", "must be Exists when there is no key")
        if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
            yield Violation("invalid", f"{at}.effect", "must be NoExecute when tolerationSeconds is set")
        if toleration.operator == "Exists":
            if toleration.value:
                yield Violation("invalid", f"{at}.value", "must be empty when the operator is Exists")
        else:
            yield from one_of(toleration.operator, f"{at}.operator", ("Equal", "Exists"))
            yield from formed(toleration.value, f"{at}.value", label_value)
        yield from one_of(toleration.effect, f"{at}.effect", _EFFECTS)


def spread(values: list[TopologySpreadConstraint], path: str) -> Violations:
    """Topology spread constraints."""
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(values):
        at = f"{path}[{index}]"
        yield from within(constraint.max_skew, f"{at}.maxSkew", 1)
        yield from named(constraint.topology_key, f"{at}.topologyKey", qualified_name)
        if constraint.when_unsatisfiable:
            yield from one_of(constraint.when_unsatisfiable, f"{at}.whenUnsatisfiable", _UNSATISFIABLE)
        else:
            yield Violation("required", f"{at}.whenUnsatisfiable", "whenUnsatisfiable is required")
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            yield Violation("duplicate", at, "a constraint of this topologyKey and kind is there already")
        seen.add(pair)
        yield from within(constraint.min_domains, f"{at}.minDomains", 1)
        if constraint.min_domains is not None and constraint.when_unsatisfiable != "DoNotSchedule":
            yield Violation("invalid", f"{at}.minDomains", "needs whenUnsatisfiable: DoNotSchedule")
        yield from one_of(constraint.node_affinity_policy, f"{at}.nodeAffinityPolicy", _INCLUSION)
        yield from one_of(constraint.node_taints_policy, f"{at}.nodeTaintsPolicy", _INCLUSION)
        yield from label_selector(constraint.label_selector, f"{at}.labelSelector")
