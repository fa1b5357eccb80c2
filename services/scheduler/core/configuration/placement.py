"""Volcano's plugins for where: which nodes pods may run on, and which are better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from services.scheduler.core.configuration.found import Configuration
from services.scheduler.core.configuration.measuring import ESTIMATOR, THRESHOLDS
from services.scheduler.core.configuration.terms import Argument, Plugin, Stand, Vote, flag
from services.scheduler.core.configuration.values import (
    LISTING,
    NAMES,
    PROPORTIONS,
    SCARCITY,
    STRATEGIES,
    TEXT,
    WEIGHT,
    choice,
    number,
)

_LATER: Final = "not done yet"
_NEAREST: Final = "no scores: the lowest tier wins, in it the hypernode with the least room left"
_ALWAYS: Final = Vote(Stand.ALWAYS)


def _test(name: str, says: str) -> Argument:
    return flag(f"predicate.{name}Enable", says, default=True, stand=Stand.ALWAYS, harmless=(True,))


def _weight(name: str, default: float, says: str) -> Argument:
    return Argument(f"{name}.weight", WEIGHT, default, says)


def _kind_of_part(name: str, says: str) -> Argument:
    return flag(
        f"deviceshare.{name}Enable",
        says,
        default=False,
        stand=Stand.NEEDLESS,
        why="what a pod asks for and a node offers says which it is",
    )


def _ascend(name: str, says: str) -> Argument:
    return flag(
        f"deviceshare.{name}Enable",
        says,
        default=False,
        stand=Stand.REFUSED,
        harmless=(False,),
        why="parts of NPUs are not placed yet",
    )


def _geometries(name: str, default: str) -> Argument:
    return Argument(
        f"deviceshare.KnownGeometriesCM{name}",
        TEXT,
        default,
        "where the geometries of MIG are",
        Stand.NEEDLESS,
        why="GPUs in MIG mode get no pods",
    )


PLUGINS: Final = (
    Plugin(
        "predicates",
        "whether a node takes a pod at all",
        Stand.ALWAYS,
        votes={"enablePredicate": _ALWAYS},
        arguments=(
            _test("NodeAffinity", "node selectors and required node affinity"),
            _test("TaintToleration", "taints against tolerations"),
            _test("NodePorts", "host ports"),
            _test("PodAffinity", "required affinity and anti-affinity between pods"),
            _test("PodTopologySpread", "spread constraints that must hold"),
            _test("NodeVolumeLimits", "volumes per node"),
            _test("VolumeZone", "zones of volumes"),
            _test("VolumeBinding", "claims: nodes that their volumes are reached from, or are made for"),
            flag(
                "predicate.DynamicResourceAllocationEnable",
                "claims on devices",
                default=True,
                stand=Stand.ALWAYS,
                harmless=(True,),
            ),
            flag("predicate.CacheEnable", "keep answers", default=False, stand=Stand.NEEDLESS),
        ),
    ),
    Plugin(
        "binpack",
        "fuller nodes first",
        votes={"enableNodeOrder": Vote()},
        arguments=(
            Argument("binpack.weight", WEIGHT, 1.0, "of the whole score"),
            Argument("binpack.cpu", WEIGHT, 1.0, "of CPU in it"),
            Argument("binpack.memory", WEIGHT, 1.0, "of memory in it"),
            Argument("binpack.resources", NAMES, "", "more resources that count"),
            Argument("binpack.resources.", WEIGHT, None, "weight of one of them, 1 if not named"),
        ),
    ),
    Plugin(
        "nodeorder",
        "Kubernetes' own scores",
        votes={"enableNodeOrder": Vote()},
        arguments=(
            _weight("nodeaffinity", 2.0, "preferred node affinity"),
            _weight("tainttoleration", 3.0, "fewer PreferNoSchedule taints"),
            _weight("leastrequested", 1.0, "emptier nodes"),
            _weight("mostrequested", 0.0, "fuller nodes"),
            _weight("balancedresource", 1.0, "CPU, memory and GPUs used alike"),
            _weight("podaffinity", 2.0, "preferred affinity between pods"),
            _weight("podtopologyspread", 2.0, "spread constraints that need not hold"),
            _weight("imagelocality", 1.0, "nodes that have large images of the pod already"),
        ),
    ),
    Plugin(
        "resource-strategy-fit",
        "each resource packed or spread as chosen",
        votes={"enableNodeOrder": Vote(), "enablePredicate": Vote()},
        arguments=(
            Argument("resourceStrategyFitWeight", WEIGHT, 10.0, "of the whole score"),
            Argument(
                "resources",
                STRATEGIES,
                {"cpu": {}, "memory": {}},
                "LeastAllocated or MostAllocated, and weight (1), by resource; a name may end in *",
            ),
            Argument("sra", SCARCITY, None, "nodes without scarce resources before those that have them"),
            Argument(
                "proportional",
                PROPORTIONS,
                None,
                "cores and GB that pods without a scarce resource leave free beside each idle one (1 and 1)",
            ),
        ),
    ),
    Plugin(
        "fragmentation",
        "pods that take parts of GPUs go where typical pods lose the least (Pumice's own, not Volcano's)",
        arguments=(
            Argument("fragmentation.weight", WEIGHT, 16.0, "times 100 points for each GPU that stays usable"),
            Argument(
                "fragmentation.cpu-weight", WEIGHT, 3.2, "times 100 points for a core beside a free GPU"
            ),
            Argument("fragmentation.enough-cpu", WEIGHT, 16.0, "cores beside a free GPU; more is not better"),
        ),
    ),
    Plugin(
        "task-topology",
        "tasks of a job near to each other, or apart, as its annotations say",
        votes={"enableNodeOrder": Vote(), "enableTaskOrder": _ALWAYS},
        arguments=(Argument("task-topology.weight", WEIGHT, 1.0, "of the score"),),
    ),
    Plugin(
        "numa-aware",
        "CPUs by NUMA node, as kubelets give them out (docs/policy/numa.md)",
        votes={"enablePredicate": Vote(), "enableNodeOrder": Vote()},
        arguments=(Argument("weight", WEIGHT, 1.0, "of the score"),),
    ),
    Plugin(
        "network-topology-aware",
        "gangs inside one hypernode, as they ask",
        Stand.ALWAYS,
        "the lowest tier that holds the gang, in it the hypernode with the least room left",
        votes={
            "enableNodeOrder": _ALWAYS,
            "enabledHyperNodeOrder": _ALWAYS,
            "enabledHyperNodeGradient": _ALWAYS,
        },
        arguments=(
            Argument("weight", WEIGHT, 1.0, "of the score", Stand.NEEDLESS, why=_NEAREST),
            Argument("hypernode.binpack.cpu", WEIGHT, 1.0, "of CPU", Stand.NEEDLESS, why=_NEAREST),
            Argument("hypernode.binpack.memory", WEIGHT, 1.0, "of memory", Stand.NEEDLESS, why=_NEAREST),
            Argument(
                "hypernode.binpack.resources", NAMES, "", "more that count", Stand.NEEDLESS, why=_NEAREST
            ),
            Argument(
                "hypernode.binpack.resources.", WEIGHT, None, "of one of them", Stand.NEEDLESS, why=_NEAREST
            ),
            flag(
                "hypernode.binpack.normal-pod.enable",
                "fill hypernodes with pods that ask for none, too",
                default=True,
                stand=Stand.LACKING,
                harmless=(False,),
                why="pods that ask for no hypernode are placed by the scores of nodes",
            ),
            Argument(
                "hypernode.binpack.normal-pod.fading",
                number(0),
                0.8,
                "less with each tier",
                Stand.NEEDLESS,
                why=_NEAREST,
            ),
            Argument(
                "hypernode.gradient.evict.max-hypernodes",
                number(1),
                8.0,
                "hypernodes that are tried with evictions",
                Stand.NEEDLESS,
                why="all are",
            ),
        ),
    ),
    Plugin(
        "deviceshare",
        "parts of GPUs, and which GPUs (docs/policy/gpus.md); without it, too, but by the other scores alone",
        votes={"enableNodeOrder": Vote(), "enablePredicate": _ALWAYS},
        arguments=(
            _kind_of_part("GPUSharing", "GPU memory"),
            _kind_of_part("GPUNumber", "whole GPUs by number"),
            _kind_of_part("VGPU", "virtual GPUs"),
            flag(
                "deviceshare.NodeLockEnable",
                "one pod at a time on a node",
                default=False,
                stand=Stand.LACKING,
                harmless=(False,),
                why="a gang is bound at once, and nodes are not locked: pods that come to a node at the same "
                "moment, and ask for as many GPUs but other parts of them, may be mixed up by the plugin",
            ),
            _ascend("AscendMindClusterVNPU", "Ascend vNPU"),
            _ascend("AscendHAMiVNPU", "Ascend vNPU by HAMi"),
            Argument(
                "deviceshare.SchedulePolicy",
                choice("binpack", "spread"),
                None,
                "whether a part is taken of the GPU that it fills best, or of the one with the fewest parts "
                "taken",
            ),
            Argument("deviceshare.ScheduleWeight", WEIGHT, 0.0, "of the same for nodes"),
            _geometries("Name", "volcano-vgpu-device-config"),
            _geometries("Namespace", "kube-system"),
            Argument(
                "deviceshare.GPUExclusiveRules",
                LISTING,
                None,
                "labels of pods that share no GPU with each other",
                Stand.REFUSED,
                (),
                _LATER,
            ),
        ),
    ),
    Plugin(
        "usage",
        "nodes that really use less first, and none that use too much (docs/policy/load.md)",
        votes={"enableNodeOrder": Vote(), "enablePredicate": Vote()},
        arguments=(
            _weight("usage", 5.0, "of the score"),
            _weight("cpu", 1.0, "of CPU in it"),
            _weight("memory", 1.0, "of memory in it"),
            Argument(
                "thresholds",
                THRESHOLDS,
                {"cpu": 80, "mem": 80},
                "percent above which a node takes no pod (80 each)",
            ),
            Argument("estimator", ESTIMATOR, {}, "what pods will use that have just come"),
        ),
    ),
    Plugin(
        "nodegroup",
        "queues on groups of nodes, as their affinity says",
        votes={"enableNodeOrder": Vote(), "enablePredicate": Vote(), "enableHierarchy": Vote()},
        arguments=(
            flag("strict", "a queue without affinity gets no node, else those of no group", default=True),
            flag("enablePreferredOrder", "of preferred groups the first count the most", default=False),
        ),
    ),
)
"""In the order in which they are told."""


def check(found: Configuration) -> None:
    """Say which resources have a weight in binpack and are not among those that count."""
    plugin = found.plugin("binpack")
    if plugin is None:
        return
    arguments: Mapping[str, Any] = plugin.arguments
    for name in arguments["binpack.resources."]:
        if name not in arguments["binpack.resources"]:
            path = f"{plugin.path}.arguments.binpack.resources.{name}"
            found.notes.append(f"{path}: taken, but binpack.resources does not list it: it changes nothing")
