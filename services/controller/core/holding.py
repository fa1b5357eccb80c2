"""Why plain pods wait for something else than room: no node that is added would help them.

They say so with the reason ``SchedulerError``, kube-scheduler's for what cannot be tried, and not
``Unschedulable``, for which autoscalers add nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared.api.meta import format_time
from shared.errors import TooLarge
from shared.events.contracts import GangRef, GangReport, Reason

_MOST_WORDS: Final = 500
MAY_START: Final = "may start"
"""So begins, in a condition, when a gang may start."""


@dataclass(frozen=True, slots=True)
class Held:
    """What keeps pods from being decided about. ``pods``: those that it is about, by name."""

    code: str
    message: str
    pods: frozenset[str] = frozenset()
    whole: bool = True
    """Whether it keeps all pods of the group, and not only those that it is about."""

    def keeps(self, pod: str) -> bool:
        """Say whether a pod waits because of it."""
        return self.whole or pod in self.pods


def no_podgroup(namespace: str, name: str, pods: Iterable[str]) -> Held:
    """Return why pods wait that name a PodGroup which is not there."""
    message = f"there is no PodGroup {name} in namespace {namespace}, which the pod names by annotation"
    return Held("podgroup-missing", message, frozenset(pods))


def refused_podgroup(message: str) -> Held:
    """Return why pods wait whose PodGroup could not be made."""
    return Held("podgroup-refused", message)


def shut_queue(queue: str, state: str) -> Held:
    """Return why a PodGroup is not let into its queue; ``state`` is empty when there is none."""
    if not state:
        return Held("queue-missing", f"queue {queue} does not exist")
    return Held("queue-not-open", f"queue {queue} is {state.lower()} and takes no new gangs")


def unreadable_podgroup(name: str, problem: str) -> Held:
    """Return why the pods wait of a PodGroup that cannot be read."""
    return Held("podgroup-unreadable", f"PodGroup {name} cannot be read: {problem}")


def unreadable_pods(problems: Mapping[str, str], *, short: bool) -> Held:
    """Return why pods wait that cannot be read, and with them the gang if it is ``short`` of them."""
    first = min(problems)
    others = f" (and {len(problems) - 1} more cannot)" if len(problems) > 1 else ""
    message = f"pod {first} cannot be read{others}: {problems[first]}"
    return Held("pod-unreadable", message, frozenset(problems), whole=short)


def oversized(pods: int, error: TooLarge) -> Held:
    """Return why a gang waits that does not fit into a record of the log."""
    message = (
        f"the gang of {pods} pods has {error.size} bytes, a record of the log at most {error.limit}: "
        "it has to be divided"
    )
    return Held("gang-too-large", message)


def words(error: ValueError | KeyError) -> str:
    """Return what is wrong with an object in one line."""
    return " ".join(str(error).split())[:_MOST_WORDS]


def in_full(report: GangReport) -> str:
    """Return why a gang waits, its place in its queue, and when it may start, in one line."""
    parts = [report.reason.message]
    if report.queue_length > 1:
        parts.append(f"place {report.position} of {report.queue_length} in queue {report.queue}")
    if report.estimated_start is None:
        parts.append(report.outlook)
    else:
        late = report.estimated_start_p90
        p90 = "" if late is None or late == report.estimated_start else f" (p90 {format_time(late)})"
        why = f", {report.outlook}" if report.outlook else ""
        parts.append(f"{MAY_START} at {format_time(report.estimated_start)}{p90}{why}")
    return "; ".join(filter(None, parts))


def as_report(gang: GangRef, queue: str, since: datetime, held: Held, now: datetime) -> GangReport:
    """Return it in the form of the scheduler's reports, for the PodGroup's condition."""
    return GangReport(
        gang=gang,
        queue=queue,
        waiting_since=since,
        position=1,
        queue_length=1,
        reason=Reason(code=held.code, message=held.message),
        at=now,
    )
