"""The client for ordinary code. :class:`pumice.AsyncClient` has the same methods for asyncio."""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from typing import Any, Self, TypedDict, TypeVar

import httpx

from pumice import calls, config, flows
from pumice.calls import Answer, Request, State
from pumice.manifest import Job, body_of
from pumice.models import (
    Change,
    Commanded,
    JobEvent,
    JobView,
    NodeView,
    PoolCommanded,
    QueueCommanded,
    QueueView,
    Trace,
    Trial,
)
from pumice.retry import DEFAULT, Retry
from pumice.steps import Emit, Flow, Host, Open, Read, Send, Sleep, TransportFailure

T = TypeVar("T")
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


class Client:
    """Speaks with a gateway.

    ``url`` and ``namespace`` default to what the command line would use: the environment, then the
    configuration file. ``timeout`` is in seconds for one answer. ``http``, ``sleep``, ``host`` and
    ``new_key`` are for those who bring their own network or clock.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        timeout: float = 30.0,
        retry: Retry = DEFAULT,
        http: httpx.Client | None = None,
        sleep: Callable[[float], None] = time.sleep,
        host: Host | None = None,
        new_key: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        settings = config.resolve(server=url, namespace=namespace)
        self.namespace = settings.namespace
        self.url = settings.server
        self._http = http or httpx.Client(timeout=timeout, **options(self.url))
        self._sleep = sleep
        self._host = host or Host(time.monotonic, random.random, retry)
        self._new_key = new_key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def submit(
        self,
        job: Job | dict[str, Any] | str,
        *,
        wait: State | None = "admitted",
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> JobView:
        """Submit a job: the short form, a Job object, or its YAML. Waits for ``wait``; None: for nothing.

        Raises Rejected with every violation, Conflict, TooLarge, TimedOut after ``timeout`` seconds. With
        the same ``idempotency_key`` (default: a new one) a job is submitted once, however often it is sent.
        """
        body = body_of(job, self.namespace)
        return self._run(flows.submit(body, idempotency_key or self._new_key(), wait, timeout, self._host))

    def try_out(self, job: Job | dict[str, Any] | str, *, timeout: float | None = None) -> Trial:
        """Return what would become of a job if it were submitted now; it is not.

        Raises Rejected with every violation, TooLarge, and TimedOut when a service does not answer in time.
        """
        call = calls.try_out(body_of(job, self.namespace), timeout)
        return self._run(flows.call(call, self._host))

    def get(self, name: str, *, namespace: str | None = None) -> JobView:
        """Return a job. Raises NotFound."""
        return self._run(flows.call(calls.get_job(namespace or self.namespace, name), self._host))

    def list(self, *, namespace: str | None = None, queue: str | None = None) -> tuple[JobView, ...]:
        """Return the jobs of a namespace; ``"*"`` means all namespaces."""
        chosen = namespace or self.namespace
        return self._run(flows.list_jobs(None if chosen == "*" else chosen, queue, self._host))

    def wait_until(
        self, name: str, state: State, *, namespace: str | None = None, timeout: float | None = None
    ) -> JobView:
        """Wait until a job is ``admitted``, ``running`` or ``finished``, or past that, and return it.

        Whether it succeeded says ``job.succeeded``. Raises NotFound, Rejected, TimedOut.
        """
        return self._run(flows.wait_until(namespace or self.namespace, name, state, timeout, self._host))

    def watch(
        self,
        name: str,
        *,
        until: State = "finished",
        namespace: str | None = None,
        timeout: float | None = None,
    ) -> Iterator[Change]:
        """Yield the job now and at each change until a state is reached. Raises as ``wait_until``."""
        return self._iterate(flows.watch(namespace or self.namespace, name, until, timeout, self._host))

    def events(
        self,
        name: str,
        *,
        namespace: str | None = None,
        last_id: str = "",
        follow: bool = True,
        timeout: float | None = None,
    ) -> Iterator[JobEvent]:
        """Yield a job's events, those of the past first, until it has ended; broken connections are resumed.

        Without ``follow`` only those of the past. A suspended job has not ended.
        """
        chosen = namespace or self.namespace
        flow = flows.events(chosen, name, last_id=last_id, follow=follow, timeout=timeout, host=self._host)
        return self._iterate(flow)

    def trace(self, name: str, *, namespace: str | None = None) -> Trace:
        """Return the spans of a job. Raises NotFound."""
        return self._run(flows.call(calls.trace(namespace or self.namespace, name), self._host))

    def suspend(
        self, name: str, *, namespace: str | None = None, wait: bool = False, timeout: float = 60.0
    ) -> Commanded:
        """Take a job's pods away and keep the job.

        Raises NotFound, Conflict, and, if it shall ``wait``, TimedOut after ``timeout`` seconds.
        """
        return self._command(name, namespace, "suspend", timeout if wait else None)

    def resume(
        self, name: str, *, namespace: str | None = None, wait: bool = False, timeout: float = 60.0
    ) -> Commanded:
        """Let a suspended job run again.

        Raises NotFound, Conflict, and, if it shall ``wait``, TimedOut after ``timeout`` seconds.
        """
        return self._command(name, namespace, "resume", timeout if wait else None)

    def delete(
        self, name: str, *, namespace: str | None = None, wait: bool = False, timeout: float = 60.0
    ) -> Commanded:
        """Delete a job and what it owns.

        Raises NotFound, Conflict, and, if it shall ``wait``, TimedOut after ``timeout`` seconds.
        """
        return self._command(name, namespace, "delete", timeout if wait else None)

    def queues(self) -> tuple[QueueView, ...]:
        """Return all queues."""
        return self._run(flows.call(calls.queues(), self._host))

    def open_queue(self, name: str, *, wait: bool = False, timeout: float = 60.0) -> QueueCommanded:
        """Let a queue take jobs again.

        Raises NotFound, Conflict while the queue above it is closed, and, if it shall ``wait``, TimedOut
        after ``timeout`` seconds.
        """
        return self._command_queue(name, "open", timeout if wait else None)

    def close_queue(self, name: str, *, wait: bool = False, timeout: float = 60.0) -> QueueCommanded:
        """Let a queue take no new jobs; its running ones go on.

        Raises NotFound, Conflict, and, if it shall ``wait``, TimedOut after ``timeout`` seconds.
        """
        return self._command_queue(name, "close", timeout if wait else None)

    def defragment(self, pool: str = "default") -> PoolCommanded:
        """Have running gangs of a node pool move now, if each has room elsewhere and one that waits starts.

        Raises NotFound.
        """
        return self._run(flows.call(calls.defragment(pool), self._host))

    def nodes(self) -> tuple[NodeView, ...]:
        """Return all nodes."""
        return self._run(flows.call(calls.nodes(), self._host))

    def _command(
        self, name: str, namespace: str | None, verb: calls.Command, wait: float | None
    ) -> Commanded:
        chosen = namespace or self.namespace
        what = calls.command(chosen, name, verb, wait)
        return self._run(flows.command(what, f"{chosen}/{name}", self._host))

    def _command_queue(self, name: str, verb: calls.QueueCommand, wait: float | None) -> QueueCommanded:
        what = calls.command_queue(name, verb, wait)
        return self._run(flows.command(what, f"queue {name}", self._host))

    def _run(self, flow: Flow[T]) -> T:
        drive = self._drive(flow)
        while True:
            try:
                next(drive)
            except StopIteration as stop:
                result: T = stop.value
                return result

    def _iterate(self, flow: Flow[object]) -> Iterator[Any]:
        yield from self._drive(flow)

    def _drive(self, flow: Flow[T]) -> Generator[Any, None, T]:
        """Carry the steps of a flow out; yield what it emits."""
        with contextlib.closing(_Stream(self._http, self.url)) as stream:
            result: Any = None
            failure: TransportFailure | None = None
            while True:
                try:
                    step = flow.throw(failure) if failure else flow.send(result)
                except StopIteration as stop:
                    done: T = stop.value
                    return done
                result = failure = None
                try:
                    match step:
                        case Send():
                            result = self._send(step)
                        case Open():
                            result = stream.open(step)
                        case Read():
                            result = stream.read()
                        case Sleep():
                            self._sleep(step.seconds)
                        case Emit():
                            yield step.value
                except httpx.TransportError as error:
                    failure = failed(self.url, error)

    def _send(self, step: Send) -> Answer:
        timeout = httpx.USE_CLIENT_DEFAULT if step.timeout is None else httpx.Timeout(step.timeout)
        answer = self._http.send(request(self._http, self.url, step.request, timeout))
        return Answer(answer.status_code, answer.headers, answer.content)


class _Stream:
    """The one stream that a flow reads."""

    def __init__(self, http: httpx.Client, url: str) -> None:
        self._http = http
        self._url = url
        self._answer: httpx.Response | None = None
        self._lines: Iterator[str] = iter(())

    def open(self, step: Open) -> Answer:
        self.close()
        timeout = httpx.Timeout(10.0, read=step.silence)
        self._answer = self._http.send(request(self._http, self._url, step.request, timeout), stream=True)
        if self._answer.status_code == httpx.codes.OK:
            self._lines = self._answer.iter_lines()
            return Answer(self._answer.status_code, self._answer.headers)
        return Answer(self._answer.status_code, self._answer.headers, self._answer.read())

    def read(self) -> str | None:
        return next(self._lines, None)

    def close(self) -> None:
        if self._answer is not None:
            self._answer.close()
            self._answer = None


class Options(TypedDict):
    """How the network is set up."""

    verify: bool
    trust_env: bool


def options(url: str) -> Options:
    """Return how the network is set up for a server.

    Certificates are loaded only where they are needed, since that takes longer than a request. A server
    on this machine is never asked through a proxy, as Go's and thereby Kubernetes' clients have it.
    """
    address = httpx.URL(url)
    return {"verify": address.scheme == "https", "trust_env": address.host not in _HERE}


def request(http: httpx.Client | httpx.AsyncClient, url: str, what: Request, timeout: Any) -> httpx.Request:
    """Build the request for the network."""
    return http.build_request(
        what.method,
        url + what.path,
        params=dict(what.params),
        headers=dict(what.headers),
        content=what.body,
        timeout=timeout,
    )


def failed(url: str, error: httpx.TransportError) -> TransportFailure:
    """Say in a line what did not come through."""
    if isinstance(error, httpx.ReadTimeout):
        return TransportFailure(f"{url} did not answer in time", silent=True)
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return TransportFailure(f"cannot reach {url}: {error or 'no answer'}")
    return TransportFailure(f"the connection to {url} broke: {error or type(error).__name__}")
