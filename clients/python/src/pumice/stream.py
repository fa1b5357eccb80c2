"""A job's events over as many connections as it takes. Pure."""

from __future__ import annotations

from typing import Final

from pumice import calls, errors
from pumice.calls import Answer
from pumice.models import JobEvent
from pumice.sse import Parser, ServerEvent
from pumice.steps import Flow, Host, Open, Read, Sleep, TransportFailure

SILENCE: Final = 30.0
"""Seconds without a byte after which a stream counts as broken: the gateway sends a comment more often."""
QUIET: Final = 0.5
"""Seconds without a byte after which the events of the past have all come: they come at once."""
SLACK: Final = 0.5
"""Seconds that a deadline may be late while a stream is read."""
END: Final = "end"
"""The event after the last one."""


class Stream:
    """One job's events over as many connections as it takes; ``complete`` when nothing more will come."""

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
        self.complete = False
        self._open = False
        self._silence = SILENCE
        self._failures = 0
        self._lost_at: float | None = None

    def next(self) -> Flow[JobEvent | None]:
        """Return the next event; None when the connection ended or the stream is complete."""
        while True:
            try:
                if not self._open and not (yield from self._connect()):
                    return None
                line: str | None = yield Read()
            except TransportFailure as failure:
                if failure.silent and self._open and not self._follow:
                    self.complete = True
                    return None
                yield from self._lost(failure)
                continue
            if line is None:
                self._open = False
                return None
            self._lost_at, self._failures = None, 0
            found = self._parser.feed(line)
            if found is not None:
                self.complete = found.event == END
                return None if self.complete else _event(found)
            if self._silence - self.left() > SLACK:  # the deadline would be slept over
                self._open = False

    def _connect(self) -> Flow[bool]:
        self._parser = Parser(self._parser.last_id)
        self._silence = max(0.05, min(SILENCE if self._follow else QUIET, self.left()))
        if self.left() <= 0:
            raise errors.TimedOut(late(*self._address))
        answer: Answer = yield Open(calls.events(*self._address, self._parser.last_id), self._silence)
        if answer.status == 204:  # noqa: PLR2004 - the standard's word for: do not come back
            self.complete = True
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
            raise errors.TimedOut(late(*self._address)) from failure
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


def late(namespace: str, name: str) -> str:
    """Return what a TimedOut says."""
    return f"job {namespace}/{name} did not get there in the time given; it goes on"


def _event(found: ServerEvent) -> JobEvent:
    data = calls.parse(found.data)
    fields = data if isinstance(data, dict) else {"data": {"value": data}}
    return calls.validate(JobEvent, {"kind": found.event, "data": fields, **fields, "id": found.id})
