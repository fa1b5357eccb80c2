"""Sharing a topic's partitions between the members of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.log.port import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def assign(
    members: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> dict[str, frozenset[TopicPartition]]:
    """Give each member its partitions, as Kafka's range assignor does.

    ``members`` maps a member's id to its topics, ``partitions`` a topic to its partition count. Range
    and not round robin, because partitions of one number of equally divided topics then go to one
    member: what is keyed alike is handled in one place.
    """
    owned: dict[str, set[TopicPartition]] = {member: set() for member in members}
    for topic, count in sorted(partitions.items()):
        takers = sorted(member for member, topics in members.items() if topic in topics)
        if not takers:
            continue
        each, extra = divmod(count, len(takers))
        first = 0
        for turn, member in enumerate(takers):
            size = each + (turn < extra)
            owned[member].update(TopicPartition(topic, number) for number in range(first, first + size))
            first += size
    return {member: frozenset(owned[member]) for member in members}
