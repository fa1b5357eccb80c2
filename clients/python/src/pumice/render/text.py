"""Words and numbers: durations, amounts, and why a job waits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from pumice.errors import Violation
from pumice.models import JobView, PhaseTime, Placement, Reason, Trial, Waiting

_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_BINARY: Final = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))
_BYTES: Final = ("memory", "ephemeral-storage", "storage")
STYLES: Final[Mapping[str, str]] = {
    "Completed": "green",
    "Running": "cyan",
    "Pending": "yellow",
    "Restarting": "yellow",
    "Failed": "bold red",
    "Rejected": "bold red",
    "Aborted": "magenta",
    "Terminated": "red",
}
"""A phase's colour in ``rich``'s words."""


def duration(seconds: float) -> str:
    """Return a duration with its two largest units: ``0.25s``, ``42s``, ``3m7s``, ``2d4h``."""
    if seconds < 10:  # noqa: PLR2004 - where a fraction still says something
        return f"{max(seconds, 0.0):.2f}".rstrip("0").rstrip(".") + "s"
    parts: list[str] = []
    rest = int(seconds)
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return "".join(part for part in parts[:2] if not part.startswith("0"))


def took(seconds: float) -> str:
    """Return how long a phase took, in milliseconds below one second."""
    return f"{seconds * 1000:.1f}ms" if seconds < 1 else duration(seconds)


def age(then: datetime | None, now: datetime) -> str:
    """Return how long ago something was, in whole seconds; ``-`` when nobody knows."""
    if then is None:
        return "-"
    seconds = max(0.0, (now - aware(then)).total_seconds())
    return duration(seconds) if seconds >= 10 else f"{int(seconds)}s"  # noqa: PLR2004


def aware(moment: datetime) -> datetime:
    """Return a time with its zone; one without is in UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def moment(when: datetime | None) -> str:
    """Return a time of day in UTC with milliseconds."""
    return "-" if when is None else aware(when).astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]


def stamp(when: datetime | None) -> str:
    """Return a date and time in UTC."""
    return "-" if when is None else aware(when).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def amount(resource: str, value: float) -> str:
    """Return an amount in base units as people write it: ``cpu`` in cores, memory with a binary unit."""
    if resource == "cpu" or resource.endswith(".cpu"):
        return f"{value / 1000:g}" if value % 100 == 0 else f"{value:g}m"
    if resource in _BYTES or resource.startswith("hugepages-"):
        for size, unit in _BINARY:
            if value >= size:
                return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:g}"


def amounts(resources: Mapping[str, float] | None) -> str:
    """Return amounts in one line, scarce ones first; ``-`` for none."""
    if not resources:
        return "-"
    names = sorted(resources, key=lambda name: ("/" not in name, name))
    return " ".join(f"{name}={amount(name, resources[name])}" for name in names)


def pods(job: JobView) -> str:
    """Return how many pods run (or ran to their end) of how many."""
    return f"{job.pods.running + job.pods.succeeded}/{job.replicas}"


def why(job: JobView) -> str:
    """Return in one line why the job is where it is; empty when there is nothing to say."""
    if job.waiting is not None and job.waiting.reason.message and not job.started:
        return job.waiting.reason.message
    return job.message or job.reason


def numbers(reason: Reason) -> str:
    """Return a reason's numbers in one line."""
    return " ".join(f"{key}={value}" for key, value in reason.numbers.items())


def explanation(job: JobView, now: datetime) -> list[str]:
    """Return why a job waits, with numbers and the next step; or where it is placed."""
    title = f"job {job.namespace}/{job.name}"
    if job.ended:
        end = f", {age(job.finished_at, now)} ago" if job.finished_at else ""
        lines = [f"{title} ended: {job.phase}{end}"]
        lines += [f"why:       {why(job)}"] if why(job) else []
        return [*lines, *violations(job)]
    if job.deleted:
        return [f"{title} was deleted: it was {job.phase or 'not begun'}"]
    if job.started:
        more = [] if job.waiting is None else ["More of its pods wait.", *_obstacles(job.waiting, now)]
        return [
            f"{title} runs in queue {job.queue}: {pods(job)} pods, minimum {job.min_available}",
            *placed(job),
            *more,
        ]
    since = job.waiting.waiting_since if job.waiting else job.created_at or job.submitted_at
    lines = [f"{title} waits in queue {job.queue} for {age(since, now)} (phase {job.phase or 'unknown'})"]
    if job.waiting is None:
        lines.append(f"why:       {why(job) or 'the scheduler has not looked at it yet'}")
        return [*lines, *placed(job)]
    return [*lines, *_obstacles(job.waiting, now), *placed(job)]


def description(job: JobView, now: datetime) -> list[str]:
    """Return all that is known of a job, as lines."""
    counts = ", ".join(f"{count} {name}" for name, count in job.pods.dump().items() if count)
    fields = (
        ("Name", job.name),
        ("Namespace", job.namespace),
        ("UID", job.uid or "-"),
        ("Queue", job.queue),
        (
            "Phase",
            job.phase + (", being deleted" if job.deleting else "") + (", deleted" if job.deleted else ""),
        ),
        ("Pods", f"{pods(job)}, minimum {job.min_available}" + (f" ({counts})" if counts else "")),
        ("Requests", amounts(job.requests)),
        ("Priority", job.priority_class or "-"),
        ("Retries", str(job.retry_count)),
        ("Submitted", f"{stamp(job.submitted_at)}" + (f" by {job.submitted_by}" if job.submitted_by else "")),
        ("Created", stamp(job.created_at)),
        ("Started", stamp(job.started_at)),
        ("Finished", stamp(job.finished_at)),
    )
    lines = [f"{title + ':':<12} {value}" for title, value in fields]
    if job.urls:
        lines += ["URLs:", *(f"  {name}  {url}" for name, url in job.urls.items())]
    if job.place:
        lines += ["Place:", *(f"  {one.pod}  {one.node or '-'}  {one.phase or '-'}" for one in job.place)]
    if job.timeline:
        lines += ["Timeline:", *(_phase(one) for one in job.timeline)]
    return [*lines, "Now:", *(f"  {line}" for line in explanation(job, now))]


def _phase(one: PhaseTime) -> str:
    length = "goes on" if one.seconds is None else took(one.seconds)
    return f"  {moment(one.start)}  {one.phase:<8} {length:>8}" + (
        f"  error: {one.error}" if one.error else ""
    )


def _obstacles(waiting: Waiting, now: datetime) -> list[str]:
    lines = [f"why:       {waiting.reason.message or waiting.reason.code}"]
    if waiting.reason.code and waiting.reason.message:
        lines.append(f"code:      {waiting.reason.code}")
    if waiting.reason.numbers:
        lines.append(f"numbers:   {numbers(waiting.reason)}")
    lines += [f"also:      {detail.message or detail.code}" for detail in waiting.details]
    if waiting.position is not None:
        length = f" of {waiting.queue_length}" if waiting.queue_length else ""
        lines.append(f"position:  {waiting.position}{length} in its queue")
    if waiting.estimated_start is not None:
        lines.append(f"may start: {_start(waiting, now)}")
    elif waiting.outlook:
        lines.append(f"may start: {waiting.outlook}")
    steps = dict.fromkeys(one.next_step for one in (waiting.reason, *waiting.details) if one.next_step)
    return [*lines, *(f"next:      {step}" for step in steps)]


def _start(waiting: Waiting, now: datetime) -> str:
    """Return when it may start, how sure that is, and what it rests on."""
    half, most = waiting.estimated_start, waiting.estimated_start_p90
    if half is None:
        return ""
    ahead = (aware(half) - now).total_seconds()
    late = "" if most is None or most == half else f", p90 {stamp(most)}"
    why = f", {waiting.outlook}" if waiting.outlook else ""
    return f"{stamp(half)} (in {duration(ahead)}{late}){why}"


def trial(found: Trial, now: datetime) -> list[str]:
    """Return what would become of a job: where it would go and who would leave, or why it would wait."""
    title = f"job {found.namespace}/{found.name}"
    if found.waiting is not None:
        return [f"{title} would wait", *_obstacles(found.waiting, now)]
    title += " would start" + (" once these pods have left:" if found.evicted else "")
    lines = [title, *(f"  {one.namespace}/{one.pod}: {one.reason}" for one in found.evicted)]
    lines += on_nodes(found.place)
    more = "1 pod more takes" if found.later == 1 else f"{found.later} pods more take"
    return [*lines, *([f"{more} what room there is then"] if found.later else [])]


def placed(job: JobView) -> list[str]:
    """Return where a job's pods are, a line for each node."""
    return on_nodes(job.place)


def on_nodes(place: Iterable[Placement]) -> list[str]:
    """Return where pods are, a line for each node."""
    nodes: dict[str, list[str]] = {}
    for one in place:
        if one.node:
            nodes.setdefault(one.node, []).append(one.pod)
    return [f"on {node}: {', '.join(sorted(names))}" for node, names in sorted(nodes.items())]


def violations(job: JobView) -> list[str]:
    """Return the reasons why a job was rejected, one a line."""
    return [f"  {Violation(one.code, one.path, one.message)}" for one in job.violations]
