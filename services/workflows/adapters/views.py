"""The informers, trimmed to what is read here."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Final

from services.workflows.core.model import JobView, read_job
from shared.api import names
from shared.api import resources as r
from shared.api.meta import controller_of
from shared.clock import Clock
from shared.kube.informer import Informer
from shared.kube.informers import Informers
from shared.kube.port import JSON, Cluster, Resource

OWN_KINDS: Final = (r.JOBFLOWS, r.JOBTEMPLATES, r.CRONJOBS, r.HYPERNODES)
OnChange = Callable[[Resource, JSON | None, JSON | None], None]
_OWNER: Final = "owner"
_TEMPLATE: Final = "template"


def key_of(namespace: str, name: str) -> str:
    """Return ``namespace/name``."""
    return f"{namespace}/{name}"


class Views(Informers):
    """What exists; reads cost no request."""

    def __init__(
        self, cluster: Cluster, *, clock: Clock, on_change: OnChange, config_map: tuple[str, str]
    ) -> None:
        def informer(
            resource: Resource, transform: Callable[[JSON], JSON] = _trim, **options: Any
        ) -> Informer:
            return Informer(
                cluster,
                resource,
                clock=clock,
                on_change=lambda old, new: on_change(resource, old, new),
                transform=transform,
                rng=random.Random(resource.plural),  # noqa: S311 - jitter, the same on each run
                **options,
            )

        namespace, name = config_map
        informers: dict[Resource, Informer] = {
            r.JOBS: informer(
                r.JOBS, transform=_trim_job, indexes={_OWNER: _owner, _TEMPLATE: _template_of_job}
            ),
            r.JOBFLOWS: informer(r.JOBFLOWS, indexes={_TEMPLATE: _templates_of_flow}),
            r.JOBTEMPLATES: informer(r.JOBTEMPLATES),
            r.CRONJOBS: informer(r.CRONJOBS),
            r.HYPERNODES: informer(r.HYPERNODES),
            r.NODES: informer(r.NODES, transform=_trim_node),
            r.CONFIGMAPS: informer(r.CONFIGMAPS, namespace=namespace, fields=f"metadata.name={name}"),
        }
        super().__init__(informers)

    def get(self, resource: Resource, key: str) -> JSON | None:
        """Return one object by ``namespace/name``, or by name where there is no namespace."""
        namespace, slash, name = key.partition("/")
        return self.store(resource).get((namespace, name) if slash else ("", namespace))

    def jobs_of(self, uid: str) -> list[JobView]:
        """Return the jobs that an object controls."""
        return [read_job(raw) for raw in self[r.JOBS].by(_OWNER, uid)]

    def job(self, namespace: str, name: str) -> JobView | None:
        """Return a job."""
        raw = self.store(r.JOBS).get((namespace, name))
        return None if raw is None else read_job(raw)

    def jobs_from_template(self, namespace: str, name: str) -> list[str]:
        """Return the names of the jobs that were made from a JobTemplate."""
        raws = self[r.JOBS].by(_TEMPLATE, f"{namespace}.{name}")
        return sorted(raw["metadata"]["name"] for raw in raws if raw["metadata"]["namespace"] == namespace)

    def flows_of_template(self, namespace: str, name: str) -> list[str]:
        """Return the keys of the flows that name a JobTemplate."""
        raws = self[r.JOBFLOWS].by(_TEMPLATE, key_of(namespace, name))
        return [key_of(namespace, raw["metadata"]["name"]) for raw in raws]


def template_of(job: JSON) -> str:
    """Return ``namespace.name`` of the JobTemplate that a job was made from; empty: of none."""
    meta = job["metadata"]
    for marks in (meta.get("annotations"), meta.get("labels")):
        if value := (marks or {}).get(names.CREATED_BY_JOB_TEMPLATE):
            return str(value)
    return ""


def _owner(job: JSON) -> Iterable[str]:
    owner = controller_of(job)
    return (owner["uid"],) if owner else ()


def _template_of_job(job: JSON) -> Iterable[str]:
    template = template_of(job)
    return (template,) if template else ()


def _templates_of_flow(flow: JSON) -> Iterable[str]:
    namespace = flow["metadata"]["namespace"]
    steps = (flow.get("spec") or {}).get("flows") or ()
    return {key_of(namespace, step.get("name") or "") for step in steps}


def _trim(obj: JSON) -> JSON:
    """Drop what nobody reads, to save memory."""
    meta = obj["metadata"]
    if "managedFields" not in meta:
        return obj
    return {**obj, "metadata": {key: value for key, value in meta.items() if key != "managedFields"}}


def _trim_job(obj: JSON) -> JSON:
    """Keep of a job's spec what probes count by."""
    fields = ("name", "replicas", "minAvailable")
    tasks = (obj.get("spec") or {}).get("tasks") or ()
    kept = [{field: task[field] for field in fields if field in task} for task in tasks]
    return {**_trim(obj), "spec": {"tasks": kept}}


def _trim_node(obj: JSON) -> JSON:
    """Keep of a node its name and labels."""
    meta = obj["metadata"]
    kept = {key: meta[key] for key in ("name", "uid", "resourceVersion", "labels") if key in meta}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": kept}
