"""Metadata that every object has, and label selectors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from shared.api.base import JSON, REQUIRED, Count, Int64, KubeModel, StringMap, Time

ATOMIC: Final = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})
"""Server-side apply takes such an object as one value."""


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 time, as Kubernetes writes it, in UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment.astimezone(UTC)


def format_time(moment: datetime, *, micro: bool = False) -> str:
    """Write a time as ``metav1.Time`` (whole seconds) or, with ``micro``, as ``metav1.MicroTime``.

    ``isoformat`` takes a fifth of ``strftime``'s time.
    """
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return utc.isoformat(timespec="microseconds" if micro else "seconds") + "Z"


def controller_of(raw: JSON) -> JSON | None:
    """Return the owner reference of what manages an object; the API server lets at most one do so."""
    return next((one for one in raw["metadata"].get("ownerReferences") or () if one.get("controller")), None)


class OwnerReference(KubeModel):
    """What owns an object, and takes it along when it goes."""

    model_config = ATOMIC

    api_version: Annotated[str, REQUIRED] = ""
    """API version of the owner."""
    kind: Annotated[str, REQUIRED] = ""
    """Kind of the owner."""
    name: Annotated[str, REQUIRED] = ""
    """Name of the owner."""
    uid: Annotated[str, REQUIRED] = ""
    """UID of the owner."""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(KubeModel):
    """Name, identity and labels of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: StringMap = Field(default_factory=dict[str, str])
    annotations: StringMap = Field(default_factory=dict[str, str])
    owner_references: list[OwnerReference] = Field(default_factory=list[OwnerReference])
    finalizers: list[str] = Field(default_factory=list[str])

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class KubeObject(KubeModel):
    """An object with a kind and metadata."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone for what has no namespace."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class LabelSelectorRequirement(KubeModel):
    """One expression: In, NotIn, Exists or DoesNotExist."""

    key: Annotated[str, REQUIRED] = ""
    operator: Annotated[str, REQUIRED] = ""
    values: list[str] = Field(default_factory=list[str])


class LabelSelector(KubeModel):
    """All of its labels and expressions must match; an empty one matches everything."""

    model_config = ATOMIC

    match_labels: StringMap = Field(default_factory=dict[str, str])
    match_expressions: list[LabelSelectorRequirement] = Field(default_factory=list[LabelSelectorRequirement])


class Condition(KubeModel):
    """A condition of a status; ``status`` is True, False or Unknown."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None
    observed_generation: Count | None = None
