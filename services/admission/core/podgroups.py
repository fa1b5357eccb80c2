"""Defaults and rules for PodGroups, as Volcano's webhooks have them."""

from __future__ import annotations

from collections.abc import Iterator

from services.admission.core.jobs import open_queue_rules
from services.admission.core.tasks import topology_rules
from services.admission.core.view import QueueView
from services.admission.core.violations import Violation
from shared.api.names import DEFAULT_QUEUE
from shared.api.scheduling import PodGroup


def apply_podgroup_defaults(group: PodGroup, namespace_queue: str) -> PodGroup:
    """Send a group of the default queue to the one that its namespace names, if it names one.

    ``default`` is the schema's own default, so it cannot be told from a wish for that very queue.
    """
    if not namespace_queue or group.spec.queue not in ("", DEFAULT_QUEUE):
        return group
    return group.model_copy(update={"spec": group.spec.model_copy(update={"queue": namespace_queue})})


def validate_podgroup(group: PodGroup, view: QueueView) -> list[Violation]:
    """Return every reason why this group may not be created."""
    return list(_rules(group, view))


def _rules(group: PodGroup, view: QueueView) -> Iterator[Violation]:
    spec = group.spec
    if spec.queue:
        yield from open_queue_rules(spec.queue, view)
    yield from topology_rules(spec.network_topology, "spec.networkTopology")
    for index, policy in enumerate(spec.sub_group_policy):
        yield from topology_rules(policy.network_topology, f"spec.subGroupPolicy[{index}].networkTopology")
