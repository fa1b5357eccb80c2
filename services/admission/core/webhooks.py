"""Which rules stand behind which path: from a request to a verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from services.admission.core.cronjobs import validate_cronjob
from services.admission.core.damage import standing
from services.admission.core.defaults import Defaults, apply_defaults
from services.admission.core.hypernodes import validate_hypernode
from services.admission.core.jobflows import validate_jobflow
from services.admission.core.judging import judge_changed_job, judge_new_job
from services.admission.core.patches import json_patch
from services.admission.core.podgroups import apply_podgroup_defaults, validate_podgroup
from services.admission.core.pods import validate_pod
from services.admission.core.queues import (
    QueueLimits,
    apply_queue_defaults,
    validate_queue,
    validate_queue_deletion,
)
from services.admission.core.reading import salvage
from services.admission.core.resource_groups import ResourceGroup, mutate_pod
from services.admission.core.review import Request, Verdict
from services.admission.core.view import World
from services.admission.core.violations import Violation
from shared.api.base import JSON
from shared.api.batch import Job
from shared.api.cron import CronJob
from shared.api.flow import JobFlow
from shared.api.meta import KubeObject
from shared.api.names import DEFAULT_SCHEDULER
from shared.api.pods import Pod
from shared.api.scheduling import PodGroup, Queue
from shared.api.topology import HyperNode
from shared.api.webhooks import HOOKS, Hook
from shared.errors import ContractError

M = TypeVar("M", bound=KubeObject)


@dataclass(frozen=True, slots=True)
class Rules:
    """What an administrator may choose."""

    defaults: Defaults = field(default_factory=Defaults)
    limits: QueueLimits = field(default_factory=QueueLimits)
    schedulers: Collection[str] = (DEFAULT_SCHEDULER,)
    resource_groups: Sequence[ResourceGroup] = ()
    gate: bool = False
    """Whether pods may ask for the scheduling gate."""


def decide(path: str, request: Request, world: World, rules: Rules) -> Verdict:
    """Decide about a request that was sent to one of ``shared.api.webhooks.PATHS``.

    Raises:
        ContractError: ``bad-review``: the path is about another kind or operation, or the object is missing
            or nested too deeply.
    """
    _require_fit(_HOOKS[path], request)
    return _JUDGES[path](request, world, rules)


def names_asked_for(request: Request) -> tuple[list[str], list[str]]:
    """Return the queues and the namespaces that a verdict depends on."""
    spec = (request.object or {}).get("spec")
    named = [spec.get("queue"), spec.get("parent")] if isinstance(spec, dict) else []
    queues = [name for name in named if isinstance(name, str) and name]
    return queues, [request.namespace] if request.resource == "podgroups" else []


def _require_fit(hook: Hook, request: Request) -> None:
    wanted = hook.resource
    if (request.group, request.resource) != (wanted.group, wanted.plural):
        got = f"{request.resource}.{request.group}".rstrip(".")
        raise ContractError("bad-review", f"{hook.path} is about {wanted.plural}, not {got}")
    if request.operation not in hook.operations:
        known = ", ".join(hook.operations)
        raise ContractError("bad-review", f"{hook.path} is asked about {known}, not {request.operation[:80]}")
    if request.operation != "DELETE" and request.object is None:
        raise ContractError("bad-review", "request.object is missing")
    if request.operation == "UPDATE" and request.old is None:
        raise ContractError("bad-review", "request.oldObject is missing")


def _object(request: Request) -> JSON:
    return request.object or {}


def _patched(request: Request, after: KubeObject | JSON) -> Verdict:
    changed = after.dump() if isinstance(after, KubeObject) else after
    return Verdict(patch=json_patch(_object(request), changed))


def _checked(model: type[M], obj: JSON, rules: Callable[[M], list[Violation]]) -> Verdict:
    """Judge an object by some rules, as far as its types allow."""
    read = salvage(model, obj)
    found = standing(rules(read.object), {violation.path for violation in read.violations})
    return Verdict([*read.violations, *found])


def _mutate_job(request: Request, _: World, rules: Rules) -> Verdict:
    read = salvage(Job, _object(request))
    if read.violations:  # the validating webhook says so; a patch of half an object would hide it
        return Verdict()
    job = apply_defaults(read.object, rules.defaults)  # the namespace is the request's: leave it to that
    return _patched(request, job.model_copy(update={"metadata": read.object.metadata}))


def _validate_job(request: Request, world: World, rules: Rules) -> Verdict:
    new = _object(request)
    if request.old is None:
        obj = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", **new}
        return Verdict(judge_new_job(obj, world, rules.defaults).violations)
    old = salvage(Job, request.old).object
    return _checked(Job, new, lambda job: judge_changed_job(old, job, world, rules.defaults))


def _mutate_queue(request: Request, _: World, __: Rules) -> Verdict:
    read = salvage(Queue, _object(request))
    return Verdict() if read.violations else _patched(request, apply_queue_defaults(read.object))


def _validate_queue(request: Request, world: World, rules: Rules) -> Verdict:
    if request.operation == "DELETE":
        return Verdict(validate_queue_deletion(request.name, world, rules.limits))
    old = None if request.old is None else salvage(Queue, request.old).object
    return _checked(Queue, _object(request), lambda queue: validate_queue(queue, world, rules.limits, old))


def _mutate_podgroup(request: Request, world: World, _: Rules) -> Verdict:
    read = salvage(PodGroup, _object(request))
    if read.violations:
        return Verdict()
    return _patched(request, apply_podgroup_defaults(read.object, world.namespace_queue(request.namespace)))


def _validate_podgroup(request: Request, world: World, _: Rules) -> Verdict:
    return _checked(PodGroup, _object(request), lambda group: validate_podgroup(group, world))


def _mutate_pod(request: Request, _: World, rules: Rules) -> Verdict:
    pod = _object(request)
    if salvage(Pod, pod).violations:
        return Verdict()
    return _patched(request, mutate_pod(pod, request.namespace, rules.resource_groups, gate=rules.gate))


def _validate_pod(request: Request, _: World, rules: Rules) -> Verdict:
    return _checked(Pod, _object(request), lambda pod: validate_pod(pod, rules.schedulers))


def _validate_hypernode(request: Request, _: World, __: Rules) -> Verdict:
    return _checked(HyperNode, _object(request), validate_hypernode)


def _validate_jobflow(request: Request, _: World, __: Rules) -> Verdict:
    return _checked(JobFlow, _object(request), validate_jobflow)


def _validate_cronjob(request: Request, _: World, __: Rules) -> Verdict:
    return _checked(CronJob, _object(request), validate_cronjob)


Judge = Callable[[Request, World, Rules], Verdict]
_HOOKS: Final[Mapping[str, Hook]] = {hook.path: hook for hook in HOOKS}
_JUDGES: Final[Mapping[str, Judge]] = {
    "/jobs/mutate": _mutate_job,
    "/jobs/validate": _validate_job,
    "/queues/mutate": _mutate_queue,
    "/queues/validate": _validate_queue,
    "/podgroups/mutate": _mutate_podgroup,
    "/podgroups/validate": _validate_podgroup,
    "/pods/mutate": _mutate_pod,
    "/pods/validate": _validate_pod,
    "/hypernodes/validate": _validate_hypernode,
    "/jobflows/validate": _validate_jobflow,
    "/cronjobs/validate": _validate_cronjob,
}
