"""The words of Volcano's ``rescheduling``: pods leave nodes that really use too much."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from services.scheduler.core.configuration.found import Configuration
from services.scheduler.core.configuration.terms import Argument, Plugin, Stand, Vote
from services.scheduler.core.configuration.values import (
    DURATION,
    INTERVAL,
    MAPPING,
    TEXT,
    Kind,
    number,
    texts,
)
from services.scheduler.core.load import MEAN, Levelling

Bounds = tuple[float, float, float]
Chosen = tuple[Bounds, Bounds, str]
"""What is below, what is above, and the priority class whose pods stay."""

_STRATEGY: Final = "lowNodeUtilization"
_PARAMS: Final = ("thresholds", "targetThresholds", "thresholdPriorityClassName", "nodeFit")
_RESOURCES: Final = ("cpu", "memory", "pods")
_ALL: Final = 100.0
_PERCENT: Final = number(0, _ALL)
_NONE: Final[Chosen] = (_ALL, _ALL, _ALL), (_ALL, _ALL, _ALL), ""
_MEAN: Final = f"{MEAN // timedelta(minutes=1)}m"


def _strategies(value: object) -> Chosen:
    if not isinstance(value, list) or len(value) > 1:
        raise ValueError(f"a list of one strategy, {_STRATEGY}")
    return _strategy(value[0]) if value else _NONE


def _strategy(value: object) -> Chosen:
    given = _mapping("a list of strategies", value, ("name", "params"))
    name = given.get("name")
    if name != _STRATEGY:
        raise ValueError(f"a list of strategies whose name is {_STRATEGY}, and not {name!r}")
    params = _mapping("a list of strategies whose params are a mapping", given.get("params") or {}, _PARAMS)
    if str(params.get("nodeFit", True)).lower() != "true":
        raise ValueError("a list of strategies whose nodeFit is true: nobody leaves without room elsewhere")
    low, high = (_bounds(name, params.get(name) or {}) for name in ("thresholds", "targetThresholds"))
    for resource, least, most in zip(_RESOURCES, low, high, strict=True):
        if least > most:
            words = f"thresholds.{resource} is no more than targetThresholds.{resource} (100 if not named)"
            raise ValueError(f"a list of strategies whose {words}: {least:g} is more than {most:g}")
    return low, high, _class(params.get("thresholdPriorityClassName"))


def _bounds(name: str, value: object) -> Bounds:
    given = _mapping(f"a list of strategies whose {name} are percent", value, _RESOURCES)

    def percent(resource: str) -> float:
        try:
            return float(str(_PERCENT.read(given.get(resource, _ALL))))
        except ValueError as error:
            raise ValueError(f"a list of strategies whose {name}.{resource} is {error}") from None

    return percent("cpu"), percent("memory"), percent("pods")


def _class(value: object) -> str:
    try:
        return "" if value is None else str(TEXT.read(value))
    except ValueError as error:
        words = f"a list of strategies whose thresholdPriorityClassName is {error}"
        raise ValueError(words) from None


def _mapping(wanted: str, value: object, keys: tuple[str, ...]) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{wanted}, each with {', '.join(keys)}")  # noqa: TRY004 - a wrong value like others
    unknown = [str(key) for key in value if key not in keys]
    if unknown:
        raise ValueError(f"{wanted}, with {', '.join(keys)}, and not {', '.join(unknown)}")
    return value


RESCHEDULING: Final = Plugin(
    "rescheduling",
    "with shuffle pods leave nodes that really use too much for nodes that use little (docs/policy/load.md)",
    votes={"enabledVictim": Vote()},
    arguments=(
        Argument("interval", INTERVAL, "5m", "between two rounds"),
        Argument(
            "metricsPeriod",
            DURATION,
            "5m",
            "over which use is measured",
            Stand.LACKING,
            (MEAN,),
            f"figures are means of {_MEAN}, whatever it says",
        ),
        Argument(
            "strategies",
            Kind("list of name and params", _strategies),
            None,
            f"{_STRATEGY}, with thresholds and targetThresholds (cpu, memory, pods: percent, 100 each), "
            "thresholdPriorityClassName (system-cluster-critical), and nodeFit, which has to be true",
        ),
        Argument("queueSelector", texts("names"), None, "of which queues; of all if not named"),
        Argument(
            "labelSelector",
            MAPPING,
            None,
            "of which pods",
            Stand.REFUSED,
            ({},),
            "facts about pods do not tell all their labels",
        ),
    ),
)


def levelling(found: Configuration) -> Levelling | None:
    """Say who leaves which nodes; None: nobody does."""
    plugin = found.plugin("rescheduling", "enabledVictim")
    if plugin is None or "shuffle" not in found.actions:
        return None
    given: Mapping[str, Any] = plugin.arguments
    low, high, spared = given["strategies"] or _NONE
    return Levelling(low, high, given["interval"], queues=given["queueSelector"] or (), spared=spared)


def check(found: Configuration) -> None:
    """Say where the plugin is named and nobody will leave any node."""
    plugin = found.plugin("rescheduling", "enabledVictim")
    if plugin is None:
        return
    given = levelling(found)
    if given is None:
        words = "without the action shuffle"
    elif found.source is None:
        words = "without a part metrics, which says where figures come from,"
    elif min(given.high) >= _ALL:
        words = "without targetThresholds below 100"
    else:
        return
    path = f"{plugin.path}.name"
    found.notes.append(f"{path}: plugin rescheduling taken, but {words} it changes nothing")
