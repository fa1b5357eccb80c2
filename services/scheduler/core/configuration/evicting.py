"""Who may be evicted, as a configuration says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from services.scheduler.core.configuration.found import Configuration
from services.scheduler.core.extending import NAME, ExtenderVote
from services.scheduler.core.own import Own
from services.scheduler.core.policy import Eviction, Extender, VictimFilter
from services.scheduler.core.votes import OwnVote

_RECLAIM: Final = ("gang", "conformance", "pdb", "cdp")
_PREEMPT: Final = (*_RECLAIM, "tdm")


def eviction(
    found: Configuration, base: Eviction, own: tuple[Own, ...], extender: Extender | None
) -> Eviction:
    """Whoever is evicted by an action is told by the plugins that vote, tier by tier."""
    preempt = _filters(found, _PREEMPT, "enablePreemptable")
    preempt |= {one.name: OwnVote(one, "preemptable") for one in own if one.says("preemptable")}
    reclaim = _filters(found, _RECLAIM, "enableReclaimable")
    reclaim |= {one.name: OwnVote(one, "reclaimable") for one in own if one.says("reclaimable")}
    if extender is not None and extender.preemptable:
        preempt[NAME] = ExtenderVote(extender, "preemptable")
    if extender is not None and extender.reclaimable:
        reclaim[NAME] = ExtenderVote(extender, "reclaimable")
    return replace(
        base,
        preempt=not {"preempt", "gangpreempt"}.isdisjoint(found.actions),
        reclaim=not {"reclaim", "gangreclaim"}.isdisjoint(found.actions),
        preempt_filters=_tiers(found, preempt, "gangpreempt"),
        reclaim_filters=_tiers(found, reclaim, "gangreclaim"),
        undershoot=True,
    )


def _filters(
    found: Configuration,
    filters: tuple[Literal["gang", "conformance", "pdb", "cdp", "tdm"], ...],
    switch: str,
) -> dict[str, VictimFilter]:
    """Return those of Volcano's plugins that are named and whose switch is on."""
    return {name: name for name in filters if found.plugin(name, switch) is not None}


def _tiers(
    found: Configuration, filters: Mapping[str, VictimFilter], action: str
) -> tuple[tuple[VictimFilter, ...], ...]:
    """Return the filters tier by tier; pods of the system are always spared."""
    tiers: dict[str, list[VictimFilter]] = {}
    for name, one in filters.items():
        tiers.setdefault(found.plugins[name].path.partition(".")[0], []).append(one)
    whole = action not in found.actions or found.settings.get(action, {}).get("allowWholeBundle", True)
    always: tuple[VictimFilter, ...] = ("conformance",) if whole else ("conformance", "gang")
    order = sorted(tiers, key=lambda path: int(path.removeprefix("tiers[").removesuffix("]")))
    return tuple(tuple(dict.fromkeys((*tiers[path], *always))) for path in order) or (always,)
