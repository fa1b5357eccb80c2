"""Small worlds for the rules: a valid job to spoil, and a view with a few queues."""

from __future__ import annotations

import copy
from typing import Any

from services.admission.core.defaults import Defaults, apply_defaults
from services.admission.core.jobs import validate_job
from services.admission.core.view import FixedView, QueueInfo
from shared.api.batch import Job

JSON = dict[str, Any]

VIEW = FixedView(
    (
        QueueInfo("root"),
        QueueInfo("default"),
        QueueInfo("research"),
        QueueInfo("closed", state="Closed"),
        QueueInfo("closing", state="Closing"),
        QueueInfo("parentQueue"),
        QueueInfo("childQueue", parent="parentQueue"),
    )
)

VALID: JSON = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "team"},
    "spec": {
        "queue": "research",
        "minAvailable": 4,
        "policies": [{"event": "PodEvicted", "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}],
        "volumes": [{"mountPath": "/data", "volumeClaimName": "data"}],
        "plugins": {"svc": [], "env": []},
        "tasks": [
            {
                "name": "master",
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "main", "image": "trainer:1"}]}},
            },
            {
                "name": "worker",
                "replicas": 3,
                "template": {
                    "metadata": {"labels": {"app": "train"}},
                    "spec": {
                        "restartPolicy": "OnFailure",
                        "initContainers": [{"name": "prepare", "image": "trainer:1"}],
                        "containers": [
                            {
                                "name": "main",
                                "image": "trainer:1",
                                "ports": [{"name": "http", "containerPort": 8080}],
                                "env": [{"name": "MODE", "value": "fast"}],
                                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                                "resources": {
                                    "requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": 8},
                                    "limits": {"memory": "64Gi", "nvidia.com/gpu": 8},
                                },
                            }
                        ],
                        "volumes": [{"name": "scratch", "emptyDir": {}}],
                        "nodeSelector": {"gpu": "h100"},
                        "tolerations": [{"key": "gpu", "operator": "Exists"}],
                    },
                },
            },
        ],
    },
}


def put(obj: Any, path: str, value: Any) -> None:
    """Set (or, with ``...``, delete) the field at a dotted path; numbers index lists."""
    *way, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    for step in way:
        obj = obj.setdefault(step, {}) if isinstance(obj, dict) else obj[step]
    if value is ...:
        del obj[last]
    else:
        obj[last] = value


def spoiled(*changes: tuple[str, Any]) -> JSON:
    """Return the valid job with some fields changed."""
    obj = copy.deepcopy(VALID)
    for path, value in changes:
        put(obj, path, value)
    return obj


def violations(obj: JSON, old: JSON | None = None) -> list[tuple[str, str]]:
    """Return the codes and paths that the rules find in a job with its defaults."""
    job = apply_defaults(Job.model_validate(obj), Defaults())
    before = None if old is None else apply_defaults(Job.model_validate(old), Defaults())
    return [(violation.code, violation.path) for violation in validate_job(job, VIEW, before)]
