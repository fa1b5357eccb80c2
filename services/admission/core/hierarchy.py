"""Where a queue may stand in the tree, and how its shares must fit those above and below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from services.admission.core.view import Amounts, QueueInfo, QueueView
from services.admission.core.violations import Violation, did_you_mean
from shared.api.names import ROOT_QUEUE
from shared.api.quantity import Quantity


def share_path(share: str) -> str:
    """Return the field that holds a share."""
    return "spec.guarantee.resource" if share == "guarantee" else f"spec.{share}"


def place_rules(name: str, parent: str, view: QueueView, max_depth: int) -> Iterator[Violation]:
    """The parent must exist and run no pods itself, without circles, and not too deep."""
    if not parent or parent == ROOT_QUEUE:
        return
    if parent == name:
        yield Violation("queue-is-own-parent", "spec.parent", "a queue cannot be its own parent")
        return
    above = view.queue(parent)
    if above is None:
        names = [info.name for info in view.queues()]
        message = f'there is no queue "{parent[:80]}"{did_you_mean(parent, names)}'
        yield Violation("parent-not-found", "spec.parent", message)
        return
    yield from _depth(name, above, view, max_depth)
    if not view.children(parent) and above.allocated_pods:
        message = (
            f'queue "{parent}" runs {above.allocated_pods} pods: only an empty queue can get queues below it'
        )
        yield Violation("parent-has-pods", "spec.parent", message)


def _depth(name: str, parent: QueueInfo, view: QueueView, max_depth: int) -> Iterator[Violation]:
    chain = [parent.name]
    info: QueueInfo | None = parent
    while info is not None and info.parent and info.parent != ROOT_QUEUE:
        if info.parent == name or info.parent in chain:
            message = f"queues would be above each other: {' → '.join([name, *chain, info.parent])}"
            yield Violation("cyclic-queues", "spec.parent", message)
            return
        chain.append(info.parent)
        info = view.queue(info.parent)
    if len(chain) + 1 > max_depth:
        message = f"the queue would be at level {len(chain) + 1} below the root; {max_depth} are allowed"
        yield Violation("queue-too-deep", "spec.parent", message)


def share_rules(queue: QueueInfo, view: QueueView) -> Iterator[Violation]:
    """Capability between descendants' and ancestors'; the sums of siblings at most the parent's share."""
    parent = view.queue(queue.parent) if queue.parent not in ("", ROOT_QUEUE) else None
    if parent is not None:
        yield from _capability_below_ancestors(queue, view)
        siblings = [info for info in view.children(parent.name) if info.name != queue.name]
        for share in ("guarantee", "deserved"):
            total = _sum([*siblings, queue], share)
            yield from _fits(
                total, getattr(parent, share), share, f'its siblings and it, below "{parent.name}"'
            )
    children = view.children(queue.name)
    if children:
        yield from _capability_above_descendants(queue, view)
        for share in ("guarantee", "deserved"):
            yield from _fits(_sum(children, share), getattr(queue, share), share, "the queues below it")


def _sum(queues: Sequence[QueueInfo], share: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for queue in queues:
        for name, amount in getattr(queue, share).items():
            total[name] = total.get(name, 0) + amount
    return total


def _fits(total: Amounts, limit: Amounts, share: str, whose: str) -> Iterator[Violation]:
    for name, amount in total.items():
        if amount > limit.get(name, 0):
            message = (
                f"{whose} have a {share} of {_show(name, amount)} together, above the parent's "
                f"{_show(name, limit.get(name, 0))}"
            )
            yield Violation(f"{share}-above-parent", f"{share_path(share)}[{name}]", message)


def _capability_below_ancestors(queue: QueueInfo, view: QueueView) -> Iterator[Violation]:
    for name, amount in queue.capability.items():
        seen = {queue.name}
        above = view.queue(queue.parent)
        while above is not None and above.name not in (*seen, ROOT_QUEUE):
            if limit := above.capability.get(name):
                if amount > limit:
                    most = f'{_show(name, limit)}, as for queue "{above.name}"'
                    message = f"{_show(name, amount)} must be at most {most}"
                    yield Violation("capability-above-ancestor", f"spec.capability[{name}]", message)
                break
            seen.add(above.name)
            above = view.queue(above.parent) if above.parent else None


def _capability_above_descendants(queue: QueueInfo, view: QueueView) -> Iterator[Violation]:
    for name, amount in queue.capability.items():
        most = max(
            (_largest(child, name, view, frozenset({queue.name})) for child in view.children(queue.name)),
            default=0,
        )
        if amount < most:
            message = f"{_show(name, amount)} must be at least {_show(name, most)}, as a queue below it has"
            yield Violation("capability-below-descendant", f"spec.capability[{name}]", message)


def _largest(queue: QueueInfo, resource: str, view: QueueView, seen: frozenset[str]) -> int:
    if own := queue.capability.get(resource):
        return own
    below = (child for child in view.children(queue.name) if child.name not in seen)
    return max((_largest(child, resource, view, seen | {queue.name}) for child in below), default=0)


def _show(resource: str, amount: int) -> str:
    quantity = Quantity.of_milli(amount) if resource == "cpu" else Quantity.of(amount)
    return f"{quantity} {resource}"
