"""Sequences of requests as data: what is asked, what of the answers is used in later requests.

A step is a mapping. Its verb names the path, ``POST: pods``; a path that does not begin with a slash is below
its resource's place in the sequence's own namespace. ``$name`` stands for a value kept from an earlier answer.

- ``body``, ``raw`` with ``media``, or a patch: ``merge``, ``json``, ``strategic``, ``apply``;
  ``from: kept`` changes a kept object by a merge patch in ``body``.
- ``accept``: table, metadata, yaml, or a media type.
- ``keep: {name: path}`` keeps a part of the answer (``.`` keeps it whole).
- ``until: {path: value}`` or ``until: 404`` asks again until the answer says so: what controllers do takes time.
- ``watch``: a path; its events within two seconds are compared.
- ``managers: true`` compares ``managedFields`` too.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.differential.servers import Answer, Server

JSON = dict[str, Any]

PLACES: Final[dict[str, str]] = {
    "namespaces": "/api/v1/namespaces",
    "nodes": "/api/v1/nodes",
    "persistentvolumes": "/api/v1/persistentvolumes",
    "priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "storageclasses": "/apis/storage.k8s.io/v1/storageclasses",
    "crds": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "queues": "/apis/scheduling.volcano.sh/v1beta1/queues",
    **{
        name: f"/{group}/namespaces/$ns/{name}"
        for group, names in {
            "api/v1": (
                "pods configmaps secrets services serviceaccounts events endpoints resourcequotas limitranges "
                "replicationcontrollers persistentvolumeclaims"
            ),
            "apis/apps/v1": "deployments replicasets statefulsets daemonsets",
            "apis/batch/v1": "cronjobs",
            "apis/batch.volcano.sh/v1alpha1": "jobs",
            "apis/scheduling.volcano.sh/v1beta1": "podgroups",
            "apis/bus.volcano.sh/v1alpha1": "commands",
            "apis/networking.k8s.io/v1": "ingresses networkpolicies",
            "apis/coordination.k8s.io/v1": "leases",
            "apis/rbac.authorization.k8s.io/v1": "roles rolebindings",
            "apis/policy/v1": "poddisruptionbudgets",
            "apis/differential.test/v1": "widgets",
        }.items()
        for name in names.split()
    },
    "batchjobs": "/apis/batch/v1/namespaces/$ns/jobs",
}
_PATCHES: Final = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_FORMS: Final = {
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io",
    "metadata": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "metadata list": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "yaml": "application/yaml",
}
_VERBS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
_WORD: Final = re.compile(r"\$(\w+)")
_TRIES: Final = 1800
_PAUSE: Final = 0.05
"""A minute and a half in all: a garbage collector that has just begun takes half of it to know our kinds."""
_WATCH: Final = "watch=true&timeoutSeconds=2"


@dataclass(frozen=True)
class Sequence:
    """Steps that belong together, with the rule that they show."""

    name: str
    steps: tuple[JSON, ...]


@dataclass
class Player:
    """Plays steps against one server and keeps the values that later steps name."""

    server: Server
    namespace: str
    kept: JSON = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kept["ns"] = self.namespace

    def play(self, step: JSON) -> Answer:
        """Ask what a step says; return the answer as it came."""
        answer = self._ask(step)
        if "until" in step:
            for _ in range(_TRIES):
                if _reached(answer, step["until"]):
                    break
                time.sleep(_PAUSE)
                answer = self._ask(step)
            else:
                raise AssertionError(f"{self.server.name}: {step} was not reached: {answer}")
        if answer.status < 300:  # a refusal has nothing to keep: what was kept before stays
            for name, path in (step.get("keep") or {}).items():
                self.kept[name] = _part(answer.body, path)
        return answer

    def _ask(self, step: JSON) -> Answer:
        if "watch" in step:
            path = self.path(step["watch"])
            return self.server.request(
                "GET", f"{path}{'&' if '?' in path else '?'}{_WATCH}", None, _accept(step)
            )
        verb = next(verb for verb in _VERBS if verb in step)
        body, media = self._body(step)
        headers = _accept(step) | ({"Content-Type": media} if media else {})
        return self.server.request(verb, self.path(step[verb]), body, headers)

    def path(self, text: str) -> str:
        """Return the full path of a step's short one."""
        if not text.startswith("/"):
            resource = re.split(r"[/?]", text, maxsplit=1)[0]
            text = PLACES[resource] + text[len(resource) :]
        return str(self.filled(text))

    def _body(self, step: JSON) -> tuple[bytes | None, str]:
        for name, media in _PATCHES.items():
            if name in step:
                return json.dumps(self.filled(step[name])).encode(), media
        media = step.get("media", "application/json")
        if "raw" in step:
            return step["raw"].encode(), media
        if "from" in step:
            return json.dumps(
                _merged(self.kept[step["from"]], self.filled(step.get("body", {})))
            ).encode(), media
        if "body" in step:
            return json.dumps(self.filled(step["body"])).encode(), media
        return None, ""

    def filled(self, value: Any) -> Any:
        """Return a value with the kept values in the place of their names."""
        if isinstance(value, dict):
            return {self.filled(key): self.filled(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.filled(one) for one in value]
        if isinstance(value, str):
            return _WORD.sub(lambda found: str(self.kept.get(found[1], found[0])), value)
        return value


def _accept(step: JSON) -> dict[str, str]:
    wanted = step.get("accept")
    return {"Accept": _FORMS.get(wanted, wanted)} if wanted else {}


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(target, dict):
        return patch
    out = {key: value for key, value in target.items() if patch.get(key, value) is not None}
    return out | {key: _merged(out.get(key), value) for key, value in patch.items() if value is not None}


def _part(body: Any, path: str) -> Any:
    if path == ".":
        return body
    for part in path.split("."):
        body = body[int(part)] if isinstance(body, list) else body.get(part)
    return body


def _reached(answer: Answer, wanted: int | Mapping[str, Any]) -> bool:
    if isinstance(wanted, int):
        return answer.status == wanted
    try:
        return all(_part(answer.body, path) == value for path, value in wanted.items())
    except (KeyError, IndexError, AttributeError, TypeError):
        return False


def load(directory: Path) -> Iterator[Sequence]:
    """Read all sequences of a directory's YAML files: each file maps names to steps; ``_`` holds shared parts."""
    for file in sorted(directory.glob("*.yaml")):
        for name, steps in yaml.safe_load(file.read_text()).items():
            if name != "_":
                yield Sequence(name, tuple(steps))
