"""Why pods of a shape find no room, in numbers over the pool's nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np

from services.scheduler.core.columns import BoolArray, IntArray, SlotArray
from services.scheduler.core.extending import NAME as EXTENDER
from services.scheduler.core.model import Model
from services.scheduler.core.numareasons import cpus_taken, no_such_numa_nodes, not_aligning
from services.scheduler.core.proportions import kept
from services.scheduler.core.rules import Refusals
from services.scheduler.core.shapes import Shape, describe_part
from shared.events.contracts import Reason

_ORDER: Final = (
    "no-nodes",
    "no-node-matches",
    "no-node-tolerated",
    "no-node-in-group",
    "no-node-open",
    "no-node-revocable",
    "no-node-answered",
    "no-node-accepted",
    "no-node-unloaded",
    "no-node-reaches",
    "no-node-aligns",
    "no-node-ready",
    "pod-too-large",
    "gang-too-large",
    "no-room",
    "nodes-not-matching",
    "nodes-tainted",
    "nodes-of-other-groups",
    "nodes-closed",
    "nodes-revocable",
    "nodes-unanswered",
    "nodes-refused",
    "nodes-loaded",
    "nodes-not-reaching",
    "nodes-not-aligning",
    "nodes-not-ready",
    "nodes-over-committed",
)
RANK: Final = {code: rank for rank, code in enumerate(_ORDER)}
"""Most important first."""


def reasons(model: Model, shape: Shape, need: int, *, surplus: bool = False) -> list[Reason]:
    """Say why not all of ``need`` pods fit, most important first; nothing when they do."""
    index = model.index(shape)
    if index.total >= need:
        return []
    slots = np.flatnonzero(model.nodes.mine)
    if not slots.size:
        return [
            Reason(
                code="no-nodes",
                message=f"node pool {model.pool} has no nodes",
                numbers={"nodes": 0},
                next_step="add nodes to the pool, or submit to another",
            )
        ]
    passed = shape.rules.refusals(slots)
    allowed = passed.allowed
    filters = _filters(model, shape, slots, passed)
    if not allowed.any():
        return [_nowhere(filters[0], slots.size), *filters[1:]]
    return [_room(model, shape, need, slots[allowed], slots.size, surplus=surplus), *filters]


def _room(
    model: Model, shape: Shape, need: int, slots: SlotArray, all_nodes: int, *, surplus: bool
) -> Reason:
    nodes, index = model.nodes, model.index(shape)
    each = shape.describe(model.resources)
    capable = np.ones(slots.size, np.bool_)
    for column, amount in shape.limited:
        enough = nodes.allocatable[column][slots] >= amount
        if not enough.any():
            return _too_large(model, column, amount, slots)
        capable &= enough
    potential = index.potential()
    if shape.mounts is not None:
        volumes = model.nodes.volumes.fits(shape.mounts, slots, empty=True)
        if int(np.minimum(volumes, need).sum()) < need:
            return _volumes_taken(model, shape, need, int((volumes > 0).sum()), all_nodes)
    if not potential and shape.devices:
        return _no_such_parts(model, shape, slots[capable])
    if not potential and shape.aligned:
        return no_such_numa_nodes(model, shape, slots[capable])
    if potential < need:
        return Reason(
            code="gang-too-large",
            message=f"needs {each} on one node for each of {need} pods; even empty, {int(capable.sum())} of "
            f"{all_nodes} nodes would hold {potential} of them",
            numbers={"needed": need, "possible": potential, "nodes": all_nodes},
            next_step="ask for fewer or smaller pods, or add nodes",
        )
    return _full(model, shape, need, slots[capable], all_nodes, surplus=surplus)


def _too_large(model: Model, column: int, amount: int, slots: SlotArray) -> Reason:
    most = int(model.nodes.allocatable[column][slots].max())
    say = model.resources.describe
    return Reason(
        code="pod-too-large",
        message=f"needs {say(column, amount)} on one node; "
        + (f"the largest has {say(column, most)}" if most else "no node has any"),
        numbers={"resource": model.resources.names[column], "needed": amount, "nodes": int(slots.size)},
        next_step="ask for less in each pod, or add larger nodes"
        if most
        else "look whether the resource is named right, or add nodes that have it",
    )


def _full(
    model: Model, shape: Shape, need: int, slots: SlotArray, all_nodes: int, *, surplus: bool
) -> Reason:
    """The nodes could hold them, but not now: name the resource that the most nodes lack."""
    nodes = model.nodes

    def free_of(column: int) -> IntArray:
        room: IntArray = nodes.allocatable[column][slots] - nodes.used[column][slots]
        return room

    free = [
        (free_of(column) - kept(shape.leaves, column, free_of), column, amount)
        for column, amount in shape.limited
    ]
    having = [(int((room >= amount).sum()), -column, column, amount, room) for room, column, amount in free]
    count, _, column, amount, room = min(having, key=lambda item: item[:2])
    if column in model.resources.capacities:
        return _taken(model, shape, need, column, count, all_nodes)
    if shape.devices:
        holding = int((model.devices.fits(shape.devices, slots) > 0).sum())
        if holding <= count:
            return _parts_taken(model, shape, need, holding, slots, all_nodes)
    if shape.aligned:
        lack = cpus_taken(model, shape, need, slots, all_nodes, count)
        if lack is not None:
            return lack
    if shape.mounts is not None:
        holding = int((model.nodes.volumes.fits(shape.mounts, slots) > 0).sum())
        if holding < count:
            return _volumes_taken(model, shape, need, holding, all_nodes)
    left = int(np.maximum(room, 0).sum())
    say = model.resources.describe
    fits = model.index(shape).total
    who = "one more pod" if surplus else f"each of {need} pods"
    each = f"needs {shape.describe(model.resources)} on one node for {who}: {fits} fit now"
    return Reason(
        code="no-room",
        message=f"{each}; {count} of {all_nodes} nodes have {say(column, amount)} free, {say(column, left)} "
        f"are free in all{_beside(model, shape, column)}",
        numbers={
            "resource": model.resources.names[column],
            "needed": need,
            "fits": fits,
            "nodes": all_nodes,
            "nodesWithRoom": count,
            "free": left,
        },
        next_step="wait for running jobs to end, or ask for less",
    )


def _beside(model: Model, shape: Shape, column: int) -> str:
    """Say for what some of a resource is kept."""
    names = [model.resources.names[one.scarce] for one in shape.leaves if one.column == column]
    return f", beside what is kept for idle {' and '.join(names)}" if names else ""


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _no_such_parts(model: Model, shape: Shape, slots: SlotArray) -> Reason:
    """No node would hold a pod's devices even if nothing were used."""
    parts = ", ".join(map(describe_part, shape.devices))
    most = int(model.devices.holding(shape.devices, slots, empty=True).max(initial=0))
    return Reason(
        code="pod-too-large",
        message=f"needs {parts} on one node; "
        + (
            f"even empty, no node has room for that on its GPUs: the most that would do on one node is {most}"
            if most
            else "no node has a healthy GPU that would do"
        ),
        numbers={"resource": "devices", "needed": len(shape.devices), "nodes": int(slots.size), "most": most},
        next_step="ask for smaller parts or other GPUs, or look whether device plugins tell of them",
    )


def _parts_taken(
    model: Model, shape: Shape, need: int, holding: int, slots: SlotArray, all_nodes: int
) -> Reason:
    """Too few nodes have devices with so much free."""
    fits = model.index(shape).total
    most = int(model.devices.holding(shape.devices, slots).max(initial=0))
    count = max(request.count for request in shape.devices)
    return Reason(
        code="no-room",
        message=f"needs {shape.describe(model.resources)} on one node for each of {need} pods: {fits} fit "
        f"now; {_gpus(count)} with that much free {'is' if count == 1 else 'are'} needed, {holding} of "
        f"{all_nodes} nodes have as many, and the most on one node is {most}",
        numbers={
            "resource": "devices",
            "needed": need,
            "fits": fits,
            "nodes": all_nodes,
            "nodesWithRoom": holding,
            "most": most,
        },
        next_step="wait for running jobs to end, or ask for smaller parts",
    )


def _volumes_taken(model: Model, shape: Shape, need: int, holding: int, all_nodes: int) -> Reason:
    """Too few nodes take its volumes, or have free ones that suit its claims."""
    return Reason(
        code="no-room",
        message=f"needs {shape.describe(model.resources)} on one node for each of {need} pods: "
        f"{model.index(shape).total} fit now; {holding} of {all_nodes} nodes have place for its volumes",
        numbers={
            "resource": "volumes",
            "needed": need,
            "fits": model.index(shape).total,
            "nodes": all_nodes,
            "nodesWithRoom": holding,
        },
        next_step="wait for pods with volumes to end, add nodes, or (local volumes) make more of them",
    )


def _taken(model: Model, shape: Shape, need: int, column: int, free: int, all_nodes: int) -> Reason:
    """Each node has one of it, and too few have it free: a host port."""
    what = model.resources.describe(column, 1)
    return Reason(
        code="no-room",
        message=f"needs {shape.describe(model.resources)} and {what} on one node for each of {need} pods: "
        f"{free} of {all_nodes} nodes have {what} free",
        numbers={"resource": what, "needed": need, "fits": free, "nodes": all_nodes},
        next_step="wait for running jobs to end, or use another port",
    )


def _filters(model: Model, shape: Shape, slots: SlotArray, passed: Refusals) -> list[Reason]:
    """Count nodes by the first rule that refuses them, in the order in which people look for it."""
    found: list[Reason] = []
    left = np.ones(slots.size, np.bool_)
    for by, code, words in _rules(model, shape, slots, passed):
        where = slots[left & ~by]
        left &= by
        if where.size:
            found.append(_filter(code, where.size, words(where)))
    return sorted(found, key=lambda reason: -int(reason.numbers["nodes"]))


def _rules(
    model: Model, shape: Shape, slots: SlotArray, passed: Refusals
) -> Iterator[tuple[BoolArray, str, Callable[[SlotArray], str]]]:
    """Yield for each rule which nodes pass it, its code, and what it says of those that do not."""
    selector = ", ".join(f"{key}={value}" for key, value in sorted(shape.rules.selector.items()))
    yield passed.selected, "nodes-not-matching", lambda _: f"do not match the node selector {selector}"
    yield passed.affine, "nodes-not-matching", lambda _: "do not match the required node affinity"
    yield passed.untainted, "nodes-tainted", lambda where: f"are tainted ({_taints(model, shape, where)})"
    yield passed.schedulable, "nodes-tainted", lambda _: "are unschedulable (cordoned)"
    groups = "" if shape.lot is None else shape.lot.describe()
    words = f"are of no group that the queue may use ({groups})"
    yield passed.grouped, "nodes-of-other-groups", lambda _: words
    if shape.contract.revocable:
        yield passed.zoned, "nodes-closed", lambda _: "are of zones whose hours these are not"
    else:
        yield passed.zoned, "nodes-revocable", lambda _: "are of zones for pods that may be evicted"
    yield passed.unloaded, "nodes-loaded", lambda where: f"really use more than {_limits(model, where)}"
    yield passed.reachable, "nodes-not-reaching", lambda _: "do not reach its volumes"
    policy = shape.rules.numa_policy
    yield passed.aligning, "nodes-not-aligning", lambda where: not_aligning(model, policy, where)
    yield from _accepting(model, shape, slots, passed)
    yield passed.ready, "nodes-not-ready", lambda _: "are not ready"
    yield (
        ~model.nodes.over[slots],
        "nodes-over-committed",
        lambda where: f"{'has' if where.size == 1 else 'have'} more used than {_they(where)}",
    )


def _limits(model: Model, where: SlotArray) -> str:
    """Name the limits that some of these nodes exceed."""
    limit = model.policy.load_limit
    if limit is None:
        return "they may"
    cpu, memory = model.nodes.load.used[:, where]
    exceeded = [(cpu > limit.cpu, limit.cpu, "CPU"), (memory > limit.memory, limit.memory, "memory")]
    return " or ".join(f"{most:g}% of their {what}" for by, most, what in exceeded if by.any())


def _accepting(
    model: Model, shape: Shape, slots: SlotArray, passed: Refusals
) -> Iterator[tuple[BoolArray, str, Callable[[SlotArray], str]]]:
    """Yield which nodes plugins let pass; the extender may not have said yet."""
    limits = ", ".join(sorted(name for name in shape.rules.limits if name != EXTENDER))
    answers = model.nodes.answers
    question = answers.questions.get(shape.number)
    if question is not None:
        refused = np.flatnonzero(~passed.accepted)
        said = [answers.verdict(question, model.nodes.names[slot]) for slot in slots[refused].tolist()]
        told, passes = np.ones(slots.size, np.bool_), np.ones(slots.size, np.bool_)
        told[refused] = [one is not None and one.answered for one in said]
        passes[refused] = [one is None or one.accepted or not one.answered for one in said]
        errors = _most_said(one.words for one in said if one is not None and not one.answered)
        words = _most_said(one.words for one in said if one is not None and one.answered)
        yield told, "nodes-unanswered", lambda _: f"are waiting for an answer of the extender{errors}"
        yield passes, "nodes-refused", lambda _: f"are refused by the extender{words}"
    yield passed.accepted, "nodes-refused", lambda _: f"are refused by a plugin ({limits})"


def _most_said(said: Iterable[str]) -> str:
    """Return the most frequent words in brackets."""
    counts = Counter(words for words in said if words)
    return f" ({min(counts, key=lambda words: (-counts[words], words))})" if counts else ""


def _they(where: SlotArray) -> str:
    return "it has" if where.size == 1 else "they have"


def _filter(code: str, count: int, words: str) -> Reason:
    if count == 1:
        words = words.replace("are ", "is ", 1).replace("do not", "does not", 1)
        words = words.replace("really use ", "really uses ", 1).replace("their ", "its ")
    return Reason(
        code=code, message=f"{count} node{'s' if count != 1 else ''} {words}", numbers={"nodes": count}
    )


_NOWHERE: Final = {
    "nodes-not-matching": ("no-node-matches", "change the selector or affinity, or label nodes"),
    "nodes-tainted": ("no-node-tolerated", "add a toleration, or take the taint off"),
    "nodes-of-other-groups": (
        "no-node-in-group",
        "change what the queue says of groups, or the nodes' label",
    ),
    "nodes-closed": ("no-node-open", "wait for the hours of the zone"),
    "nodes-revocable": ("no-node-revocable", "say that the pods are volcano.sh/preemptable, or add nodes"),
    "nodes-loaded": ("no-node-unloaded", "wait until they have less to do, or raise the thresholds of usage"),
    "nodes-not-reaching": (
        "no-node-reaches",
        "look from where its claims can be reached (volumes, devices), and what their class allows",
    ),
    "nodes-not-aligning": (
        "no-node-aligns",
        "ask for the policy that nodes have, or look what is told of them (kubectl get numatopo)",
    ),
    "nodes-unanswered": ("no-node-answered", "wait for the extender, or look why it does not answer"),
    "nodes-refused": ("no-node-accepted", "ask who runs the cluster what the plugin lets pass"),
    "nodes-not-ready": ("no-node-ready", "look at the nodes"),
    "nodes-over-committed": ("no-node-ready", "look at the nodes"),
}


def _nowhere(main: Reason, nodes: int) -> Reason:
    """The rule that refuses most nodes, as the reason why none is left."""
    code, step = _NOWHERE[main.code]
    count, _, words = main.message.split(" ", 2)
    return Reason(
        code=code,
        message=f"no node can take it: of {nodes} nodes, {count} {words}",
        numbers={**main.numbers, "all": nodes},
        next_step=step,
    )


def _taints(model: Model, shape: Shape, slots: SlotArray) -> str:
    """Name the taints that are not tolerated, the most frequent first."""
    nodes = model.nodes
    counts: Counter[str] = Counter()
    for code, times in Counter(nodes.taint_code[slots].tolist()).items():
        for key, value, effect in nodes.taint_sets[code]:
            if effect != "PreferNoSchedule" and not shape.rules.tolerates((key, value, effect)):
                counts[f"{key}={value}:{effect}" if value else f"{key}:{effect}"] += times
    return ", ".join(name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:3])
