"""The life of one pod on its node: containers start, end and start again, as far as time has come.

Theory of operation. A :class:`PodRun` holds when each container started and ended, and nothing that depends
on when it is asked: :meth:`PodRun.advance` carries it to ``now`` and says when to ask again. So a late or
repeated call, or a kubelet that starts again with the statuses it wrote, comes to the same result.

Kept of the real kubelet: init containers run in order; one with ``restartPolicy: Always`` (a sidecar) stays
until the others end. A container that ends is started again by the pod's restart policy: at once the first
time, then after 10 s, 20 s … 5 min, from the start again after a run of 10 minutes. A pod that is stopped
(deleted, or over its active deadline) starts nothing more; its containers get SIGTERM.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from simulator.kubelet.core.shell import Program

_BACKOFF_FIRST: Final = 10.0
_BACKOFF_LONGEST: Final = 300.0
_BACKOFF_RESET: Final = timedelta(minutes=10)
SIGTERM_CODE: Final = 143
SIGKILL_CODE: Final = 137


@dataclass(frozen=True, slots=True)
class Ended:
    """One finished run of a container."""

    started: datetime
    finished: datetime
    exit_code: int


@dataclass(frozen=True, slots=True)
class Stop:
    """An order to end: what does not end by itself before ``until`` ends then with ``exit_code``."""

    asked: datetime
    until: datetime
    exit_code: int


@dataclass(slots=True)
class ContainerRun:
    """A container and its runs. ``policy`` is Always, OnFailure or Never."""

    name: str
    image: str
    program: Program
    policy: str
    is_sidecar: bool = False
    started: datetime | None = None
    """The start of the run that goes on; None when none does."""
    last: Ended | None = None
    """The latest finished run."""
    restarts: int = 0
    done: bool = False
    """It will not run (again)."""
    quick_ends: int = 0
    """Ends in a row that the back-off counts."""

    @property
    def succeeded(self) -> bool:
        """Whether it is done and its last run ended well."""
        return self.done and self.last is not None and self.last.exit_code == 0

    @property
    def starts(self) -> int:
        """How many runs were begun."""
        return self.restarts + (self.started is not None or self.last is not None)

    @property
    def ends(self) -> int:
        """How many runs have ended."""
        return self.restarts + (self.started is None and self.last is not None)

    def advance(self, start: datetime, now: datetime, stop: Stop | None) -> datetime | None:
        """Run from ``start`` up to ``now``; return when something happens next, None if nothing will."""
        while not self.done:
            if self.started is None:
                begin = self._next_start(start)
                if stop is not None and begin >= stop.asked:
                    self.done = True
                    return None
                if begin > now:
                    return begin
                self.started = begin
                self.restarts += self.last is not None
            end, code = self._end(self.started, stop)
            if end is None or end > now:
                return end
            self._finish(Ended(self.started, end, code), stopped=stop is not None)
        return None

    def _next_start(self, start: datetime) -> datetime:
        if self.last is None:
            return start
        wait = 0.0
        if self.quick_ends > 1:
            wait = min(_BACKOFF_LONGEST, _BACKOFF_FIRST * 2.0 ** min(self.quick_ends - 2, 10))
        return self.last.finished + timedelta(seconds=wait)

    def _end(self, started: datetime, stop: Stop | None) -> tuple[datetime | None, int]:
        end = None
        if self.program.seconds is not None:
            end = started + timedelta(seconds=self.program.seconds)
        if stop is not None and (end is None or end > stop.until):
            return stop.until, stop.exit_code
        return end, self.program.exit_code

    def _finish(self, ended: Ended, *, stopped: bool) -> None:
        self.last, self.started = ended, None
        again = self.policy == "Always" or (self.policy == "OnFailure" and ended.exit_code != 0)
        self.done = stopped or not again
        self.quick_ends = 1 if ended.finished - ended.started >= _BACKOFF_RESET else self.quick_ends + 1


@dataclass(slots=True)
class PodRun:
    """A pod that was admitted. ``begin`` is when its first container starts, after the start delay."""

    admitted: datetime
    begin: datetime
    containers: list[ContainerRun]
    init: list[ContainerRun] = field(default_factory=list[ContainerRun])
    deadline: datetime | None = None
    """When it has been active for longer than it may; see ``activeDeadlineSeconds``."""
    stop: Stop | None = None
    is_overdue: bool = False
    initialized: datetime | None = None
    ended: datetime | None = None

    def advance(self, now: datetime) -> datetime | None:
        """Carry the pod to ``now``; return when to ask again, None if only an order can change it."""
        if self.ended is not None:
            return None
        if self.deadline is not None and self.stop is None and self.deadline <= now:
            self._run(self.deadline)
            if not self._all_done():
                self.is_overdue = True
                self.stop = Stop(self.deadline, self.deadline, SIGTERM_CODE)
        wake = self._run(now)
        if self.ended is not None or self.stop is not None or self.deadline is None:
            return wake
        return min(wake, self.deadline) if wake is not None else self.deadline

    def order_stop(self, asked: datetime, grace_seconds: float, stop_seconds: float) -> None:
        """Stop: containers get SIGTERM, end ``stop_seconds`` later, or are killed when the grace is over."""
        if self.ended is not None or self.stop is not None:
            return
        self.advance(asked)
        seconds = min(stop_seconds, grace_seconds)
        code = SIGTERM_CODE if stop_seconds <= grace_seconds else SIGKILL_CODE
        self.stop = Stop(asked, asked + timedelta(seconds=seconds), code)

    def _all_done(self) -> bool:
        return all(container.done for container in self.containers)

    def _run(self, now: datetime) -> datetime | None:
        time = self.begin
        wakes: list[datetime] = []
        for container in self.init:
            wake = container.advance(time, now, self.stop)
            if container.is_sidecar:
                wakes += [wake] if wake is not None else []
                if container.started is None and container.last is None:
                    if container.done:
                        self._give_up(container)
                    return wake
                continue
            if not container.done:
                return wake
            if not container.succeeded:
                self._give_up(container)
                return None
            time = max(time, container.last.finished if container.last else time)
        self.initialized = time if time <= now else None
        for container in self.containers:
            wake = container.advance(time, now, self.stop)
            wakes += [wake] if wake is not None else []
        if self._all_done():
            self._end([*self.containers, *self.init])
            return None
        return min(wakes, default=None)

    def _give_up(self, container: ContainerRun) -> None:
        """End a pod whose init container failed or may not start any more; the rest never runs."""
        for other in self.containers:
            other.done = True
        self._end([container, *self.init])

    def _end(self, containers: list[ContainerRun]) -> None:
        """Note the end; sidecars end with the pod, well."""
        finished = [container.last.finished for container in containers if container.last is not None]
        fallback = self.stop.asked if self.stop is not None else self.begin
        self.ended = max(finished, default=fallback)
        for sidecar in self.init:
            if sidecar.started is not None:
                end = max(self.ended, sidecar.started)
                sidecar.last, sidecar.started = Ended(sidecar.started, end, 0), None
            sidecar.done = True

    @property
    def phase(self) -> str:
        """The pod's phase, as the real kubelet's getPhase says."""
        if self.ended is not None:
            succeeded = not self.is_overdue and all(container.succeeded for container in self.containers)
            return "Succeeded" if succeeded else "Failed"
        has_run = any(container.started or container.last for container in self.containers)
        return "Running" if has_run else "Pending"

    @property
    def revision(self) -> int:
        """A number that grows with each start and end: a status written for it need not be written again."""
        everyone = [*self.init, *self.containers]
        return sum(container.starts + container.ends for container in everyone) + (self.ended is not None)
