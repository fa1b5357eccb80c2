"""What most built-in kinds have in common: a status that is written apart."""

from __future__ import annotations

from typing import Any, Final

from simulator.core.kinds import Strategy

JSON = dict[str, Any]


def keep_status(new: JSON, old: JSON) -> None:
    """Ignore the status in an update of the main resource."""
    new.pop("status", None)
    if "status" in old:
        new["status"] = old["status"]


def only_status(new: JSON, old: JSON) -> None:
    """Take only the status (and labels and annotations) from an update of the subresource."""
    for name in [name for name in new if name not in ("kind", "apiVersion", "metadata", "status")]:
        del new[name]
    new.update({k: v for k, v in old.items() if k not in ("kind", "apiVersion", "metadata", "status")})


def first_generation(obj: JSON) -> None:
    """Begin with generation 1 and an empty status."""
    obj["metadata"]["generation"] = 1
    obj["status"] = {}


PLAIN: Final = Strategy()
