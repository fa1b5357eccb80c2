"""CustomResourceDefinitions: names, versions, and the kinds that they make the server serve."""

from __future__ import annotations

from typing import Any, Final

from simulator.core.errors import Cause, invalid, required, unsupported
from simulator.core.kinds import Strategy

JSON = dict[str, Any]

_SCOPES: Final = ("Cluster", "Namespaced")


def _default(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def _validate(obj: JSON) -> list[Cause]:
    spec = obj["spec"]
    names = spec.get("names", {})
    causes: list[Cause] = []
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if obj["metadata"].get("name") != wanted:
        words = 'must be spec.names.plural+"."+spec.group'
        causes.append(invalid("metadata.name", obj["metadata"].get("name", ""), words))
    for field, value in (
        ("spec.group", spec.get("group")),
        ("spec.scope", spec.get("scope")),
        ("spec.names.plural", names.get("plural")),
        ("spec.names.kind", names.get("kind")),
    ):
        if not value:
            causes.append(required(field))
    if spec.get("scope") not in (None, "", *_SCOPES):
        causes.append(unsupported("spec.scope", spec["scope"], _SCOPES))
    versions = spec.get("versions") or []
    if sum(1 for version in versions if version.get("storage")) != 1:
        causes.append(
            invalid(
                "spec.versions",
                [v.get("name") for v in versions],
                "must have exactly one version marked as storage version",
            )
        )
    causes += [
        required(f"spec.versions[{at}].schema.openAPIV3Schema")
        for at, version in enumerate(versions)
        if not (version.get("schema") or {}).get("openAPIV3Schema")
    ]
    return causes


def _prepare(obj: JSON) -> None:
    obj["metadata"]["generation"] = 1
    stored = [v["name"] for v in obj["spec"].get("versions") or () if v.get("storage")]
    obj["status"] = {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": stored,
    }


def _keep_status(new: JSON, old: JSON) -> None:
    status = old["status"]
    stored = [v["name"] for v in new["spec"].get("versions") or () if v.get("storage")]
    new["status"] = status | {
        "storedVersions": list(dict.fromkeys([*status.get("storedVersions", ()), *stored]))
    }


def _only_status(new: JSON, old: JSON) -> None:
    new["spec"] = old["spec"]


def established(obj: JSON, now: str) -> JSON:
    """Return the definition with the status of one whose names are accepted and which is served."""
    conditions = [
        {
            "type": "NamesAccepted",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "NoConflicts",
            "message": "no conflicts found",
        },
        {
            "type": "Established",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]
    status = obj["status"] | {"conditions": conditions, "acceptedNames": obj["spec"]["names"]}
    return obj | {"status": status}


STRATEGY: Final = Strategy(
    default=_default,
    prepare_create=_prepare,
    validate=_validate,
    prepare_update=_keep_status,
    validate_update=lambda new, _old: _validate(new),
    prepare_status=_only_status,
    generation=True,
)
