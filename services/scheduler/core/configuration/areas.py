"""From a configuration to a policy: what each area of choices becomes.

A plugin that is not named is off. What the file cannot say (times of waiting, say) stays as in ``base``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from services.scheduler.core.configuration.found import Configuration, Named
from services.scheduler.core.own import Own, OwnOrder, OwnScores
from services.scheduler.core.policy import Policy, Scores, Sharing

GangOrder = Literal["priority", "deadline", "share"] | OwnOrder


def to_policy(found: Configuration, base: Policy, own: tuple[Own, ...] = ()) -> Policy:
    """Return the policy that a configuration says; ``own`` are the plugins that are not Volcano's."""
    scores = replace(
        _scores(found, base.scores), extra=tuple(OwnScores(one) for one in own if one.says("scores"))
    )
    return replace(base, scores=scores, sharing=_sharing(found, own), own=own)


def _sharing(found: Configuration, own: tuple[Own, ...]) -> Sharing:
    """Queues are compared by the plugin that divides among them; without one they are not."""
    drf = found.plugin("drf", "enableHierarchy")
    capacity, proportion = found.plugin("capacity"), found.plugin("proportion")
    divider = drf or capacity or proportion
    return Sharing(
        mode="drf" if drf else "capacity" if capacity else "proportion" if proportion else "mixed",
        hierarchy=divider is not None and divider.on("enableHierarchy"),
        queue_order=("priority", "share") if divider is not None and divider.on("enableQueueOrder") else (),
        gang_order=("broken", *_gang_order(found, own)),
        waiting_limit=_arguments(found.plugin("sla")).get("sla-waiting-time"),
    )


def _gang_order(found: Configuration, own: tuple[Own, ...]) -> tuple[GangOrder, ...]:
    """Gangs are compared by the plugins in the order of the file."""
    by: dict[str, GangOrder] = {"priority": "priority", "sla": "deadline", "drf": "share"}
    by |= {one.name: OwnOrder(one) for one in own if one.says("order")}
    return tuple(by[name] for name, one in found.plugins.items() if name in by and one.on("enableJobOrder"))


def _scores(found: Configuration, base: Scores) -> Scores:
    binpack = found.plugin("binpack", "enableNodeOrder")
    order = _arguments(found.plugin("nodeorder", "enableNodeOrder"))
    scores = replace(
        base,
        node_affinity_weight=order.get("nodeaffinity.weight", 0.0),
        taint_weight=order.get("tainttoleration.weight", 0.0),
    )
    if binpack is None:
        return replace(scores, binpack_weight=0.0)
    return replace(
        scores,
        binpack_weight=_arguments(binpack)["binpack.weight"],
        resource_weights=_weights(_arguments(binpack), "binpack"),
        extended_weight=0.0,
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
