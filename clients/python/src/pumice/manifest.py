"""What can be submitted: a Volcano Job object, or the short form.

Documents are read by the rules of YAML 1.2 where they differ from PyYAML's (``on`` and ``no`` are
texts, a date is a text), because that is how Kubernetes' tools read them.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from pumice.errors import ManifestError


class Job(BaseModel):
    """The short form of a job: one task of equal workers. The server makes a whole Job of it."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, alias_generator=to_camel, extra="forbid")

    name: str
    namespace: str | None = None
    image: str
    command: tuple[str, ...] = ()
    gpus: int = Field(default=0, ge=0)
    """GPUs of each worker."""
    workers: int = Field(default=1, ge=1)
    queue: str | None = None
    minimum: int | None = Field(default=None, ge=1)
    """So many workers start together or none does. Default: all of them."""
    mounts: tuple[str, ...] = ()
    """``claim:/path`` each."""
    expose: tuple[int, ...] = ()
    """Ports that other workers and services can reach."""

    def body(self) -> dict[str, Any]:
        """Return the request's body: what was given and nothing else."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


class _Loader(yaml.SafeLoader):
    """SafeLoader without YAML 1.1's surprises."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith((":timestamp", ":bool", ":int"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^[-+]?(?:0|[1-9][0-9]*|0o?[0-7]+|0x[0-9a-fA-F]+)$"),  # 0644 is octal for Kubernetes, too
    "-+0123456789",
)


def documents(text: str, source: str = "manifest") -> list[dict[str, Any]]:
    """Return the objects in a text of YAML or JSON documents; empty documents do not count.

    Raises ManifestError, with the line, when the text is not YAML, and when a document is no object.
    """
    try:
        found = [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.YAMLError as error:
        raise ManifestError(_where(source, error)) from error
    for number, document in enumerate(found, 1):
        if not isinstance(document, dict):
            raise ManifestError(f"{source}: document {number} is {_kind(document)}, not an object")
    return found


def body_of(job: Job | dict[str, Any] | str, namespace: str) -> dict[str, Any]:
    """Return the body that submits ``job``; ``namespace`` is for one that names none itself."""
    if isinstance(job, Job):
        return {"namespace": namespace, **job.body()}
    if isinstance(job, str):
        job = _only(documents(job))
    if "kind" not in job and "apiVersion" not in job:
        return {"namespace": namespace, **job}
    metadata = job.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("namespace"):
        return job  # not ours to judge: admission names every mistake
    return {**job, "metadata": {**metadata, "namespace": namespace}}


def name_of(body: dict[str, Any]) -> str:
    """Return a job's name for messages, as far as the body has one."""
    metadata = body.get("metadata")
    name = (
        metadata.get("name") or metadata.get("generateName")
        if isinstance(metadata, dict)
        else body.get("name")
    )
    return str(name or "")


def short_form(**fields: Any) -> Job:
    """Return the short form; a wrong field is a ManifestError in one line."""
    try:
        return Job(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ManifestError(f"{where}: {first['msg']}") from error


def _only(found: list[dict[str, Any]]) -> dict[str, Any]:
    if len(found) != 1:
        raise ManifestError(f"manifest: has {len(found)} documents; submit them one by one")
    return found[0]


def _where(source: str, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"{source}:{mark.line + 1}:{mark.column + 1}: {problem}" if mark else f"{source}: {problem}"


def _kind(value: object) -> str:
    return {list: "a list", str: "a text", bool: "a truth value"}.get(type(value), "a number")
