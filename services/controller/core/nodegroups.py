"""What a queue says of groups of nodes: its affinity, and how much its pods may use of each group."""

from __future__ import annotations

import json
from typing import Any

from shared.api import names
from shared.api.podspec import resource_list
from shared.api.quantity import QuantityError
from shared.api.scheduling import NodeGroupAffinity, Queue
from shared.events.contracts import NodeGroups

Limits = dict[str, dict[str, int]]
"""By group and resource, in base units."""


def read_groups(queue: Queue) -> NodeGroups | None:
    """Return the groups that a queue's affinity names; None: it has no affinity."""
    affinity = queue.spec.affinity
    if affinity is None:
        return None
    wanted = affinity.node_group_affinity or NodeGroupAffinity()
    avoided = affinity.node_group_anti_affinity or NodeGroupAffinity()
    return NodeGroups(
        required=tuple(wanted.required_during_scheduling_ignored_during_execution),
        preferred=tuple(wanted.preferred_during_scheduling_ignored_during_execution),
        not_required=tuple(avoided.required_during_scheduling_ignored_during_execution),
        not_preferred=tuple(avoided.preferred_during_scheduling_ignored_during_execution),
    )


def read_limits(queue: Queue) -> tuple[Limits | None, str]:
    """Return how much a queue's pods may ask for on each group's nodes, and what is wrong with that in words.

    The annotation is JSON, a resource list by group, as Volcano reads it: ``{"a100": {"cpu": "100"}}``.
    """
    text = queue.metadata.annotations.get(names.NODEGROUP_RESOURCE_LIMITS)
    if not text:
        return None, ""
    try:
        said = json.loads(text)
    except ValueError as error:
        return None, f"{names.NODEGROUP_RESOURCE_LIMITS} is no JSON: {error}"
    try:
        return {group: _amounts(group, one) for group, one in _object(said, "it").items()} or None, ""
    except (TypeError, ValueError) as error:
        return None, f"{names.NODEGROUP_RESOURCE_LIMITS}: {error}"


def _amounts(group: str, said: Any) -> dict[str, int]:
    """Return the limits of one group. Raises TypeError, ValueError with the path of what is wrong."""
    found: dict[str, int] = {}
    for name, amount in _object({} if said is None else said, group).items():
        try:
            found |= resource_list({name: amount if isinstance(amount, str) else json.dumps(amount)})
        except QuantityError as error:
            raise ValueError(f"{group}.{name}: {error}") from error
        if found[name] < 0:
            raise ValueError(f"{group}.{name}: must not be negative")
    return found


def _object(said: Any, what: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise TypeError(f"{what} must be an object of JSON, not {json.dumps(said)}")
    return said
