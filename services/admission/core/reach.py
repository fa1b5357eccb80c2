"""What a job reaches beyond its pods: ports for users, and paths of the nodes."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator
from typing import Final

from services.admission.core.violations import Violation, listing
from shared.api import names
from shared.api.batch import Job
from shared.api.expose import locate, parse

_EXPOSE: Final = f"metadata.annotations[{names.EXPOSE}]"


def expose_rules(job: Job) -> Iterator[Violation]:
    """Exposed ports are written as ``name:port@task``; names differ, and the pods are the job's."""
    text = job.metadata.annotations.get(names.EXPOSE, "")
    try:
        locate(parse(text), {task.name: task.replicas for task in job.spec.tasks})
    except ValueError as error:
        yield Violation("invalid-expose", _EXPOSE, str(error))


def host_path_rules(job: Job, allowed: Collection[str]) -> Iterator[Violation]:
    """Pods mount a path of their node only below the paths that the administrator allows."""
    for number, task in enumerate(job.spec.tasks):
        for index, volume in enumerate(task.template.spec.volumes):
            host = volume.host_path
            if host is None or any(_is_below(host.path, prefix) for prefix in allowed):
                continue
            path = f"spec.tasks[{number}].template.spec.volumes[{index}].hostPath.path"
            where = f"only below {listing(allowed)}" if allowed else "nowhere"
            message = f'"{host.path[:80]}": jobs may mount paths of nodes {where} (setting host_paths)'
            yield Violation("host-path-not-allowed", path, message)


def _is_below(path: str, prefix: str) -> bool:
    path, prefix = (posixpath.normpath("/" + one.lstrip("/")) for one in (path, prefix))
    return path == prefix or path.startswith(prefix.rstrip("/") + "/")
