"""The kinds that a scenario may have: how each is read, completed and judged, as the cluster would.

What only a kubelet needs (a container's image, limits that an API server wants beside requests) may be left
out: nothing is run here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from services.admission.core.defaults import Defaults
from services.admission.core.hypernodes import validate_hypernode
from services.admission.core.judging import judge_changed_job, judge_new_job
from services.admission.core.pod.resources import amounts
from services.admission.core.podgroups import validate_podgroup
from services.admission.core.pods import validate_pod
from services.admission.core.podtemplate import validate_template
from services.admission.core.queues import QueueLimits, apply_queue_defaults, validate_queue
from services.admission.core.reading import salvage
from services.admission.core.schema import metadata_rules, schema_rules
from services.admission.core.view import QueueView
from services.admission.core.violations import Violation
from services.controller.core.devices import read_devices
from services.controller.core.holding import words
from services.controller.core.numa import read_numatopology
from services.controller.core.persistent import size_of
from services.controller.core.volumes import reach_of
from services.scheduler.core.configuration import configure
from services.scheduler.core.policy import Policy
from services.simulation.core.notes import OF_NODES, OF_OBJECTS, OF_PODS, PATH, annotation_rules
from shared.api import names
from shared.api import resources as r
from shared.api.base import JSON
from shared.api.batch import Job
from shared.api.core import ConfigMap, Node, PriorityClass
from shared.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from shared.api.disruption import PodDisruptionBudget
from shared.api.meta import KubeObject
from shared.api.nodeinfo import Numatopology
from shared.api.pods import Pod, PodTemplateSpec
from shared.api.podspec import pod_requests
from shared.api.quantity import Quantity, QuantityError
from shared.api.scheduling import PodGroup, Queue
from shared.api.storage import CSINode, PersistentVolume, StorageClass
from shared.api.topology import HyperNode
from shared.api.volumes import PersistentVolumeClaim
from shared.kube.port import Resource

_DEFAULTS: Final = Defaults()
_LIMITS: Final = QueueLimits()
_KUBELETS: Final = re.compile(r"\.(?:initContainers|containers)\[\d+\]\.")
_PERCENT: Final = re.compile(r"(?:100|[0-9]{1,2})%", re.ASCII)
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_MOST_PRIORITY: Final = 1_000_000_000
"""Of a class that is not the system's own, as in the API server."""
_PODS_OF_A_NODE: Final = "110"
"""What a kubelet allows unless told otherwise."""

POLICY: Final = ("volcano-system", "volcano-scheduler-configmap")
"""Namespace and name of the ConfigMap with the scheduler's policy, where Volcano has it."""
POLICY_KEY: Final = "volcano-scheduler.conf"

M = TypeVar("M", bound=KubeObject)

Judged = tuple[JSON, list[Violation]]
Judge = Callable[[JSON, QueueView, JSON | None], Judged]
"""Completes and judges an object, given its former version."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind and what is done about it."""

    resource: Resource
    judge: Judge
    changeable: bool = False
    """Whether a later document of the same name changes the object."""


def _job(raw: JSON, view: QueueView, old: JSON | None) -> Judged:
    job, found = judge_new_job(raw, view, _DEFAULTS)
    if old is not None:
        found = (*found, *judge_changed_job(Job.model_validate(old), job, view, _DEFAULTS))
    return job.dump(), [*found, *_templates(raw)]


def _templates(raw: JSON) -> Iterator[Violation]:
    spec = raw.get("spec")
    tasks = spec.get("tasks") if isinstance(spec, dict) else None
    for index, task in enumerate(tasks if isinstance(tasks, list) else ()):
        template = task.get("template") if isinstance(task, dict) else None
        metadata = template.get("metadata") if isinstance(template, dict) else None
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        if isinstance(annotations, dict):
            yield from annotation_rules(annotations, f"spec.tasks[{index}].template.{PATH}", OF_PODS)


def _queue(raw: JSON, view: QueueView, old: JSON | None) -> Judged:
    queue, found = _read(Queue, raw)
    queue = apply_queue_defaults(queue)
    before = None if old is None else Queue.model_validate(old)
    return queue.dump(), [*found, *validate_queue(queue, view, _LIMITS, before)]


def _podgroup(raw: JSON, view: QueueView, _: JSON | None) -> Judged:
    group, found = _read(PodGroup, raw)
    return group.dump(), [*found, *validate_podgroup(group, view)]


def _hypernode(raw: JSON, _view: QueueView, _old: JSON | None) -> Judged:
    node, found = _read(HyperNode, raw)
    return node.dump(), [*found, *validate_hypernode(node)]


def _pod(raw: JSON, _view: QueueView, _old: JSON | None) -> Judged:
    pod, found = _read(Pod, raw)
    try:
        pod_requests(pod.spec)
    except QuantityError as error:
        found.append(Violation("invalid-quantity", "spec.containers", str(error)))
    template = validate_template(PodTemplateSpec(spec=pod.spec), "")
    found += (Violation(one.code, one.path.lstrip("."), one.message) for one in template)
    return pod.dump(), [*found, *validate_pod(pod, (names.DEFAULT_SCHEDULER,))]


def _node(raw: JSON, _view: QueueView, _old: JSON | None) -> Judged:
    """A node is ready unless it says otherwise; what is allocatable is its capacity unless it says so."""
    node, found = _read(Node, raw)
    status = node.status
    room = status.allocatable or status.capacity
    if not room:
        found.append(Violation("required", "status.allocatable", "a node needs what can be placed on it"))
    found += amounts(room, "status.allocatable" if status.allocatable else "status.capacity")[1]
    done = node.dump()
    try:
        read_devices(done)
    except ValueError as error:
        found.append(Violation("invalid", "metadata.annotations", str(error)))
    conditions = [one.dump() for one in status.conditions]
    if not any(one.type == "Ready" for one in status.conditions):
        conditions.append({"type": "Ready", "status": "True"})
    done["status"] = {
        **done.get("status", {}),
        "allocatable": {"pods": _PODS_OF_A_NODE, **room},
        "conditions": conditions,
    }
    return done, found


def _numatopology(raw: JSON, _view: QueueView, _old: JSON | None) -> Judged:
    topology, found = _read(Numatopology, raw)
    done = topology.dump()
    if not found:
        try:
            read_numatopology(done)
        except ValueError as error:
            found.append(Violation("invalid", "spec", words(error)))
    return done, found


def _config_map(raw: JSON, _view: QueueView, _old: JSON | None) -> Judged:
    config, found = _read(ConfigMap, raw)
    if (config.metadata.namespace, config.metadata.name) == POLICY:
        at = f"data[{POLICY_KEY}]"
        if POLICY_KEY not in config.data:
            found.append(Violation("required", at, "the policy is expected here"))
        else:
            problems = configure(config.data[POLICY_KEY], Policy()).problems
            found += (Violation(problem.code.value, at, str(problem)) for problem in problems)
    return config.dump(), found


def _budget(raw: JSON, _view: QueueView, _old: JSON | None) -> Judged:
    budget, found = _read(PodDisruptionBudget, raw)
    limits = {"minAvailable": budget.spec.min_available, "maxUnavailable": budget.spec.max_unavailable}
    given = {name: value for name, value in limits.items() if value is not None}
    if len(given) > 1:
        found.append(Violation("invalid", "spec", "has both minAvailable and maxUnavailable: one is allowed"))
    for name, value in given.items():
        if not (_PERCENT.fullmatch(value) if isinstance(value, str) else value >= 0):
            message = f'"{value}" is neither a whole number from 0 on nor a percentage from 0% to 100%'
            found.append(Violation("invalid", f"spec.{name}", message))
    if (selector := budget.spec.selector) is not None:
        for index, one in enumerate(selector.match_expressions):
            found += _one_of(f"spec.selector.matchExpressions[{index}].operator", one.operator, _OPERATORS)
    return budget.dump(), found


def _volume(raw: JSON, _view: QueueView, _old: JSON | None) -> Judged:
    volume, found = _read(PersistentVolume, raw)
    done = volume.dump()
    try:
        size_of(done)
        reach_of(done)
    except ValueError as error:
        found.append(Violation("invalid", "spec", words(error)))
    return done, found


def _claim(raw: JSON, _view: QueueView, _old: JSON | None) -> Judged:
    claim, found = _read(PersistentVolumeClaim, raw)
    field, asked = "spec.resources.requests.storage", claim.spec.resources.requests.get("storage")
    if asked is None:
        found.append(Violation("required", field, "a claim asks for some storage"))
    else:
        try:
            size = Quantity.parse(asked)
        except QuantityError as error:
            found.append(Violation("invalid", field, str(error)))
        else:
            if size <= Quantity.parse("0"):
                found.append(Violation("invalid", field, f"{asked} must be greater than zero"))
    return claim.dump(), found


def _priority_class(raw: JSON, _view: QueueView, _old: JSON | None) -> Judged:
    one, found = _read(PriorityClass, raw)
    found += _one_of("preemptionPolicy", one.preemption_policy, ("PreemptLowerPriority", "Never"))
    if one.value > _MOST_PRIORITY and not one.metadata.name.startswith("system-"):
        found.append(
            Violation("invalid", "value", f"{one.value} is more than {_MOST_PRIORITY}, the most allowed")
        )
    return one.dump(), found


def _storage_class(raw: JSON, _view: QueueView, _old: JSON | None) -> Judged:
    one, found = _read(StorageClass, raw)
    modes = ("Immediate", "WaitForFirstConsumer")
    return one.dump(), [*found, *_one_of("volumeBindingMode", one.volume_binding_mode, modes)]


def _one_of(field: str, said: str | None, allowed: tuple[str, ...]) -> list[Violation]:
    if said is None or said in allowed:
        return []
    return [Violation("invalid", field, f'"{said}" is not one of {", ".join(allowed)}')]


def _plain(model: type[KubeObject]) -> Judge:
    def judge(raw: JSON, _view: QueueView, _old: JSON | None) -> Judged:
        read, found = _read(model, raw)
        return read.dump(), found

    return judge


def _read(model: type[M], raw: JSON) -> tuple[M, list[Violation]]:
    read, found = salvage(model, raw)
    rules = schema_rules(model, read.dump()) if "spec" in model.model_fields else []
    return read, [*found, *metadata_rules(read.metadata), *rules]


KINDS: Final[Mapping[tuple[str, str], Kind]] = {
    (kind.resource.group, kind.resource.kind): kind
    for kind in (
        Kind(r.NODES, _node, changeable=True),
        Kind(r.NUMATOPOLOGIES, _numatopology, changeable=True),
        Kind(r.QUEUES, _queue, changeable=True),
        Kind(r.PRIORITYCLASSES, _priority_class, changeable=True),
        Kind(r.HYPERNODES, _hypernode, changeable=True),
        Kind(r.JOBS, _job, changeable=True),
        Kind(r.PODGROUPS, _podgroup),
        Kind(r.PODS, _pod),
        Kind(r.PVCS, _claim),
        Kind(r.PVS, _volume),
        Kind(r.STORAGECLASSES, _storage_class, changeable=True),
        Kind(r.CSINODES, _plain(CSINode), changeable=True),
        Kind(r.DEVICECLASSES, _plain(DeviceClass), changeable=True),
        Kind(r.RESOURCESLICES, _plain(ResourceSlice), changeable=True),
        Kind(r.RESOURCECLAIMS, _plain(ResourceClaim)),
        Kind(r.RESOURCECLAIMTEMPLATES, _plain(ResourceClaimTemplate)),
        Kind(r.PDBS, _budget, changeable=True),
        Kind(r.CONFIGMAPS, _config_map, changeable=True),
    )
}
"""By API group and kind."""


_OF_KINDS: Final = {r.JOBS: OF_PODS, r.PODS: OF_PODS, r.NODES: OF_NODES}
"""Annotations that mean something on a kind beside those of all objects."""


def judge(kind: Kind, raw: JSON, view: QueueView, old: JSON | None) -> Judged:
    """Return the object with its defaults, and everything that is wrong with it."""
    allowed = (*OF_OBJECTS, *_OF_KINDS.get(kind.resource, ()))
    annotations = raw["metadata"].get("annotations")
    found = list(annotation_rules(annotations, PATH, allowed)) if isinstance(annotations, dict) else []
    done, more = kind.judge(raw, view, old)
    unique: dict[tuple[str, str], Violation] = {}
    for one in (*more, *found):
        if not (one.code == "required" and _KUBELETS.search(f".{one.path}")):
            unique.setdefault((one.path, one.message), one)
    return done, list(unique.values())
