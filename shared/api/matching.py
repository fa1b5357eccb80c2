"""Whether a node's labels and taints suit a pod, as Kubernetes compares them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

Test = Callable[[str | None], bool]
"""Of a label's value, None where the label is absent."""
TaintKey = tuple[str, str, str]
"""key, value, effect"""
UNSCHEDULABLE: Final[TaintKey] = ("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""What a cordoned node is taken to have."""


class Tolerating(Protocol):
    """A toleration. An empty key with Exists tolerates everything; an empty operator is Equal."""

    @property
    def key(self) -> str:
        """The taint's key."""
        ...

    @property
    def operator(self) -> str:
        """Exists, Equal, Gt or Lt."""
        ...

    @property
    def value(self) -> str:
        """What the taint's value is compared with."""
        ...

    @property
    def effect(self) -> str:
        """The taint's effect; empty: any."""
        ...


def tolerated(taint: TaintKey, tolerations: Iterable[Tolerating]) -> bool:
    """Whether some toleration is of this taint."""
    key, value, effect = taint
    return any(
        toleration.effect in ("", effect)
        and (toleration.key == key or (not toleration.key and toleration.operator == "Exists"))
        and _accepts(toleration, value)
        for toleration in tolerations
    )


def _accepts(toleration: Tolerating, value: str) -> bool:
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == value
        case "Gt" | "Lt" as operator:
            return comparison(operator, (toleration.value,))(value)
        case _:
            return False


def requirement(operator: str, values: Sequence[str]) -> Test:
    """Return a selector's expression as a test of a label's value, None where the label is absent.

    An operator that Kubernetes does not have matches nothing.
    """
    among = frozenset(values)
    match operator:
        case "In":
            return lambda held: held in among
        case "NotIn":
            return lambda held: held not in among
        case "Exists":
            return lambda held: held is not None
        case "DoesNotExist":
            return lambda held: held is None
        case "Gt" | "Lt":
            return comparison(operator, values)
        case _:
            return lambda _: False


def comparison(operator: str, values: Sequence[str]) -> Test:
    """``Gt`` and ``Lt`` compare whole numbers; anything else matches nothing, as in Kubernetes."""
    bound = _whole(values[0]) if len(values) == 1 else None

    def test(held: str | None) -> bool:
        number = None if held is None else _whole(held)
        if number is None or bound is None:
            return False
        return number > bound if operator == "Gt" else number < bound

    return test


def _whole(text: str) -> int | None:
    body = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if body.isascii() and body.isdigit() else None
