"""A job while it is followed: one moving picture on a terminal, one line a change in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pumice.models import Change, JobView
from pumice.render.text import STYLES, aware, duration, moment, pods, why

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

BAR = 32
"""Characters of the bar of pods."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


def progress(
    changes: Iterable[Change],
    *,
    console: Console | None = None,
    write: Callable[[str], None] = print,
    now: Callable[[], datetime] = _utc_now,
) -> JobView | None:
    """Show changes as they come (``client.watch(name)``) and return the job as it was at the last.

    With a ``console`` that is a terminal it draws in place; otherwise ``write`` gets a line for each
    change that says something new.
    """
    if console is not None and console.is_terminal:
        return _live(changes, console, now)
    last: JobView | None = None
    said = ""
    for change in changes:
        text = status_line(change.job)
        if text != said:
            write(f"{moment(_time(change, now))}  {text}")
        last, said = change.job, text
    return last


def status_line(job: JobView) -> str:
    """Return a job's state in one line."""
    reason = why(job)
    failed = f", {job.pods.failed} failed" if job.pods.failed else ""
    return f"{job.phase or 'Submitted'}  {job.name}  {pods(job)} pods{failed}" + (
        f"  {reason}" if reason else ""
    )


def picture(job: JobView, now: datetime) -> RenderableType:
    """Return a job's state for a terminal: the phase, a bar of its pods, and why it waits."""
    from rich.console import Group
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    style = STYLES.get(job.phase, "")
    head = Table.grid(padding=(0, 1))
    mark = Text("●", style=style) if job.ended else Spinner("dots", style=style)
    born = job.submitted_at or job.created_at
    until = job.finished_at if job.ended and job.finished_at else now
    elapsed = duration((aware(until) - aware(born)).total_seconds()) if born else ""
    head.add_row(mark, Text(job.name, style="bold"), Text(job.phase or "Submitted", style=style), elapsed)
    lines: list[RenderableType] = [head, pod_bar(job)]
    if reason := why(job):
        lines.append(Text(f"  {reason}", style="dim"))
    if job.waiting is not None and not job.started and job.waiting.position is not None:
        lines.append(
            Text(f"  {job.waiting.position} of {job.waiting.queue_length} in queue {job.queue}", style="dim")
        )
    return Group(*lines)


def pod_bar(job: JobView, width: int = BAR) -> RenderableType:
    """Return a bar of a job's pods: ended well, running, failed, and the rest."""
    from rich.text import Text

    whole = max(1, job.replicas)
    text = Text("  ")
    counts = ((job.pods.succeeded, "green"), (job.pods.running, "cyan"), (job.pods.failed, "red"))
    used = done = 0
    for count, style in counts:
        done += count
        end = min(width, round(width * done / whole))
        text.append("━" * max(0, end - used), style=style)
        used = max(used, end)
    text.append("━" * (width - used), style="bright_black")
    text.append(f" {pods(job)} pods")
    return text


def _live(changes: Iterable[Change], console: Console, now: Callable[[], datetime]) -> JobView | None:
    from rich.live import Live

    last: JobView | None = None

    def draw() -> RenderableType:
        return picture(last, now()) if last is not None else ""

    with Live(get_renderable=draw, console=console, refresh_per_second=8) as live:
        for change in changes:
            last = change.job
            live.refresh()
    return last


def _time(change: Change, now: Callable[[], datetime]) -> datetime:
    return change.event.time if change.event is not None and change.event.time is not None else now()
