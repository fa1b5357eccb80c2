"""Whether a decision keeps to what its gang asks about nearness and groups; slow, and obviously right."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from shared.events import contracts as c


def check_near(
    gang: c.Gang,
    decided: Collection[str],
    places: Mapping[str, str],
    hypernodes: Mapping[str, c.HyperNodeState],
    nodes: Collection[str],
) -> None:
    """Check a gang whose members are at ``places``, with those of them that are just ``decided``."""
    known = {pod: node for pod, node in places.items() if node in nodes}
    if gang.topology is not None:
        assert is_near(gang.topology, set(known.values()), hypernodes, nodes), (gang.name, known)
    groups: dict[str, list[str]] = {}
    for task in gang.tasks:
        for member in task.members:
            groups.setdefault(member.group, []).append(member.pod)
    for kind in gang.sub_groups:
        own = {name: pods for name, pods in groups.items() if name.startswith(f"{kind.name}/")}
        begun = [name for name, pods in own.items() if any(pod in places for pod in pods)]
        assert len(begun) >= kind.minimum, (gang.name, kind.name, begun)
        for pods in own.values():
            if not set(pods) & set(decided):
                continue
            there = [pod for pod in pods if pod in places]
            assert len(there) >= min(kind.size, len(pods)), (gang.name, kind.name, there)
            if kind.topology is not None:
                held = {known[pod] for pod in there if pod in known}
                assert is_near(kind.topology, held, hypernodes, nodes), (gang.name, held)


def is_near(
    asked: c.NetworkTopology,
    used: Collection[str],
    hypernodes: Mapping[str, c.HyperNodeState],
    nodes: Collection[str],
) -> bool:
    """Say whether some hypernode that is allowed holds all nodes that are used."""
    if asked.mode == "soft":
        return True
    held = {name: nodes_of(name, hypernodes) & set(nodes) for name in hypernodes}
    tiers = {name: int(hypernodes[name].spec["tier"]) for name in hypernodes if held[name]}
    highest = asked.highest_tier
    if asked.highest_tier_name:
        named = [
            tiers[name] for name in tiers if hypernodes[name].spec["tierName"] == asked.highest_tier_name
        ]
        highest = max(named, default=-1)
    elif highest is None or highest > max(tiers.values(), default=0):
        return True
    return any(tiers[name] <= highest and set(used) <= held[name] for name in tiers)


def nodes_of(name: str, hypernodes: Mapping[str, c.HyperNodeState]) -> set[str]:
    """Return the nodes of a hypernode, by exact names, at any depth; none of those in a circle."""

    def below(at: str, path: tuple[str, ...]) -> set[str]:
        if at in path:
            raise _CircleError
        found: set[str] = set()
        spec = hypernodes[at].spec if at in hypernodes else {"members": []}
        for member in spec["members"]:
            one = member["selector"]["exactMatch"]["name"]
            found |= below(one, (*path, at)) if member["type"] == "HyperNode" else {one}
        return found

    try:
        return below(name, ())
    except _CircleError:
        return set()


class _CircleError(Exception):
    pass
