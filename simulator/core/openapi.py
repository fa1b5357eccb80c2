"""OpenAPI v3 documents, one for each group and version, as far as ``kubectl`` reads them.

Schemas of built-in kinds come from their Go types and have no descriptions; those of custom resources are
the definitions' own. Paths say only that PATCH takes ``fieldValidation`` and ``dryRun``.
"""

from __future__ import annotations

import re
from typing import Any, Final

from simulator.core.kinds import Kind
from simulator.types import Field, Structs, flat

JSON = dict[str, Any]

_SCALARS: Final[dict[str, JSON]] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bool": {"type": "boolean"},
    "float64": {"type": "number", "format": "double"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
    "any": {"type": "object"},
}
_PACKAGES: Final = {
    "meta/v1": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "apiextensions/v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
}
_NAMED: Final[dict[str, tuple[str, JSON]]] = {
    "quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    "intorstring": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    ),
}
_META: Final = "meta/v1.ObjectMeta"


def component(struct: str) -> str:
    """Return the name of a Go type's schema."""
    package, name = struct.rsplit(".", 1)
    return f"{_PACKAGES.get(package, 'io.k8s.api.' + package.replace('/', '.'))}.{name}"


def document(kinds: list[Kind], structs: Structs, version: str) -> JSON:
    """Return the document of one group and version."""
    schemas: JSON = {}
    paths: JSON = {}
    for kind in kinds:
        gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        if kind.builtin:
            _add(schemas, structs, kind.type_name)
            schemas[component(kind.type_name)]["x-kubernetes-group-version-kind"] = [gvk]
        else:
            _add(schemas, structs, _META)
            name = ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])
            schemas[name] = _custom(kind) | {"x-kubernetes-group-version-kind": [gvk]}
        paths |= _paths(kind, gvk)
    info = {"title": "Kubernetes", "version": version}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _custom(kind: Kind) -> JSON:
    schema: JSON = dict(kind.schema or {})
    common = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"allOf": [{"$ref": f"#/components/schemas/{component(_META)}"}]},
    }
    return schema | {"type": "object", "properties": {**(schema.get("properties") or {}), **common}}


def _add(schemas: JSON, structs: Structs, name: str) -> None:
    key = component(name)
    if key in schemas:
        return
    schema: JSON = {"type": "object", "properties": {}}
    schemas[key] = schema  # before the fields: types may refer to themselves
    required = []
    for label, field in flat(structs, name).items():
        schema["properties"][label] = _field(schemas, structs, field)
        if (
            not field.omitempty
            and not field.omitzero
            and not field.type.startswith("*")
            and field.inner not in structs
        ):
            required.append(label)
    if required:
        schema["required"] = required


def _field(schemas: JSON, structs: Structs, field: Field) -> JSON:
    made = _type(schemas, structs, field.type)
    if field.merge is not None:
        made["x-kubernetes-patch-strategy"] = "merge,retainKeys" if field.retain else "merge"
        if field.merge:
            made["x-kubernetes-patch-merge-key"] = field.merge
    if field.keys:
        made |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(field.keys)}
    elif field.is_set:
        made["x-kubernetes-list-type"] = "set"
    return made


def _type(schemas: JSON, structs: Structs, type_: str) -> JSON:
    type_ = re.sub(r"^\*", "", type_)
    if type_.startswith("[]"):
        return {"type": "array", "items": _type(schemas, structs, type_[2:])}
    if type_.startswith("map[string]"):
        return {"type": "object", "additionalProperties": _type(schemas, structs, type_[11:])}
    if type_ in structs:
        _add(schemas, structs, type_)
        return {"allOf": [{"$ref": f"#/components/schemas/{component(type_)}"}], "default": {}}
    if type_ in _NAMED:
        name, schema = _NAMED[type_]
        schemas[name] = schema
        return {"allOf": [{"$ref": f"#/components/schemas/{name}"}]}
    return dict(_SCALARS[type_])


def _paths(kind: Kind, gvk: JSON) -> JSON:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    middle = "/namespaces/{namespace}" if kind.namespaced else ""
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation", "force")
    ]
    operation: JSON = {
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": gvk,
    }
    return {f"{root}{middle}/{kind.plural}/{{name}}": {"patch": operation}}
