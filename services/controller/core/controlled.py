"""What the status says was made for a job: ``controlledResources``, with Volcano's keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from services.controller.core.claims import claims
from services.controller.core.dependents import NEEDED
from services.controller.core.model import Wanted
from services.controller.core.plugins import hcclrank
from services.controller.core.status import Status

_PLUGIN: Final = "plugin-"
_CLAIM: Final = "volume-pvc-"


def recorded(wanted: Wanted, status: Status) -> Status:
    """Return the status with what the job has in its phase: claims stay, plugins' objects go at the end."""
    found = {f"{_CLAIM}{name}": name for name in claims(wanted)}
    if status.phase in NEEDED:
        # hcclrank makes nothing, and Volcano does not record it.
        plugins = [name for name in wanted.spec.get("plugins") or {} if name != hcclrank.NAME]
        found |= {f"{_PLUGIN}{name}": name for name in plugins}
    controlled = {**unrelated(status.controlled), **found}
    return status if controlled == status.controlled else replace(status, controlled=controlled)


def unrelated(controlled: Mapping[str, str]) -> dict[str, str]:
    """Return the entries that are not about plugins and claims."""
    return {key: value for key, value in controlled.items() if not key.startswith((_PLUGIN, _CLAIM))}
