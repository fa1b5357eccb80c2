"""From a configuration to a policy: what each area of choices becomes.

A plugin that is not named is off. What the file cannot say (times of waiting, say) stays as in ``base``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final, Literal

from services.scheduler.core.configuration.asking import VERBS
from services.scheduler.core.configuration.evicting import eviction
from services.scheduler.core.configuration.found import Configuration, Named
from services.scheduler.core.configuration.rescheduling import levelling
from services.scheduler.core.extending import ExtenderScores
from services.scheduler.core.load import LoadLimit, LoadScore
from services.scheduler.core.own import Own, OwnOrder, OwnScores
from services.scheduler.core.policy import (
    Defragmentation,
    Extender,
    FitRule,
    Fragmentation,
    Grouping,
    Policy,
    Proportion,
    Scarce,
    Scores,
    Sharing,
    StrategyFit,
    Window,
    Zones,
)
from services.scheduler.core.votes import OwnShares

_OFF: Final = replace(
    Scores(),
    **{field.name: 0.0 for field in fields(Scores) if field.name.endswith("_weight")},  # type: ignore[arg-type]
)
"""No score counts."""
_NODEORDER: Final = {
    "nodeaffinity": "node_affinity_weight",
    "tainttoleration": "taint_weight",
    "leastrequested": "least_requested_weight",
    "mostrequested": "most_requested_weight",
    "balancedresource": "balanced_weight",
    "podaffinity": "pod_affinity_weight",
    "podtopologyspread": "pod_spread_weight",
    "imagelocality": "image_weight",
}
"""Weights of nodeorder, by the policy's names."""
GangOrder = Literal["priority", "deadline", "share", "lasting"] | OwnOrder


def to_policy(found: Configuration, base: Policy, own: tuple[Own, ...] = ()) -> Policy:
    """Return the policy that a configuration says; ``own`` are the plugins that are not Volcano's."""
    extender = _extender(found)
    return replace(
        base,
        scores=_scores(found, own, extender),
        sharing=_sharing(found, own),
        eviction=eviction(found, base.eviction, own, extender),
        grouping=_grouping(found.plugin("nodegroup")),
        proportions=_proportions(found.plugin("resource-strategy-fit", "enablePredicate")),
        zones=_zones(found),
        defragmentation=_defragmentation(found, base.defragmentation),
        numa=found.plugin("numa-aware", "enablePredicate") is not None,
        load_limit=_load_limit(found),
        levelling=levelling(found),
        own=own,
        extender=extender,
    )


def _extender(found: Configuration) -> Extender | None:
    """Say what is asked; a switch that is off leaves its verb out."""
    given = _arguments(found.plugin("extender"))
    verbs: dict[str, str] = {
        verb: (given[f"extender.{verb}Verb"] or "") if found.plugin("extender", switch) else ""
        for verb, switch in VERBS.items()
    }
    if not any(verbs.values()):
        return None
    return Extender(
        given["extender.urlPrefix"] or "",
        given["extender.httpTimeout"],
        predicate=verbs["predicate"],
        prioritize=verbs["prioritize"],
        preemptable=verbs["preemptable"],
        reclaimable=verbs["reclaimable"],
        ignorable=given["extender.ignorable"],
        managed=given["extender.managedResources"] or (),
    )


def _sharing(found: Configuration, own: tuple[Own, ...]) -> Sharing:
    """Queues are compared by the plugin that divides among them; without one they are not."""
    drf = found.plugin("drf", "enableHierarchy")
    capacity, proportion = found.plugin("capacity"), found.plugin("proportion")
    divider = drf or capacity or proportion
    return Sharing(
        mode="drf" if drf else "capacity" if capacity else "proportion" if proportion else "mixed",
        hierarchy=divider is not None and divider.on("enableHierarchy"),
        queue_order=("priority", "share") if divider is not None and divider.on("enableQueueOrder") else (),
        gang_order=_with_broken(_gang_order(found, own)),
        waiting_limit=_arguments(found.plugin("sla")).get("sla-waiting-time"),
        factors=tuple(OwnShares(one) for one in own if one.says("shares")),
    )


def _gang_order(found: Configuration, own: tuple[Own, ...]) -> tuple[GangOrder, ...]:
    """Gangs are compared by the plugins in the order of the file."""
    by: dict[str, GangOrder] = {"priority": "priority", "sla": "deadline", "drf": "share", "tdm": "lasting"}
    by |= {one.name: OwnOrder(one) for one in own if one.says("order")}
    return tuple(by[name] for name, one in found.plugins.items() if name in by and one.on("enableJobOrder"))


def _with_broken(order: tuple[GangOrder, ...]) -> tuple[GangOrder | Literal["broken"], ...]:
    """Those that run below their minimum come first, of equal priority."""
    at = order.index("priority") + 1 if "priority" in order else 0
    return (*order[:at], "broken", *order[at:])


def _scores(found: Configuration, own: tuple[Own, ...], extender: Extender | None) -> Scores:
    """Only what is named counts."""
    binpack = _arguments(found.plugin("binpack", "enableNodeOrder"))
    order = _arguments(found.plugin("nodeorder", "enableNodeOrder"))
    fit = _arguments(found.plugin("resource-strategy-fit", "enableNodeOrder"))
    tied = _arguments(found.plugin("task-topology", "enableNodeOrder"))
    share = _arguments(found.plugin("deviceshare"))
    liked = [ExtenderScores(extender)] if extender is not None and extender.prioritize else []
    share_counts = found.plugin("deviceshare", "enableNodeOrder") is not None
    weights = {field: order[f"{name}.weight"] for name, field in _NODEORDER.items()} if order else {}
    return replace(
        _OFF,
        **weights,
        binpack_weight=binpack.get("binpack.weight", 0.0),
        resource_weights=_weights(binpack, "binpack") if binpack else (),
        task_topology_weight=tied.get("task-topology.weight", 0.0),
        strategy_fit=_fit(fit) if fit else None,
        scarce=Scarce(*fit["sra"]) if fit and fit["sra"] else None,
        device_policy=share.get("deviceshare.SchedulePolicy") or "",
        device_weight=share["deviceshare.ScheduleWeight"] if share and share_counts else 0.0,
        numa_weight=_arguments(found.plugin("numa-aware", "enableNodeOrder")).get("weight", 0.0),
        fragmentation=_fragmentation(found.plugin("fragmentation")),
        load=_load(found),
        extra=(*(OwnScores(one) for one in own if one.says("scores")), *liked),
    )


def _fit(arguments: Mapping[str, Any]) -> StrategyFit:
    rules = (FitRule(name, most, weight) for name, most, weight in arguments["resources"])
    return StrategyFit(arguments["resourceStrategyFitWeight"], tuple(rules))


def _load(found: Configuration) -> LoadScore | None:
    """Pods are unseen for as long as nobody looks."""
    plugin = found.plugin("usage", "enableNodeOrder")
    if plugin is None:
        return None
    given = _arguments(plugin)
    score = LoadScore(
        given["usage.weight"], given["cpu.weight"], given["memory.weight"], **given["estimator"]
    )
    return score if found.source is None else replace(score, unseen_for=found.source.interval)


def _load_limit(found: Configuration) -> LoadLimit | None:
    plugin = found.plugin("usage", "enablePredicate")
    return None if plugin is None else LoadLimit(*_arguments(plugin)["thresholds"])


def _fragmentation(plugin: Named | None) -> Fragmentation | None:
    if plugin is None:
        return None
    given = _arguments(plugin)
    return Fragmentation(
        given["fragmentation.weight"], given["fragmentation.cpu-weight"], given["fragmentation.enough-cpu"]
    )


def _grouping(plugin: Named | None) -> Grouping | None:
    if plugin is None or not (plugin.on("enablePredicate") or plugin.on("enableNodeOrder")):
        return None
    given = _arguments(plugin)
    return Grouping(
        strict=given["strict"],
        ordered=given["enablePreferredOrder"],
        hierarchy=plugin.on("enableHierarchy"),
        filters=plugin.on("enablePredicate"),
        scores=plugin.on("enableNodeOrder"),
    )


def _proportions(plugin: Named | None) -> tuple[Proportion, ...]:
    return tuple(Proportion(*one) for one in _arguments(plugin).get("proportional") or ())


def _zones(found: Configuration) -> Zones | None:
    plugin = found.plugin("tdm")
    if plugin is None:
        return None
    given = _arguments(plugin)
    windows = (Window(zone, *hours) for zone, hours in sorted(given["tdm.revocable-zone."].items()))
    return Zones(
        tuple(windows),
        given["tdm.evict.period"],
        filters=plugin.on("enablePredicate"),
        scores=plugin.on("enableNodeOrder"),
        evicts="shuffle" in found.actions and plugin.on("enabledVictim"),
    )


def _defragmentation(found: Configuration, base: Defragmentation) -> Defragmentation:
    """Gangs move without being asked where the action is named."""
    base = replace(base, enabled="defragment" in found.actions)
    given: Mapping[str, Any] = found.settings.get("defragment", {})
    if not given:
        return base
    return replace(
        base,
        after=given["after"],
        period=given["period"],
        threshold=given["threshold"],
        most_pods=given["mostPods"],
        rest=given["rest"],
    )


def _weights(arguments: Mapping[str, Any], prefix: str) -> tuple[tuple[str, float], ...]:
    """Return the weights of CPU, memory and each other resource that is listed."""
    given = arguments[f"{prefix}.resources."]
    weights = {"cpu": arguments[f"{prefix}.cpu"], "memory": arguments[f"{prefix}.memory"], "pods": 0.0}
    weights |= {name: given.get(name, 1.0) for name in arguments[f"{prefix}.resources"]}
    return tuple(weights.items())


def _arguments(plugin: Named | None) -> Mapping[str, Any]:
    """Return a plugin's arguments; none when it is off. Their kinds say what they are."""
    return {} if plugin is None else plugin.arguments
