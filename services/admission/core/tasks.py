"""Tasks of a job: names, numbers, partitions, dependencies."""

from __future__ import annotations

from collections.abc import Iterator

from services.admission.core.formats import dns_label, qualified_name
from services.admission.core.graphs import cycle
from services.admission.core.plugins import SVC
from services.admission.core.podtemplate import validate_template
from services.admission.core.policies import policy_rules
from services.admission.core.violations import Violation, did_you_mean, listing
from shared.api.batch import Job, NetworkTopologySpec, TaskSpec, TopologyPolicy
from shared.api.names import pod_name
from shared.api.pods import PodSpec
from shared.api.quantity import Quantity, QuantityError
from shared.api.scheduling import NetworkTopologySpec as GroupTopology

_POLICIES = frozenset(str(policy) for policy in TopologyPolicy)


def task_rules(job: Job) -> Iterator[Violation]:
    """Every rule for the tasks of a new job."""
    if not job.spec.tasks:
        yield Violation("no-tasks", "spec.tasks", "a job needs at least one task")
    names: set[str] = set()
    for index, task in enumerate(job.spec.tasks):
        path = f"spec.tasks[{index}]"
        if task.name in names:
            yield Violation("duplicate-task-name", f"{path}.name", f'another task is named "{task.name}"')
        names.add(task.name)
        yield from _name(job, task, index, path)
        yield from number_rules(task, path)
        yield from policy_rules(task.policies, f"{path}.policies")
        yield from validate_template(task.template, f"{path}.template")
        yield from _topology_policy(task, path)
    yield from _dependencies(job)


def number_rules(task: TaskSpec, path: str) -> Iterator[Violation]:
    """Replicas, minimum and partitions of a task (new or changed)."""
    least = task.min_available
    yield from at_least(task.replicas, f"{path}.replicas", 0)
    yield from at_least(task.max_retry, f"{path}.maxRetry", 0)
    if least is not None:
        yield from at_least(least, f"{path}.minAvailable", 0)
        if least > task.replicas >= 0:
            yield Violation(
                "task-min-available-above-replicas",
                f"{path}.minAvailable",
                f"{least} is more than the task's replicas, {task.replicas}",
            )
    yield from _partitions(task, f"{path}.partitionPolicy")


def at_least(number: int | None, path: str, low: int) -> Iterator[Violation]:
    """A number must be absent or not below a limit."""
    if number is not None and number < low:
        yield Violation("out-of-range", path, f"{number} must be at least {low}")


def topology_rules(topology: NetworkTopologySpec | GroupTopology | None, path: str) -> Iterator[Violation]:
    """The two ways to name the highest tier exclude each other."""
    if topology is None:
        return
    yield from at_least(topology.highest_tier_allowed, f"{path}.highestTierAllowed", 0)
    if topology.highest_tier_allowed is not None and topology.highest_tier_name:
        yield Violation(
            "topology-tier-conflict", path, "highestTierAllowed and highestTierName exclude each other"
        )


def _name(job: Job, task: TaskSpec, index: int, path: str) -> Iterator[Violation]:
    if problem := dns_label(task.name):
        yield Violation("invalid-task-name", f"{path}.name", f'"{task.name[:80]}" {problem}')
        return
    pod = pod_name(job.metadata.name, task.name, index)
    if job.metadata.name and (problem := qualified_name(pod)):
        yield Violation(
            "invalid-pod-name", f"{path}.name", f'its pods\' names, as in "{pod[:80]}": {problem}'
        )
    elif SVC in job.spec.plugins and task.replicas > 0:
        # The svc plugin makes the pod's name its host name, which has the length of a label.
        last = pod_name(job.metadata.name, task.name, task.replicas - 1)
        if len(last) > 63:  # noqa: PLR2004 - RFC 1123
            message = f'"{last[:80]}" is too long for a host name, which the svc plugin makes of it (63)'
            yield Violation("invalid-pod-name", f"{path}.name", message)


def _partitions(task: TaskSpec, path: str) -> Iterator[Violation]:
    policy = task.partition_policy
    if policy is None:
        return
    yield from at_least(policy.total_partitions, f"{path}.totalPartitions", 1)
    yield from at_least(policy.partition_size, f"{path}.partitionSize", 1)
    yield from at_least(policy.min_partitions, f"{path}.minPartitions", 0)
    yield from topology_rules(policy.network_topology, f"{path}.networkTopology")
    if policy.total_partitions < 1 or policy.partition_size < 1:
        return
    total, size, least = policy.total_partitions, policy.partition_size, policy.min_partitions
    if total * size != task.replicas:
        message = f"{total} partitions of {size} are {total * size} pods, but replicas is {task.replicas}"
        yield Violation("partition-size-mismatch", path, message)
    if least > total:
        message = f"{least} must not be above totalPartitions, {total}"
        yield Violation("min-partitions-above-total", f"{path}.minPartitions", message)
    if least > 0 and task.min_available is not None and task.min_available != least * size:
        message = f"at least {least} partitions of {size} are {least * size} pods, not {task.min_available}"
        at = f"{path.rpartition('.')[0]}.minAvailable"
        yield Violation("partition-min-available-mismatch", at, message)


def _topology_policy(task: TaskSpec, path: str) -> Iterator[Violation]:
    policy = task.topology_policy
    if not policy or policy == TopologyPolicy.NONE:
        return
    if policy not in _POLICIES:
        message = f'"{policy[:80]}" is not one of {listing(_POLICIES)}{did_you_mean(policy, _POLICIES)}'
        yield Violation("unsupported-topology-policy", f"{path}.topologyPolicy", message)
        return
    for at in _without_whole_cpus(task.template.spec, f"{path}.template.spec"):
        message = f"topologyPolicy {policy} needs a whole number of CPUs, at least one"
        yield Violation("topology-policy-needs-whole-cpus", at, message)


def _without_whole_cpus(spec: PodSpec, path: str) -> Iterator[str]:
    for part, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            resources = container.resources
            text = (resources.requests or resources.limits).get("cpu", 0)
            try:
                cpus = Quantity.parse(text)
            except QuantityError:
                continue  # reported where it is written
            if not cpus.is_integer() or cpus < Quantity.of(1):
                yield f"{path}.{part}[{index}].resources.requests[cpu]"


def _dependencies(job: Job) -> Iterator[Violation]:
    graph = {task.name: task.depends_on.name if task.depends_on else [] for task in job.spec.tasks}
    for index, task in enumerate(job.spec.tasks):
        for position, name in enumerate(graph[task.name] if task.depends_on else []):
            if name not in graph:
                message = f'the job has no task "{name[:80]}"{did_you_mean(name, graph)}'
                at = f"spec.tasks[{index}].dependsOn.name[{position}]"
                yield Violation("unknown-dependency", at, message)
    if circle := cycle(graph):
        index = next(i for i, task in enumerate(job.spec.tasks) if task.name == circle[0])
        message = f"tasks wait for each other: {' → '.join([*circle, circle[0]])}"
        yield Violation("cyclic-dependency", f"spec.tasks[{index}].dependsOn", message)
