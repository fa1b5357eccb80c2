"""The claims on devices that a pod names: ones that are there, and ones made for it by a template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from services.controller.core.model import JSON


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim of a pod, by the name of the object or of its template."""

    name: str
    """In the pod."""
    claim: str = ""
    template: str = ""


def noted(written: Iterable[JSON]) -> list[JSON]:
    """Return claims, as a pod's spec has them, in the form in which a shape keeps them."""
    named = (
        {
            "name": one.get("name"),
            "claim": one.get("resourceClaimName"),
            "template": one.get("resourceClaimTemplateName"),
        }
        for one in written
    )
    return [{key: str(value) for key, value in one.items() if value} for one in named]


def claims_in(extras: Mapping[str, Any]) -> tuple[PodClaim, ...]:
    """Return the claims that a shape (its ``extras``) names."""
    return tuple(PodClaim(**one) for one in extras.get("resourceClaims") or ())


def claims_of_spec(spec: JSON | None) -> tuple[PodClaim, ...]:
    """Return the claims that a pod's spec names."""
    return tuple(PodClaim(**one) for one in noted((spec or {}).get("resourceClaims") or ()))


def made_claims(pod: JSON) -> dict[str, str]:
    """Return the claims that were made for a pod, by their names in it; empty: it needs none of that name."""
    made = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {one["name"]: one.get("resourceClaimName") or "" for one in made}
