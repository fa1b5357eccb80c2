"""What the OpenAPI document says beyond the routes' signatures: request bodies, problems, examples."""

from __future__ import annotations

from typing import Any, Final

from services.gateway.adapters.problems import PROBLEM_TYPE, ProblemDetails
from services.gateway.core.shortform import ShortJob

SHORT_EXAMPLE: Final[dict[str, Any]] = {
    "name": "train",
    "image": "pytorch/pytorch:2.8",
    "command": "torchrun train.py",
    "gpus": 8,
    "master": True,
    "workers": 3,
    "minimum": 4,
    "queue": "default",
    "mounts": ["data:/data", "configmap/settings:/etc/train:ro"],
    "expose": ["tensorboard:6006"],
}

JOB_EXAMPLE: Final[dict[str, Any]] = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {
        "queue": "default",
        "minAvailable": 2,
        "tasks": [
            {
                "name": "worker",
                "replicas": 2,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [
                            {
                                "name": "main",
                                "image": "busybox",
                                "command": ["sh", "-c", "sleep 10"],
                                "resources": {"limits": {"nvidia.com/gpu": 8}},
                            }
                        ],
                    }
                },
            }
        ],
    },
}

_YAML_EXAMPLE: Final = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 1
  tasks:
    - replicas: 1
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: busybox, command: [sleep, "10"]}]
"""

_JOB_SCHEMA: Final[dict[str, Any]] = {
    "title": "Job",
    "type": "object",
    "description": "A Volcano Job object. Everything in it is checked by admission, not here.",
    "required": ["apiVersion", "kind", "metadata"],
    "properties": {
        "apiVersion": {"const": "batch.volcano.sh/v1alpha1"},
        "kind": {"const": "Job"},
        "metadata": {"type": "object"},
        "spec": {"type": "object"},
    },
}


def _short_schema() -> dict[str, Any]:
    """Return the short form's schema, self-contained: a schema inside a path has its own definitions."""
    return ShortJob.model_json_schema(ref_template="#/components/schemas/{model}")


def short_definitions() -> dict[str, Any]:
    """Return the parts of the short form's schema, for the document's components."""
    definitions: dict[str, Any] = _short_schema().get("$defs", {})
    return definitions


SUBMISSION_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "oneOf": [
                        {name: part for name, part in _short_schema().items() if name != "$defs"},
                        _JOB_SCHEMA,
                    ]
                },
                "examples": {
                    "short form": {"summary": "A master and three workers", "value": SHORT_EXAMPLE},
                    "Job object": {"summary": "A Volcano Job", "value": JOB_EXAMPLE},
                },
            },
            "application/yaml": {
                "schema": {"type": "object"},
                "examples": {"Job object": {"value": _YAML_EXAMPLE}},
            },
        },
    },
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255},
            "description": "The same key and body again make no second job.",
        },
        {
            "name": "traceparent",
            "in": "header",
            "schema": {"type": "string"},
            "description": "W3C trace context; the job's trace continues it.",
        },
    ],
}

_WHY: Final = {
    400: ("not-json-or-yaml", "The body cannot be read, or is not a Job."),
    404: ("not-found", "There is no such job."),
    409: ("conflict", "The key was used for another job, or the command makes no sense now."),
    413: ("too-large", "The job is larger than the log takes."),
    422: ("rejected", "The job was rejected, or a parameter is wrong; every reason."),
    503: ("unavailable", "The log is away; `Retry-After` says when to try again."),
    504: ("no-answer", "A service that has to be asked did not answer in time."),
}

PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {
        "model": ProblemDetails,
        "description": text,
        "content": {
            PROBLEM_TYPE: {
                "example": {
                    "type": f"urn:pumice:problem:{code}",
                    "title": text,
                    "status": status,
                    "detail": text,
                    "code": code,
                }
            }
        },
    }
    for status, (code, text) in _WHY.items()
}
"""What each error of the API means, for the routes that can have it."""
