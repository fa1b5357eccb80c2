"""The topics: what is on each, by which key, and with which settings of the log.

``job-submitted`` and those of commands are for anybody to write; the others have one writing service.
Partition counts are those at creation; a cluster's operator may raise them for the topics keyed by
job, never for those keyed by node pool (a pool's owner is its partition's).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shared.errors import ContractError
from shared.events import contracts as c
from shared.log.port import Cleanup, TopicSpec

_DAY_MS: Final = 24 * 3600 * 1000

JOB_SUBMITTED: Final = "job-submitted"
JOB_COMMANDS: Final = "job-commands"
QUEUE_COMMANDS: Final = "queue-commands"
POOL_COMMANDS: Final = "pool-commands"
JOB_ADMITTED: Final = "job-admitted"
JOB_REJECTED: Final = "job-rejected"
PODGROUP_READY: Final = "podgroup-ready"
CLUSTER_STATE: Final = "cluster-state"
BIND_DECISIONS: Final = "bind-decisions"
BIND_RESULTS: Final = "bind-results"
SCHEDULING_REPORTS: Final = "scheduling-reports"
JOB_LIFECYCLE: Final = "job-lifecycle"
QUEUE_USAGE: Final = "queue-usage"
RUN_TIMES: Final = "run-times"
NODE_LOAD: Final = "node-load"
TRIALS: Final = "trials"
EXTENDER_ANSWERS: Final = "extender-answers"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's contract: ``key`` in words, who writes it, what it says, and the events on it."""

    spec: TopicSpec
    key: str
    writers: tuple[str, ...]
    says: str
    events: tuple[type[c.Contract], ...]


GANG_BYTES: Final = 7_500_000
"""Limit of a message about a whole gang: enough for ``MOST_PODS`` of a job with the longest names."""


def _log(name: str, partitions: int, days: int, record_bytes: int | None = None) -> TopicSpec:
    return TopicSpec(name, partitions=partitions, retention_ms=days * _DAY_MS, record_bytes=record_bytes)


def _compacted(name: str, partitions: int, record_bytes: int | None = None) -> TopicSpec:
    return TopicSpec(name, partitions=partitions, cleanup=Cleanup.COMPACT, record_bytes=record_bytes)


_JOB: Final = "namespace/name"
_POOL: Final = "node pool"

TOPICS: Final[dict[str, Topic]] = {
    topic.spec.name: topic
    for topic in (
        Topic(
            _log(JOB_SUBMITTED, 6, 7),
            _JOB,
            ("gateway", "any client"),
            "Somebody wants this job.",
            (c.JobSubmitted,),
        ),
        Topic(
            _log(JOB_COMMANDS, 6, 7), _JOB, ("gateway", "any client"), "A command to a job.", (c.CommandJob,)
        ),
        Topic(
            _log(QUEUE_COMMANDS, 1, 7),
            "queue",
            ("gateway", "any client"),
            "A command to a queue.",
            (c.CommandQueue,),
        ),
        Topic(
            _compacted(POOL_COMMANDS, 1),
            _POOL,
            ("gateway", "any client"),
            "The last command to a node pool's scheduler.",
            (c.CommandPool,),
        ),
        Topic(_log(JOB_ADMITTED, 6, 7), _JOB, ("admission",), "The job with its defaults.", (c.JobAdmitted,)),
        Topic(
            _log(JOB_REJECTED, 6, 7),
            _JOB,
            ("admission", "controller"),
            "Every reason why a job will not be created.",
            (c.JobRejected,),
        ),
        Topic(
            _log(PODGROUP_READY, 6, 7, GANG_BYTES),
            _POOL,
            ("controller",),
            "This gang can be queued.",
            (c.GangReady,),
        ),
        Topic(
            _compacted(CLUSTER_STATE, 6, GANG_BYTES),
            "kind/namespace/name",
            ("controller",),
            "What exists: nodes, pods, queues, podgroups, priority classes, disruption budgets, hypernodes, "
            "the policy, jobs; and of which cluster.",
            (
                c.NodeState,
                c.PodState,
                c.QueueState,
                c.PodGroupState,
                c.PriorityClassState,
                c.PodDisruptionBudgetState,
                c.HyperNodeState,
                c.PolicyState,
                c.ClusterState,
                c.JobState,
            ),
        ),
        Topic(
            _log(BIND_DECISIONS, 6, 7, GANG_BYTES),
            _POOL,
            ("scheduler",),
            "One gang's decision, whole.",
            (c.GangDecided, c.CycleDecided),
        ),
        Topic(
            _log(BIND_RESULTS, 6, 7, GANG_BYTES),
            _POOL,
            ("controller",),
            "What became of a decision.",
            (c.DecisionApplied,),
        ),
        Topic(_compacted(SCHEDULING_REPORTS, 6), _JOB, ("scheduler",), "Why a gang waits.", (c.GangReport,)),
        Topic(
            _log(JOB_LIFECYCLE, 6, 30),
            _JOB,
            ("controller",),
            "Each change of a job's phase.",
            (c.JobPhaseChanged,),
        ),
        Topic(
            _compacted(RUN_TIMES, 1),
            "queue/template",
            ("controller",),
            "For how long jobs of a template ran.",
            (c.TemplateRunTimes,),
        ),
        Topic(
            _compacted(NODE_LOAD, 1, GANG_BYTES),
            _POOL,
            ("scheduler",),
            "What nodes really use, where the policy asks for it.",
            (c.NodesMeasured,),
        ),
        Topic(
            _compacted(EXTENDER_ANSWERS, 1, GANG_BYTES),
            "pool/question",
            ("scheduler",),
            "What an extender (Volcano's plugin) said of nodes for pods of a shape.",
            (c.ExtenderAnswered,),
        ),
        Topic(
            _log(TRIALS, 1, 1, GANG_BYTES),
            "trial",
            ("gateway", "admission", "controller", "scheduler"),
            "What would become of a job: the question, how far it is, and the answer. Read from its end on.",
            (c.TrialRequested, c.TrialAdmitted, c.TrialReady, c.TrialAnswered),
        ),
        Topic(
            _compacted(QUEUE_USAGE, 1),
            "queue",
            ("usage",),
            "Decayed GPU time used by a queue.",
            (c.QueueUsage,),
        ),
    )
}


def dead_letter(topic: str) -> str:
    """Return the name of a topic's dead-letter topic."""
    return f"{topic}.dead-letter"


SPECS: Final[tuple[TopicSpec, ...]] = (
    *(topic.spec for topic in TOPICS.values()),
    *(TopicSpec(dead_letter(name), partitions=1, retention_ms=30 * _DAY_MS) for name in TOPICS),
)
"""Every topic that exists, dead-letter topics included."""


def job_key(namespace: str, name: str) -> bytes:
    """Return the key of a job's or gang's record: ``namespace/name``."""
    return f"{namespace}/{name}".encode()


def answer_key(pool: str, question: str) -> bytes:
    """Return the key of an extender's answer: ``pool/question``."""
    return f"{pool}/{question}".encode()


def state_key(kind: str, namespace: str, name: str) -> bytes:
    """Return the key of a ``cluster-state`` record; ``namespace`` is empty for cluster-wide kinds.

    ``kind`` is ``node``, ``pod``, ``queue``, ``podgroup``, ``priorityclass``,
    ``poddisruptionbudget``, ``hypernode``, ``policy``, ``cluster`` or ``job``.
    """
    return f"{kind}/{namespace}/{name}".encode()


def parse_state_key(key: bytes) -> tuple[str, str, str]:
    """Return (kind, namespace, name) of a ``cluster-state`` key. Raises ContractError ``bad-key``."""
    try:
        kind, namespace, name = key.decode().split("/", 2)
    except ValueError as error:
        raise ContractError("bad-key", f"{key!r} is not kind/namespace/name") from error
    return kind, namespace, name
