"""Defaults and rules for queues, with their hierarchy, as Volcano's webhooks have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from services.admission.core.changes import differences
from services.admission.core.hierarchy import place_rules, share_path, share_rules
from services.admission.core.pod.resources import amounts
from services.admission.core.view import QueueInfo, QueueView
from services.admission.core.violations import Violation, listing
from shared.api.names import DEFAULT_QUEUE, HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE
from shared.api.podspec import base_units
from shared.api.quantity import Quantity
from shared.api.scheduling import Queue, QueueSpec

_STATES: Final = frozenset({"Open", "Closed"})
_PODS: Final = "pods"


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What an operator may choose."""

    max_depth: int = 5
    """Levels below the root."""
    protect_root: bool = True
    check_allocated_pods: bool = False
    """Refuse to delete a queue whose pods run."""


def apply_queue_defaults(queue: Queue) -> Queue:
    """Return the queue with its defaults; what it says stays."""
    annotations = queue.metadata.annotations
    path, weights = annotations.get(HIERARCHY, ""), annotations.get(HIERARCHY_WEIGHTS, "")
    if path and weights and not path.startswith(ROOT_QUEUE):
        rooted = {HIERARCHY: f"{ROOT_QUEUE}/{path}", HIERARCHY_WEIGHTS: f"1/{weights}"}
        metadata = queue.metadata.model_copy(update={"annotations": {**annotations, **rooted}})
        queue = queue.model_copy(update={"metadata": metadata})
    changes: dict[str, bool | int] = {}
    if queue.spec.reclaimable is None:
        changes["reclaimable"] = True
    if queue.spec.weight == 0:
        changes["weight"] = 1
    return queue.model_copy(update={"spec": queue.spec.model_copy(update=changes)}) if changes else queue


def validate_queue(
    queue: Queue, view: QueueView, limits: QueueLimits, old: Queue | None = None
) -> list[Violation]:
    """Return every reason why this queue may not be created, or why ``old`` may not become it."""
    return list(_rules(queue, view, limits, old))


def validate_queue_deletion(name: str, view: QueueView, limits: QueueLimits) -> list[Violation]:
    """Return every reason why a queue may not be deleted."""
    return list(_deletion(name, view, limits))


def _rules(queue: Queue, view: QueueView, limits: QueueLimits, old: Queue | None) -> Iterator[Violation]:
    shares, wrong = _shares(queue.spec)
    yield from wrong
    yield from _guarantee_below_deserved_below_capability(shares)
    state = queue.status.state
    if state is not None and state not in _STATES:
        message = f'"{state}" cannot be asked for; use one of {listing(_STATES)}'
        yield Violation("unsupported-queue-state", "status.state", message)
    yield from _hierarchy_annotations(queue, view)
    moved = old is None or old.spec.parent != queue.spec.parent
    if moved:
        yield from place_rules(queue.metadata.name, queue.spec.parent, view, limits.max_depth)
    if old is not None and queue.metadata.name == ROOT_QUEUE and limits.protect_root:
        yield from _root_is_fixed(old, queue)
    if queue.metadata.name != ROOT_QUEUE and (moved or (old and any(_share_changes(old, queue)))):
        yield from share_rules(_info(queue, shares), view)


def _shares(spec: QueueSpec) -> tuple[dict[str, dict[str, Quantity]], list[Violation]]:
    texts = {"capability": spec.capability, "deserved": spec.deserved, "guarantee": spec.guarantee.resource}
    read: dict[str, dict[str, Quantity]] = {}
    wrong: list[Violation] = []
    for share, values in texts.items():
        read[share], problems = amounts(values, share_path(share))
        wrong += problems
    return read, wrong


def _guarantee_below_deserved_below_capability(
    shares: Mapping[str, Mapping[str, Quantity]],
) -> Iterator[Violation]:
    deserved, capability = shares["deserved"], shares["capability"]
    for name, amount in shares["guarantee"].items():
        at = f"spec.deserved[{name}]"
        if name not in deserved:
            message = f"must be at least what is guaranteed, {amount}, but is not given"
            yield Violation("deserved-below-guarantee", at, message)
        elif deserved[name] < amount:
            message = f"{deserved[name]} must be at least what is guaranteed, {amount}"
            yield Violation("deserved-below-guarantee", at, message)
    for name, amount in deserved.items():
        if name in capability and amount > capability[name]:
            message = f"{amount} must be at most the capability, {capability[name]}"
            yield Violation("deserved-above-capability", f"spec.deserved[{name}]", message)


def _hierarchy_annotations(queue: Queue, view: QueueView) -> Iterator[Violation]:
    path = queue.metadata.annotations.get(HIERARCHY, "")
    weights = queue.metadata.annotations.get(HIERARCHY_WEIGHTS, "")
    if not path and not weights:
        return
    at = f"metadata.annotations[{HIERARCHY_WEIGHTS}]"
    levels, numbers = path.split("/"), weights.split("/")
    if len(levels) != len(numbers):
        message = f'"{weights[:80]}" has {len(numbers)} weights for the {len(levels)} levels of "{path[:80]}"'
        yield Violation("hierarchy-length-mismatch", at, message)
    for text in numbers:
        if not _is_positive(text):
            message = f'"{text[:80]}" is not a positive number'
            yield Violation("invalid-hierarchy-weight", at, message)
    for other in sorted(view.queues(), key=lambda info: info.name):
        if other.name != queue.metadata.name and other.hierarchy.startswith(f"{path}/"):
            message = (
                f'"{path[:80]}" is above queue "{other.name}" at "{other.hierarchy}": only leaves are queues'
            )
            yield Violation("hierarchy-conflict", f"metadata.annotations[{HIERARCHY}]", message)
            return


def _is_positive(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False


def _share_changes(old: Queue, new: Queue) -> Iterator[str]:
    yield from differences(old.spec.capability, new.spec.capability, "spec.capability")
    yield from differences(old.spec.deserved, new.spec.deserved, "spec.deserved")
    yield from differences(
        old.spec.guarantee.resource, new.spec.guarantee.resource, "spec.guarantee.resource"
    )


def _root_is_fixed(old: Queue, new: Queue) -> Iterator[Violation]:
    for path in _share_changes(old, new):
        yield Violation(
            "root-queue-protected", path, "the root queue's shares follow the cluster and may not be set"
        )


def queue_info(queue: Queue) -> QueueInfo:
    """Return what rules look at of a queue that exists; an amount that cannot be read counts as absent."""
    shares, _ = _shares(queue.spec)
    allocated, _ = amounts(queue.status.allocated, "status.allocated")
    return replace(
        _info(queue, shares),
        state=queue.status.state or "Open",
        allocated_pods=base_units(_PODS, allocated.get(_PODS, Quantity(0))),
        hierarchy=queue.metadata.annotations.get(HIERARCHY, ""),
    )


def _info(queue: Queue, shares: Mapping[str, Mapping[str, Quantity]]) -> QueueInfo:
    units = {
        share: {name: base_units(name, amount) for name, amount in values.items()}
        for share, values in shares.items()
    }
    return QueueInfo(
        queue.metadata.name,
        queue.spec.parent,
        capability=units["capability"],
        deserved=units["deserved"],
        guarantee=units["guarantee"],
    )


def _deletion(name: str, view: QueueView, limits: QueueLimits) -> Iterator[Violation]:
    if name in (DEFAULT_QUEUE, ROOT_QUEUE):
        yield Violation("queue-protected", "metadata.name", f'the queue "{name}" cannot be deleted')
    if name != ROOT_QUEUE and (children := view.children(name)):
        below = listing(child.name for child in children)
        message = f'queue "{name}" has queues below it: delete {below} first'
        yield Violation("queue-has-children", "metadata.name", message)
    queue = view.queue(name)
    if limits.check_allocated_pods and queue is not None and queue.allocated_pods:
        message = f'queue "{name}" runs {queue.allocated_pods} pods: wait for them or delete them first'
        yield Violation("queue-has-pods", "metadata.name", message)
