"""What a pod's claims come to, on volumes and on devices, and the shape that it has with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from services.controller.core.deviceclaims import NOTHING, Claimed
from shared.events.contracts import Shape, Volumes


@dataclass(frozen=True, slots=True)
class Claims:
    """What all claims of a pod come to."""

    volumes: Volumes | None = None
    devices: Claimed = NOTHING


NONE: Final = Claims()
ClaimsOf = Callable[[str, Mapping[str, Any]], Claims]
"""What the claims of a namespace come to that a shape (its ``extras``) names."""


def no_claims(_namespace: str, _extras: Mapping[str, Any]) -> Claims:
    """Say nothing of claims."""
    return NONE


def completed(shape: Shape, labels: Mapping[str, str], claims: Claims = NONE) -> Shape:
    """Return a shape with what it does not say by itself: labels that count, and what its claims come to."""
    volumes = _with_devices(claims.volumes, claims.devices)
    if not labels and volumes is None and not claims.devices.amounts:
        return shape
    requests = shape.requests
    if claims.devices.amounts:
        requests = dict(sorted({**requests, **dict(claims.devices.amounts)}.items()))
    return shape.model_copy(update={"labels": dict(labels), "volumes": volumes, "requests": requests})


def _with_devices(volumes: Volumes | None, devices: Claimed) -> Volumes | None:
    if not (devices.waits_for or devices.reach):
        return volumes
    before = volumes or Volumes()
    return before.model_copy(
        update={
            "waits_for": before.waits_for or devices.waits_for,
            "reach": (*before.reach, *devices.reach),
        }
    )
