"""A world for tests: the verbs over a store, with a counter for identifiers and a fixed time."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

from simulator.builtin import KINDS, TYPES
from simulator.core import custom
from simulator.core.collector import collect
from simulator.core.delete import delete
from simulator.core.errors import StatusError
from simulator.core.kinds import Kind, Registry
from simulator.core.patching import patch
from simulator.core.subresources import bind
from simulator.core.world import Call, World
from simulator.core.write import create, update

JSON = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def finish(steps: Generator[Any, Any, Any]) -> Any:
    """Run a verb that meets no webhook."""
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    raise AssertionError("the verb wants a webhook")


class Cluster:
    """The verbs by short names. Objects are returned as dictionaries; StatusError is raised through."""

    def __init__(self, history: int = 1000) -> None:
        self.world = World(Registry(KINDS), history)
        self.world.defined = lambda crd: custom.kinds(crd, TYPES.metadata)
        self.count = 0
        self.warnings: list[str] = []
        self.create("namespaces", {"metadata": {"name": "default"}}, namespace="")

    def _id(self) -> str:
        self.count += 1
        return f"00000000-0000-4000-8000-{self.count:012d}"

    def call(self, **options: Any) -> Call:
        self.warnings = []
        return Call(NOW, self._id, options.pop("manager", "test"), warnings=self.warnings, **options)

    def kind(self, resource: str) -> Kind:
        found = self.world.registry.stored(resource)
        assert found is not None, resource
        return found

    def create(self, resource: str, body: JSON, *, namespace: str = "default", **options: Any) -> JSON:
        kind = self.kind(resource)
        if not kind.builtin:
            body = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        place = namespace if kind.namespaced else ""
        return finish(create(self.world, kind, place, body, self.call(**options))).obj

    def get(self, resource: str, name: str, namespace: str = "default") -> JSON | None:
        return self.world.find(resource, namespace if self.kind(resource).namespaced else "", name)

    def update(self, resource: str, body: JSON, subresource: str = "", **options: Any) -> JSON:
        meta = body["metadata"]
        kind = self.kind(resource)
        steps = update(
            self.world, kind, meta.get("namespace", ""), meta["name"], body, self.call(**options), subresource
        )
        return finish(steps)[0].obj

    def patch(
        self, resource: str, name: str, media: str, body: bytes, subresource: str = "", **query: str
    ) -> JSON:
        kind = self.kind(resource)
        manager = query.get("fieldManager", "test")
        place = "default" if kind.namespaced else ""
        steps = patch(
            self.world, kind, place, name, media, body, self.call(manager=manager), subresource, query
        )
        return finish(steps)[0].obj

    def delete(self, resource: str, name: str, **options: Any) -> Any:
        kind = self.kind(resource)
        steps = delete(self.world, kind, "default" if kind.namespaced else "", name, options, self.call())
        result = finish(steps)
        return result if isinstance(result, dict) else result.obj

    def bind(self, pod: str, node: str) -> JSON:
        body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
        return finish(bind(self.world, self.kind("pods"), "default", pod, body, self.call()))

    def settle(self) -> None:
        """Let the collector do all that is due."""
        for _ in range(100):
            if not finish(collect(self.world, self.call())):
                return
        raise AssertionError("the collector never comes to rest")


def pod(name: str, **spec: Any) -> JSON:
    """Return a small pod."""
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}], **spec},
    }


def refusal(function: Any, *arguments: Any, **options: Any) -> JSON:
    """Return the Status that a call is refused with."""
    try:
        function(*arguments, **options)
    except StatusError as error:
        return error.body
    raise AssertionError("it was not refused")


WIDGETS: JSON = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1, "maximum": 10},
                                    "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "imm": {
                                        "type": "string",
                                        "x-kubernetes-validations": [
                                            {"rule": "self == oldSelf", "message": "imm is immutable"}
                                        ],
                                    },
                                },
                            },
                            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                        },
                    }
                },
            }
        ],
    },
}
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
