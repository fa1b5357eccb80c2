"""What the short form can mount."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from shared.api.quantity import Quantity, QuantityError

_TEXT: Final = re.compile(r"(?:(?P<kind>[a-z]+)/)?(?P<name>[^/:]+):(?P<path>/[^:]*)(?::(?P<mode>ro|rw))?")
_HOST: Final = re.compile(r"host:(?P<source>/[^:]*):(?P<path>/[^:]*)(?::(?P<mode>ro|rw))?")
_KINDS: Final = {
    "claim": "claim",
    "pvc": "claim",
    "configmap": "configMap",
    "secret": "secret",
    "new": "size",
}


class Mount(BaseModel):
    """One volume of each pod, at a path: a claim, one to be made, a config map, a secret, a host's path."""

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
    host_path: str | None = Field(default=None, pattern=r"^/[^:]*$")
    """A path of the node; only where the administrator allows it."""
    size: str | None = None
    """Size of a claim to be made for the job, which goes with it, e.g. ``100Gi``."""
    storage_class: str | None = None
    """Storage class of a claim to be made; the cluster's default when absent."""
    access_mode: str | None = None
    """Of a claim to be made; ``ReadWriteMany`` for several pods, else ``ReadWriteOnce`` when absent."""
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
        if host := _HOST.fullmatch(value):
            return {"hostPath": host["source"], "path": host["path"], "readOnly": host["mode"] == "ro"}
        match = _TEXT.fullmatch(value)
        kind = _KINDS.get((match["kind"] or "claim") if match else "")
        if match is None or kind is None:
            raise ValueError(
                f"{value!r} is no mount: write claim:/path, new/100Gi:/path, configmap/name:/path, "
                "secret/name:/path or host:/from:/path, with :ro for read-only"
            )
        return {kind: match["name"], "path": match["path"], "readOnly": match["mode"] == "ro"}

    @model_validator(mode="after")
    def _one(self) -> Mount:
        sources = (self.claim, self.config_map, self.secret, self.host_path, self.size)
        if sum(source is not None for source in sources) != 1:
            raise ValueError("a mount needs one of claim, configMap, secret, hostPath and size")
        if self.size is None and (self.storage_class or self.access_mode):
            raise ValueError("storageClass and accessMode are for a claim to be made, with a size")
        if self.size is not None:
            self._check_size(self.size)
        return self

    def _check_size(self, size: str) -> None:
        if self.read_only or self.sub_path:
            raise ValueError("a claim to be made is mounted as a whole, to be written to")
        try:
            positive = Quantity.parse(size) > Quantity(0)
        except QuantityError as error:
            raise ValueError(str(error)) from error
        if not positive:
            raise ValueError(f"{size} is no size")

    def claim_to_make(self, *, shared: bool) -> dict[str, Any]:
        """Return the job's volume with the claim that is made for it; ``shared``: by several pods."""
        claim: dict[str, Any] = {
            "accessModes": [self.access_mode or ("ReadWriteMany" if shared else "ReadWriteOnce")],
            "resources": {"requests": {"storage": self.size}},
        }
        if self.storage_class:
            claim["storageClassName"] = self.storage_class
        return {"mountPath": self.path, "volumeClaim": claim}

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
        if self.host_path is not None:
            return {"name": name, "hostPath": {"path": self.host_path}}
        return {"name": name, "secret": {"secretName": self.secret}}

    def volume_mount(self, number: int) -> dict[str, Any]:
        """Return the container's mount of it."""
        mount: dict[str, Any] = {"name": f"mount-{number}", "mountPath": self.path}
        if self.read_only:
            mount["readOnly"] = True
        if self.sub_path:
            mount["subPath"] = self.sub_path
        return mount
