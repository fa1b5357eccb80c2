"""What the clients do beyond one request: repeat, follow, wait. Pure; :mod:`pumice.steps` says how."""

from __future__ import annotations

import itertools
from typing import Any, Final, TypeVar

from pumice import calls, errors
from pumice.calls import Answer, Call, State
from pumice.models import REJECTED, Change, Commanded, JobView, QueueCommanded
from pumice.steps import Emit, Flow, Host, Send, Sleep, TransportFailure
from pumice.stream import Stream, late

T = TypeVar("T")
C = TypeVar("C", Commanded, QueueCommanded)

ROUND: Final = 20.0
"""Seconds that one request waits on the server for admission; proxies cut longer ones off."""


def call(what: Call[T], host: Host, *, patience: float = 0.0) -> Flow[T]:
    """Carry a call out; repeat it while the server is away. Raises the errors of :mod:`pumice.errors`.

    It gives up when both the attempts are used up and ``patience`` seconds have passed.
    """
    start = host.monotonic()
    for attempt in itertools.count(1):
        try:
            answer: Answer = yield Send(what.request, what.timeout)
        except TransportFailure as failure:
            error: errors.PumiceError = errors.Unavailable(str(failure))
        else:
            if answer.status < 400:  # noqa: PLR2004 - the first status that is an error
                return what.read(answer)
            error = errors.from_answer(answer.status, answer.headers, answer.body)
        if isinstance(error, errors.NotFound) and what.absent and attempt > 1:
            return what.absent()
        tired = attempt >= host.retry.attempts and host.monotonic() - start >= patience
        if tired or not isinstance(error, errors.Unavailable):
            raise error
        yield Sleep(_pause(error, attempt, host))
    raise AssertionError  # pragma: no cover - count() does not end


def list_jobs(namespace: str | None, queue: str | None, host: Host) -> Flow[tuple[JobView, ...]]:
    """Read all pages of a list of jobs."""
    found: list[JobView] = []
    after: str | None = None
    while True:
        page = yield from call(calls.list_jobs(namespace, queue, after), host)
        found += page.jobs
        after = page.after
        if after is None:
            return tuple(found)


def submit(
    body: dict[str, Any], key: str, wait: State | None, timeout: float | None, host: Host
) -> Flow[JobView]:
    """Submit a job and wait for a state of it. The key makes repeating it safe."""
    if wait is None:
        return (yield from call(calls.submit(body, key=key, wait=None), host))
    start, left = host.monotonic(), ROUND if timeout is None else timeout
    job = yield from call(calls.submit(body, key=key, wait=min(left, ROUND)), host)
    while not _accepted(job).admitted:  # the same key asks about this very submission
        left = ROUND if timeout is None else timeout - (host.monotonic() - start)
        if left <= 0:
            raise errors.TimedOut(late(job.namespace, job.name))
        patience = min(host.retry.patience, left)
        job = yield from call(calls.submit(body, key=key, wait=min(left, ROUND)), host, patience=patience)
    if reached(job, wait):
        return job
    rest = None if timeout is None else timeout - (host.monotonic() - start)
    return (yield from wait_until(job.namespace, job.name, wait, rest, host))


def command(what: Call[C], name: str, host: Host) -> Flow[C]:
    """Give a command to a job or queue. Raises TimedOut when it was waited for and is not done in time."""
    found = yield from call(what, host)
    if what.timeout is not None and not found.done:
        raise errors.TimedOut(f"{found.action} of {name} was taken, but is not done yet")
    return found


def wait_until(namespace: str, name: str, state: State, timeout: float | None, host: Host) -> Flow[JobView]:
    """Return the job once ``state`` is reached, or cannot be any more because the job ended."""
    return (yield from watch(namespace, name, state, timeout, host))


def watch(namespace: str, name: str, state: State, timeout: float | None, host: Host) -> Flow[JobView]:
    """Emit a Change now and at each event until ``state`` is reached; return the job at that moment.

    Raises NotFound when the job is not there or goes away, Rejected when it is rejected, TimedOut.
    """
    deadline = None if timeout is None else host.monotonic() + timeout
    look = calls.get_job(namespace, name)
    job = _accepted((yield from call(look, host)))
    yield Emit(Change(job))
    stream = Stream(namespace, name, host, deadline)
    while not reached(job, state):
        event = yield from stream.next()
        if event is None:
            yield Sleep(host.retry.delay(1, host.random()))
        patience = min(host.retry.patience, max(0.0, stream.left()))
        job = _accepted((yield from call(look, host, patience=patience)))
        yield Emit(Change(job, event))
    return job


def events(
    namespace: str, name: str, *, last_id: str, follow: bool, timeout: float | None, host: Host
) -> Flow[None]:
    """Emit the job's events, from the first or after ``last_id``; connections that break are resumed.

    Without ``follow`` it ends at the last event that there is now.
    """
    deadline = None if timeout is None else host.monotonic() + timeout
    stream = Stream(namespace, name, host, deadline, last_id, follow=follow)
    while True:
        while (event := (yield from stream.next())) is not None:
            yield Emit(event)
        if stream.complete:
            return
        yield Sleep(host.retry.delay(1, host.random()))  # cut off, not complete: go on behind the last event


def reached(job: JobView, state: State) -> bool:
    """Whether a job is in a state, or past it."""
    if state == "admitted":
        return job.admitted
    return job.ended or (state == "running" and job.started)


def _accepted(job: JobView) -> JobView:
    if job.phase == REJECTED:
        found = tuple(errors.Violation(one.code, one.path, one.message) for one in job.violations)
        raise errors.Rejected(job.message or f"job {job.namespace}/{job.name} was rejected", found)
    if job.deleted and not job.ended:
        raise errors.NotFound(f"job {job.namespace}/{job.name} was deleted")
    return job


def _pause(error: errors.PumiceError, attempt: int, host: Host) -> float:
    asked = error.retry_after if isinstance(error, errors.Unavailable) else None
    return max(asked or 0.0, host.retry.delay(attempt, host.random()))
