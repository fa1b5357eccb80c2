"""Kubernetes' own jobs and cron jobs. No controller acts on them here."""

from __future__ import annotations

from typing import Any, Final

from simulator.core.errors import Cause, unsupported
from simulator.core.kinds import Strategy
from simulator.strategies import pod_rules, pods
from simulator.strategies.shared_rules import first_generation, keep_status, only_status

JSON = dict[str, Any]


def _default_job(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = spec["parallelism"] = 1
    for name, value in (
        ("parallelism", 1),
        ("backoffLimit", 6),
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("manualSelector", False),
        ("podReplacementPolicy", "TerminatingOrFailed"),
    ):
        spec.setdefault(name, value)
    pods.default_template(spec["template"])


def _new_job(obj: JSON) -> None:
    first_generation(obj)


def _validate_job(obj: JSON) -> list[Cause]:
    causes = pod_rules.validate_spec(obj["spec"]["template"]["spec"], "spec.template.spec")
    policy = obj["spec"]["template"]["spec"].get("restartPolicy")
    if policy not in ("OnFailure", "Never"):
        causes.append(
            Cause(
                "FieldValueRequired",
                'Required value: valid values: "OnFailure", "Never"',
                "spec.template.spec.restartPolicy",
            )
            if policy == "Always"
            else unsupported("spec.template.spec.restartPolicy", policy, ("OnFailure", "Never"))
        )
    return causes


def _job_uid(obj: JSON) -> None:
    """Add the labels and selector that the API server derives from the UID."""
    uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
    if obj["spec"].get("manualSelector"):
        return
    labels = obj["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels |= {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    obj["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    if not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _prepare_job(obj: JSON) -> None:
    _new_job(obj)
    _job_uid(obj)


JOB: Final = Strategy(
    default=_default_job,
    prepare_create=_prepare_job,
    orphans=True,
    validate=_validate_job,
    prepare_update=keep_status,
    prepare_status=only_status,
    generation=True,
)


def _default_cronjob(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    for name, value in (
        ("concurrencyPolicy", "Allow"),
        ("suspend", False),
        ("successfulJobsHistoryLimit", 3),
        ("failedJobsHistoryLimit", 1),
    ):
        spec.setdefault(name, value)
    pods.default_template(spec["jobTemplate"]["spec"]["template"])


CRONJOB: Final = Strategy(
    default=_default_cronjob,
    prepare_create=first_generation,
    prepare_update=keep_status,
    prepare_status=only_status,
    generation=True,
)
