"""The base of all object models: lossless, strict about types, silent about rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ModelWrapValidatorHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

JSON = dict[str, Any]

# Kubernetes writes initialisms in capitals; the camel case of these words would not.
_INITIALISMS: Final = {
    "cluster_ip": "clusterIP",
    "cluster_ips": "clusterIPs",
    "host_ip": "hostIP",
    "host_ipc": "hostIPC",
    "host_pid": "hostPID",
    "pod_ip": "podIP",
    "provider_id": "providerID",
    "transition_id": "transitionID",
    "container_id": "containerID",
    "image_id": "imageID",
    "machine_id": "machineID",
    "se_linux_options": "seLinuxOptions",
    "set_hostname_as_fqdn": "setHostnameAsFQDN",
    "load_balancer_ip": "loadBalancerIP",
}


def json_name(name: str) -> str:
    """Return the JSON name of a field: ``min_available`` is ``minAvailable``."""
    return _INITIALISMS.get(name) or to_camel(name)


class KubeModel(BaseModel):
    """A part of a Kubernetes object.

    Types are strict as the API server's are (``"3"`` is no integer). A null counts as absent when the
    field is read, as in Go, but is written back. Change by ``model_copy(update={...})``, never in place.
    """

    model_config = ConfigDict(
        extra="allow",
        alias_generator=json_name,
        validate_by_name=True,
        validate_by_alias=True,
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    @model_validator(mode="wrap")
    @classmethod
    def _keep_nulls(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Read nulls as absent fields and carry them along with the unknown ones."""
        if not isinstance(data, dict):
            return handler(data)
        if None in data.values():
            model = handler({key: value for key, value in data.items() if value is not None})
            extra = model.__pydantic_extra__
            if extra is not None:
                extra.update({key: None for key, value in data.items() if value is None})
        else:
            model = handler(data)
            extra = model.__pydantic_extra__
        if extra and not extra.keys().isdisjoint(cls.model_fields):
            # An unknown min_available does not mean that minAvailable was set.
            for name in extra.keys() & cls.model_fields.keys():
                if data.get(cls.model_fields[name].alias or name) is None:
                    model.__pydantic_fields_set__.discard(name)
        return model

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Read a raw object; only the JSON names of fields count (a ``min_available`` is an unknown field).

        Raises pydantic's ValidationError with a location for each value of a wrong type.
        """
        options.setdefault("by_name", False)
        options.setdefault("by_alias", True)
        return super().model_validate(obj, **options)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy with some fields replaced (by attribute name, not validated); a null that was there goes."""
        copy = super().model_copy(update=update, deep=deep)
        extra = copy.__pydantic_extra__
        if update and extra:
            names = type(self).model_fields
            for name in update:
                if name in names:
                    extra.pop(names[name].alias or name, None)
        return copy

    def dump(self) -> JSON:
        """Return the raw object: what was read or set, under its JSON names."""
        return self.model_dump(by_alias=True, exclude_unset=True)


@dataclass(frozen=True, eq=False)
class Schema:
    """Schema facts for the CRD manifest only (``minimum``, ``pattern`` …); reading ignores them."""

    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add the facts to the generated schema."""
        return {**handler(core_schema), **self.facts}


def schema(**facts: Any) -> Schema:
    """Write schema facts as keywords. ``default`` is the API server's: reading does not apply it."""
    return Schema({"x-default" if key == "default" else key: value for key, value in facts.items()})


REQUIRED: Final = Schema({"x-required": True})
"""The API server refuses an object without this field; reading does not."""
PATCH: Final = Schema({"x-patch": True})
"""The API server asks for nothing below this field and fills nothing in: a patch has only what it changes."""


class PartialModel(KubeModel):
    """A type of Kubernetes' own of which we model a part; in a CRD its other fields are preserved."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})


Int32 = Annotated[int, schema(format="int32")]
Int64 = Annotated[int, schema(format="int64")]
Count = Annotated[int, schema(format="int32", minimum=0)]
"""A number of things, never negative."""
Time = Annotated[str, schema(format="date-time")]
"""RFC 3339 text, kept as written; see ``shared.api.meta.parse_time``."""
Duration = Annotated[str, schema()]
"""A duration as Go writes it (``1h30m``), kept as written; see ``shared.api.duration``."""
IntOrString = Annotated[int | str, schema(**{"x-kubernetes-int-or-string": True})]

QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
QuantityText = Annotated[
    str | int | float, schema(**{"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN})
]
"""A quantity as written; ``Quantity.parse`` reads it."""
ResourceList = dict[str, QuantityText]
"""Amounts by resource name, as written."""
StringMap = dict[str, str]
