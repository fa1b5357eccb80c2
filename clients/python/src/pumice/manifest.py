"""What can be submitted: a Volcano Job object, or the short form.

Documents are read by the rules of YAML 1.2 where they differ from PyYAML's (``on`` and ``no`` are
texts, a date is a text), because that is how Kubernetes' tools read them.
"""

from __future__ import annotations

import json
import re
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from pumice.errors import ManifestError


class Part(BaseModel):
    """Base of the short form: a field that does not exist is a mistake."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, alias_generator=to_camel, extra="forbid")

    def body(self) -> dict[str, Any]:
        """Return the request's body: what was given and nothing else."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


class Worker(Part):
    """What a pod runs and takes."""

    image: str | None = None
    command: str | list[str] | None = None
    """A list is run as it is; a text is a line for ``/bin/sh -c``."""
    args: list[str] | None = None
    gpus: int | None = Field(default=None, ge=0)
    """GPUs of each pod."""
    gpu_resource: str | None = None
    """Name of the GPU resource; default ``nvidia.com/gpu``."""
    cpus: str | int | float | None = None
    """CPUs of each pod: a number or a quantity like ``500m``."""
    memory: str | int | None = None
    """Memory of each pod, e.g. ``64Gi``."""
    env: dict[str, str | bool | int | float] | None = None


class Job(Worker):
    """The short form of a job: equal workers and perhaps a master. The server makes a whole Job of it."""

    name: str | None = None
    generate_name: str | None = None
    """Instead of a name: what a name made by the server begins with."""
    namespace: str | None = None
    workers: int = Field(default=1, ge=0)
    master: bool | Worker = False
    """One more pod before the workers; a Worker says where it differs from them."""
    minimum: int | None = Field(default=None, ge=0)
    """So many pods start together or none does. Default: all of them."""
    queue: str | None = None
    priority: str | None = None
    """Name of a priority class."""
    mounts: list[str | dict[str, Any]] = []
    """``claim:/path``, ``new/100Gi:/path``, ``configmap/name:/path[:ro]`` and the like, or objects."""
    expose: list[str | int] = []
    """Ports that users reach: ``name:port`` or the port, of the first pod or ``name:port@task``."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    plugins: dict[str, list[str]] = {}
    retries: int | None = Field(default=None, ge=0)
    """Restarts of the whole job when a pod fails. Default: three."""
    ttl_seconds_after_finished: int | None = Field(default=None, ge=0)
    service_account: str | None = None
    node_selector: dict[str, str] = {}
    tolerations: list[dict[str, Any]] = []


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
    if (value := _json(text)) is not None:
        return [value]
    try:
        found = [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.YAMLError as error:
        raise ManifestError(_where(source, error)) from error
    except RecursionError as error:
        raise ManifestError(f"{source}: is nested too deeply") from error
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
        else body.get("name") or body.get("generateName")
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


def _json(text: str) -> dict[str, Any] | None:
    """Read one JSON object as such: YAML has other escapes."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


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
