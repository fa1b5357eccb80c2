"""What the short form can mount."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

_TEXT: Final = re.compile(r"(?:(?P<kind>[a-z]+)/)?(?P<name>[^/:]+):(?P<path>/[^:]*)(?::(?P<mode>ro|rw))?")
_KINDS: Final = {"claim": "claim", "pvc": "claim", "configmap": "configMap", "secret": "secret"}


class Mount(BaseModel):
    """One volume of each pod: a claim, a config map or a secret, at a path."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=to_camel,
        use_attribute_docstrings=True,
    )

    path: str = Field(pattern=r"^/[^:]*$")
    """Where in the container."""
    claim: str | None = None
    """Name of a PersistentVolumeClaim."""
    config_map: str | None = None
    """Name of a ConfigMap."""
    secret: str | None = None
    """Name of a Secret."""
    read_only: bool = False
    """Mount read-only."""
    sub_path: str | None = None
    """A path inside the volume."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """Read ``claim:/path``, ``configmap/name:/path:ro`` and the like."""
        if not isinstance(value, str):
            return value
        match = _TEXT.fullmatch(value)
        kind = _KINDS.get((match["kind"] or "claim") if match else "")
        if match is None or kind is None:
            raise ValueError(
                f"{value!r} is no mount: write claim:/path, configmap/name:/path or secret/name:/path, "
                "with :ro for read-only"
            )
        return {kind: match["name"], "path": match["path"], "readOnly": match["mode"] == "ro"}

    @model_validator(mode="after")
    def _one(self) -> Mount:
        if sum(source is not None for source in (self.claim, self.config_map, self.secret)) != 1:
            raise ValueError("a mount needs one of claim, configMap and secret")
        return self

    def volume(self, number: int) -> dict[str, Any]:
        """Return the pod's volume."""
        name = f"mount-{number}"
        if self.claim is not None:
            source: dict[str, Any] = {"claimName": self.claim}
            if self.read_only:
                source["readOnly"] = True
            return {"name": name, "persistentVolumeClaim": source}
        if self.config_map is not None:
            return {"name": name, "configMap": {"name": self.config_map}}
        return {"name": name, "secret": {"secretName": self.secret}}

    def volume_mount(self, number: int) -> dict[str, Any]:
        """Return the container's mount of it."""
        mount: dict[str, Any] = {"name": f"mount-{number}", "mountPath": self.path}
        if self.read_only:
            mount["readOnly"] = True
        if self.sub_path:
            mount["subPath"] = self.sub_path
        return mount
