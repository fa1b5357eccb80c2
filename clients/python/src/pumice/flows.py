"""What the clients do beyond one request: repeat, follow, wait. Pure, for both clients.

A flow is a generator. It yields steps, gets their results sent back, and returns its own result; a
:class:`Send`, :class:`Open` or :class:`Read` that fails on the way is thrown into it as
:class:`TransportFailure`. ``Client`` and ``AsyncClient`` only carry steps out, so that both behave
the same, and tests drive a flow by hand without a network.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from pumice import calls, errors
from pumice.calls import Answer, Call, Request, State
from pumice.models import REJECTED, Change, JobEvent, JobView
from pumice.retry import Retry
from pumice.sse import Parser, ServerEvent

T = TypeVar("T")


SILENCE = 30.0
"""Seconds without a byte after which a stream counts as broken: the gateway sends a comment more often."""
SETTLE = 0.2
"""Seconds between two looks at a job whose stream ended before the job did."""


class TransportFailure(Exception):  # noqa: N818 - no error of the caller's
    """The request did not come through. ``silent``: the connection is there, but nothing came in time."""

    def __init__(self, message: str, *, silent: bool = False) -> None:
        super().__init__(message)
        self.silent = silent


@dataclass(frozen=True, slots=True)
class Send:
    """Carry a request out. Result: Answer."""

    request: Request
    timeout: float | None = None
    """Seconds for the answer; None: the client's own."""


@dataclass(frozen=True, slots=True)
class Open:
    """Begin to read a stream; the one before is closed. Result: Answer, with a body only for an error."""

    request: Request
    silence: float


@dataclass(frozen=True, slots=True)
class Read:
    """Read the open stream. Result: a line, or None at its end."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait some seconds. Result: None."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Emit:
    """Give a value to the caller's loop, if there is one. Result: None."""

    value: Any


Step = Send | Open | Read | Sleep | Emit
Flow = Generator[Step, Any, T]


@dataclass(frozen=True, slots=True)
class Host:
    """What a flow needs of the machine it runs on."""

    monotonic: Callable[[], float]
    random: Callable[[], float]
    retry: Retry


def call(what: Call[T], host: Host, *, timeout: float | None = None, patience: float = 0.0) -> Flow[T]:
    """Carry a call out; repeat it while the server is away. Raises the errors of :mod:`pumice.errors`.

    It gives up when both the attempts are used up and ``patience`` seconds have passed.
    """
    start = host.monotonic()
    for attempt in itertools.count(1):
        try:
            answer: Answer = yield Send(what.request, timeout)
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
    start = host.monotonic()
    first = calls.submit(body, key=key, wait="admitted" if wait else None, timeout=timeout)
    patience = None if wait is None or timeout is None else timeout + SETTLE
    job = _accepted((yield from call(first, host, timeout=patience)))
    if wait is None or reached(job, wait):
        return job
    left = None if timeout is None else timeout - (host.monotonic() - start)
    return (yield from wait_until(job.namespace, job.name, wait, left, host))


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
    stream = _Stream(namespace, name, host, deadline)
    while not reached(job, state):
        event = yield from stream.next()
        if event is None:
            yield Sleep(SETTLE)
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
    stream = _Stream(namespace, name, host, deadline, last_id, follow=follow)
    while (event := (yield from stream.next())) is not None:
        yield Emit(event)


def reached(job: JobView, state: State) -> bool:
    """Whether a job is in a state, or past it."""
    if state == "admitted":
        return job.admitted
    return job.started if state == "running" else job.ended


class _Stream:
    """One job's events over as many connections as it takes."""

    def __init__(
        self,
        namespace: str,
        name: str,
        host: Host,
        deadline: float | None,
        last_id: str = "",
        *,
        follow: bool = True,
    ) -> None:
        self._address = (namespace, name)
        self._host = host
        self._deadline = deadline
        self._follow = follow
        self._parser = Parser(last_id)
        self._open = False
        self._silence = SILENCE
        self._failures = 0
        self._lost_at: float | None = None

    def next(self) -> Flow[JobEvent | None]:
        """Return the next event; None when the server says that the stream is complete."""
        while True:
            try:
                if not self._open and not (yield from self._connect()):
                    return None
                line: str | None = yield Read()
            except TransportFailure as failure:
                yield from self._lost(failure)
                continue
            if line is None:
                self._open = False
                return None
            self._lost_at, self._failures = None, 0
            found = self._parser.feed(line)
            if found is not None:
                return _event(found)
            if self.left() < self._silence:  # so that the deadline is not slept over
                self._open = False

    def _connect(self) -> Flow[bool]:
        self._parser = Parser(self._parser.last_id)
        self._silence = max(0.05, min(SILENCE, self.left()))
        if self.left() <= 0:
            raise errors.TimedOut(self._late())
        request = calls.events(*self._address, self._parser.last_id)
        if not self._follow:
            request = Request(request.method, request.path, {"follow": "false"}, request.headers)
        answer: Answer = yield Open(request, self._silence)
        if answer.status == 204:  # noqa: PLR2004 - the standard's word for: do not come back
            return False
        if answer.status >= 400:  # noqa: PLR2004
            error = errors.from_answer(answer.status, answer.headers, answer.body)
            if not isinstance(error, errors.Unavailable):
                raise error
            raise TransportFailure(str(error))
        self._open = True
        return True

    def _lost(self, failure: TransportFailure) -> Flow[None]:
        """Wait before the next connection; give up when the server is away for too long."""
        self._open = False
        now = self._host.monotonic()
        if self.left() <= 0:
            raise errors.TimedOut(self._late()) from failure
        if failure.silent:
            return
        self._failures += 1
        self._lost_at = now if self._lost_at is None else self._lost_at
        if now - self._lost_at > self._host.retry.patience:
            raise errors.Unavailable(str(failure)) from failure
        pause = self._host.retry.delay(self._failures, self._host.random())
        yield Sleep(min(pause, self.left()))

    def left(self) -> float:
        """Return the seconds until the deadline."""
        return float("inf") if self._deadline is None else self._deadline - self._host.monotonic()

    def _late(self) -> str:
        namespace, name = self._address
        return f"job {namespace}/{name} did not get there in the time given; it goes on"


def _accepted(job: JobView) -> JobView:
    if job.phase == REJECTED:
        found = tuple(errors.Violation(one.code, one.path, one.message) for one in job.violations)
        raise errors.Rejected(job.message or f"job {job.namespace}/{job.name} was rejected", found)
    if job.deleted:
        raise errors.NotFound(f"job {job.namespace}/{job.name} was deleted")
    return job


def _event(found: ServerEvent) -> JobEvent:
    data = calls.parse(found.data)
    fields = data if isinstance(data, dict) else {"data": {"value": data}}
    return calls.validate(JobEvent, {"kind": found.event, "data": fields, **fields, "id": found.id})


def _pause(error: errors.PumiceError, attempt: int, host: Host) -> float:
    asked = error.retry_after if isinstance(error, errors.Unavailable) else None
    return max(asked or 0.0, host.retry.delay(attempt, host.random()))
