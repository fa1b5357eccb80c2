"""What namespaces let their pods ask for: which changes of it concern gangs that wait."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from services.controller.core.model import JSON
from shared.api.podspec import resource_list
from shared.api.quantity import QuantityError


class Change(IntEnum):
    """What a change of a LimitRange or ResourceQuota may change for pods that are to be made."""

    NOTHING = 0
    FREED = 1
    """Less of a quota is used: what it refused may pass."""
    RULES = 2
    """Defaults or bounds are others: pods may come out otherwise."""


def judge(old: JSON | None, new: JSON | None) -> Change:
    """Say what a change of one of them means; ``None``: it was not, or is no more."""
    if old is None or new is None or old.get("spec") != new.get("spec"):
        return Change.RULES
    before, after = _used(old), _used(new)
    fell = any(after.get(name, 0) < amount for name, amount in before.items())
    return Change.FREED if fell else Change.NOTHING


def _used(quota: JSON) -> Mapping[str, int]:
    try:
        return resource_list((quota.get("status") or {}).get("used") or {})
    except QuantityError:
        return {}
