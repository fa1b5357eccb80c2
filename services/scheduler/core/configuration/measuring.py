"""Where figures of what nodes really use come from (the part ``metrics``), and values of ``usage``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from services.scheduler.core.configuration.terms import Argument, Stand, flag
from services.scheduler.core.configuration.values import DURATION, TEXT, Kind, choice, number, url
from shared.api.quantity import Quantity

_ELSEWHERE: Final = "only elasticsearch has it"
_ESTIMATES: Final = ("request_ratio", "burst_ratio", "risk_threshold", "risk_factor", "be_cpu", "be_mem")
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """A Prometheus server, and how often it is asked."""

    address: str
    interval: timedelta = timedelta(seconds=30)
    verify: bool = True
    """Whether its certificate must be a good one."""


def _mapping(value: object, keys: tuple[str, ...]) -> Mapping[str, object]:
    if not isinstance(value, dict) or set(value) - set(keys):
        raise ValueError(f"a mapping of {', '.join(keys)}")
    return value


def _number(given: Mapping[str, object], key: str, default: float, low: float, high: float | None) -> float:
    try:
        return float(str(number(low, high).read(given.get(key, default))))
    except ValueError as error:
        raise ValueError(f"a mapping whose {key} is {error}") from None


def _thresholds(value: object) -> tuple[float, float]:
    given = _mapping(value, ("cpu", "mem"))
    return _number(given, "cpu", 80.0, 0, 100), _number(given, "mem", 80.0, 0, 100)


def _estimator(value: object) -> dict[str, float]:
    given = _mapping(value, _ESTIMATES)
    if _number(given, "burst_ratio", 0.0, 0, 1):
        raise ValueError("a mapping whose burst_ratio is 0 (facts about pods do not tell their limits)")
    return {
        "request_ratio": _number(given, "request_ratio", 0.7, 0, 1),
        "risk_threshold": _number(given, "risk_threshold", 0.6, 0, 1),
        "risk_factor": _number(given, "risk_factor", 1.2, 1, None),
        "unasked_cpu": _amount(given, "be_cpu", 250, 1),
        "unasked_memory": _amount(given, "be_mem", 200, 1000 * _MIB) / 1000,
    }


def _amount(given: Mapping[str, object], key: str, default: int, unit: int) -> float:
    """Return thousandths: of a quantity, or of so many units of so many thousandths each."""
    value = given.get(key, default)
    try:
        plain = isinstance(value, int) and not isinstance(value, bool)
        found = int(str(value)) * unit if plain else Quantity.parse(str(value)).milli_value()
    except ValueError:
        found = -1
    if found < 0:
        raise ValueError(f"a mapping whose {key} is a quantity of 0 or more")
    return found


def _interval(value: object) -> timedelta:
    found = DURATION.read(value)
    if not isinstance(found, timedelta) or found < timedelta(seconds=1):
        raise ValueError("a time of a second or more")
    return found


THRESHOLDS: Final = Kind("cpu, mem", _thresholds)
"""Read as percent of CPU and of memory."""
ESTIMATOR: Final = Kind(", ".join(_ESTIMATES), _estimator)
"""Read as fields of ``LoadScore``."""

METRICS: Final = (
    Argument(
        "type",
        choice("prometheus", "prometheus_adaptor", "elasticsearch"),
        "prometheus",
        "what is asked",
        Stand.REFUSED,
        ("prometheus",),
        "only Prometheus itself is asked",
    ),
    Argument("address", url("URL", "a URL such as http://prometheus:9090"), None, "where it is"),
    Argument("interval", Kind("time", _interval), "30s", "how often it is asked"),
    flag("tls.insecureSkipVerify", "take any certificate", default=False),
    *(
        Argument(f"elasticsearch.{name}", TEXT, None, says, Stand.NEEDLESS, why=_ELSEWHERE)
        for name, says in (
            ("index", "of the figures"),
            ("username", "who asks"),
            ("password", "of who asks"),
            ("hostnameFieldName", "field with the node's name"),
        )
    ),
)
"""What the part ``metrics`` may name; parts with dots may be written as mappings, too."""


def flat(section: Mapping[object, object]) -> dict[str, object]:
    """Return a part with its mappings unfolded: ``tls: {a: 1}`` is ``tls.a: 1``."""
    found: dict[str, object] = {}
    for key, value in section.items():
        if isinstance(value, dict):
            found |= {f"{key}.{name}": one for name, one in value.items()}
        else:
            found[str(key)] = value
    return found
