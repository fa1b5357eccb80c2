"""How near to each other a gang's pods must run, and the groups that it is made of.

A Job says it by ``networkTopology`` and the ``partitionPolicy`` of its tasks; a PodGroup by
``networkTopology`` and ``subGroupPolicy``, whose groups are made by the labels of the pods: those that a
policy selects and that have the same values of its ``matchLabelKeys`` are one group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from services.controller.core.model import Task, Wanted
from shared.api.batch import NetworkTopologySpec as JobTopology
from shared.api.scheduling import NetworkTopologySpec, SubGroupPolicySpec
from shared.events.contracts import NetworkTopology, SubGroups
from shared.hypernodes.membership import matches

_SOFT: Final = "soft"
_HARD: Final = "hard"
_NO_GROUP: Final = ""


def topology_of(spec: NetworkTopologySpec | JobTopology | None) -> NetworkTopology | None:
    """Return it in the scheduler's form; as in Volcano it is hard unless it says soft."""
    if spec is None:
        return None
    return NetworkTopology(
        mode=_SOFT if spec.mode == _SOFT else _HARD,
        highest_tier=spec.highest_tier_allowed,
        highest_tier_name=spec.highest_tier_name,
    )


def job_topology(wanted: Wanted) -> NetworkTopology | None:
    """Return what a job asks for. Raises ValueError when it cannot be read."""
    raw = wanted.spec.get("networkTopology")
    return topology_of(JobTopology.model_validate(raw)) if raw else None


def partitions(tasks: Sequence[Task]) -> tuple[SubGroups, ...]:
    """Return the partitions of a job's tasks as groups."""
    found: list[SubGroups] = []
    for task in tasks:
        policy = task.spec.partition_policy
        if policy is not None:
            found.append(
                SubGroups(
                    name=task.name,
                    size=max(1, policy.partition_size),
                    minimum=max(0, policy.min_partitions),
                    topology=topology_of(policy.network_topology),
                )
            )
    return tuple(found)


def partition_name(task: Task, index: int) -> str:
    """Return the group of a job's pod; empty: its task has no partitions."""
    number = task.partition(index)
    return _NO_GROUP if number is None else f"{task.name}/{number}"


def sub_groups(policies: Sequence[SubGroupPolicySpec]) -> tuple[SubGroups, ...]:
    """Return the groups of a PodGroup's policies."""
    return tuple(
        SubGroups(
            name=_name(policy, number),
            size=max(1, policy.sub_group_size or 1),
            minimum=max(0, policy.min_sub_groups or 0),
            topology=topology_of(policy.network_topology),
        )
        for number, policy in enumerate(policies)
    )


def group_by_labels(policies: Sequence[SubGroupPolicySpec], labels: Mapping[str, str]) -> str:
    """Return the group of a pod: by the first policy that it is of; empty where it lacks a label for it."""
    for number, policy in enumerate(policies):
        if policy.label_selector is not None and not matches(policy.label_selector, labels):
            continue
        values = [labels.get(key) for key in policy.match_label_keys]
        found = [value for value in values if value is not None]
        if len(found) == len(values):
            return "/".join((_name(policy, number), *found))
    return _NO_GROUP


def _name(policy: SubGroupPolicySpec, number: int) -> str:
    return policy.name or str(number)
