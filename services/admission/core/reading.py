"""Reading an object as one of a kind: what is none at all, and values of a wrong type."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from services.admission.core.schema import field_path
from services.admission.core.violations import Violation
from shared.api.base import JSON
from shared.api.batch import API_VERSION, KIND, Job
from shared.api.meta import KubeObject
from shared.errors import ContractError

M = TypeVar("M", bound=KubeObject)

MAX_DEPTH: Final = 100
"""Far more than any job has, far less than what a program's stack can take."""
_EXPECTED: Final = {
    "string_type": ("a string", ""),
    "int_type": ("an integer", 0),
    "bool_type": ("true or false", False),
    "list_type": ("a list", []),
    "dict_type": ("an object", {}),
    "model_type": ("an object", {}),
}
"""Pydantic's error types: what was expected, and a value that stands for "nothing said"."""


class Salvage(NamedTuple, Generic[M]):
    """An object read as far as its types allow, and what was wrong with the rest."""

    object: M
    violations: list[Violation]


def salvage_job(obj: JSON) -> Salvage[Job]:
    """Read a job that somebody submitted; see :func:`salvage`. A status is dropped: a new job has none.

    Raises:
        ContractError: ``not-a-job``: the object is of another kind or version; ``invalid-data``: it is nested
            too deeply.
    """
    _require_job(obj)
    return salvage(Job, {key: value for key, value in obj.items() if key != "status"})


def salvage(model: type[M], obj: JSON) -> Salvage[M]:
    """Read an object; each value of a wrong type is reported and read as if it said nothing.

    Raises:
        ContractError: ``invalid-data``: the object is nested too deeply.
    """
    raw: JSON = _plain(obj)
    try:
        return Salvage(model.model_validate(raw), [])
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
    found: dict[str, Violation] = {}
    for problem in problems:
        location = problem["loc"]
        path = field_path(model, location)
        expected, neutral = _EXPECTED.get(problem["type"], ("of another type", None))
        # A value with several allowed types has a problem for each of them.
        if path not in found:
            names_alternative = field_path(model, location[:-1]) == path
            wanted = "a string or a number" if names_alternative else expected
            message = f"must be {wanted}, not {_kind(problem['input'])}"
            found[path] = Violation("wrong-type", path, message)
            _replace(raw, location, neutral)
    return Salvage(model.model_validate(raw), list(found.values()))


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a copy with text for keys, as Kubernetes reads YAML (``{8080: web}`` has the key "8080")."""
    if depth > MAX_DEPTH:
        raise ContractError("invalid-data", f"the object is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        return {_key(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def _key(key: Any) -> str:
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return str(key)


def _require_job(obj: JSON) -> None:
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if version == API_VERSION and kind == KIND:
        return
    raise ContractError(
        "not-a-job", f"expected {KIND} of {API_VERSION}, not {str(kind)[:80]} of {str(version)[:80]}"
    )


def _replace(raw: JSON, location: Sequence[str | int], neutral: Any) -> None:
    """Put the neutral value at a place, or take the place out when there is none."""
    parent: Any = None
    node: Any = raw
    last: Any = None
    for step in location:
        child = _child(node, step)
        if child is _NOTHING:
            break  # the name of an alternative
        parent, node, last = node, child, step
    if isinstance(parent, dict) and neutral is None:
        del parent[last]
    elif parent is not None:
        parent[last] = copy.copy(neutral)


_NOTHING: Final = object()


def _child(node: Any, step: str | int) -> Any:
    if isinstance(node, dict):
        return node.get(step, _NOTHING)
    if isinstance(node, list) and isinstance(step, int) and step < len(node):
        return node[step]
    return _NOTHING


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return f"the number {str(value)[:40]}"
        case str():
            return f'the string "{value[:40]}"'
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "null"
