"""Who may be evicted, as a configuration says it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from services.scheduler.core.configuration.found import Configuration
from services.scheduler.core.policy import Eviction, VictimFilter

_RECLAIM: Final[tuple[VictimFilter, ...]] = ("gang", "conformance", "pdb", "cdp")
_PREEMPT: Final[tuple[VictimFilter, ...]] = (*_RECLAIM, "tdm")


def eviction(found: Configuration, base: Eviction) -> Eviction:
    """Whoever is evicted by an action is told by the plugins that vote, tier by tier."""
    return replace(
        base,
        preempt=not {"preempt", "gangpreempt"}.isdisjoint(found.actions),
        reclaim=not {"reclaim", "gangreclaim"}.isdisjoint(found.actions),
        preempt_filters=_victim_filters(found, _PREEMPT, "enablePreemptable", "gangpreempt"),
        reclaim_filters=_victim_filters(found, _RECLAIM, "enableReclaimable", "gangreclaim"),
        undershoot=True,
    )


def _victim_filters(
    found: Configuration, filters: tuple[VictimFilter, ...], switch: str, action: str
) -> tuple[tuple[VictimFilter, ...], ...]:
    """Return the filters of each tier in which one is on; pods of the system are always spared."""
    tiers: dict[str, list[VictimFilter]] = {}
    for name in filters:
        plugin = found.plugin(name, switch)
        if plugin is not None:
            tiers.setdefault(plugin.path.partition(".")[0], []).append(name)
    whole = found.settings.get(action, {}).get("allowWholeBundle", True)
    always: tuple[VictimFilter, ...] = ("conformance",) if whole else ("conformance", "gang")
    order = sorted(tiers, key=lambda path: int(path.removeprefix("tiers[").removesuffix("]")))
    return tuple(tuple(dict.fromkeys((*tiers[path], *always))) for path in order) or (always,)
