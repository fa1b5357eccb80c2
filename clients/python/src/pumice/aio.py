"""The client for asyncio: the methods of :class:`pumice.Client`, awaited."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Self, TypeVar

import httpx

from pumice import calls, config, flows
from pumice.calls import Answer, State
from pumice.client import failed, options, request
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


class AsyncClient:
    """Speaks with a gateway; arguments and errors are those of :class:`pumice.Client`."""

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        timeout: float = 30.0,
        retry: Retry = DEFAULT,
        http: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        host: Host | None = None,
        new_key: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        settings = config.resolve(server=url, namespace=namespace)
        self.namespace = settings.namespace
        self.url = settings.server
        self._http = http or httpx.AsyncClient(timeout=timeout, **options(self.url))
        self._sleep = sleep
        self._host = host or Host(time.monotonic, random.random, retry)
        self._new_key = new_key

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def submit(
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
        return await self._run(
            flows.submit(body, idempotency_key or self._new_key(), wait, timeout, self._host)
        )

    async def try_out(self, job: Job | dict[str, Any] | str, *, timeout: float | None = None) -> Trial:
        """Return what would become of a job if it were submitted now; it is not.

        Raises Rejected with every violation, TooLarge, and TimedOut when a service does not answer in time.
        """
        call = calls.try_out(body_of(job, self.namespace), timeout)
        return await self._run(flows.call(call, self._host))

    async def get(self, name: str, *, namespace: str | None = None) -> JobView:
        """Return a job. Raises NotFound."""
        return await self._run(flows.call(calls.get_job(namespace or self.namespace, name), self._host))

    async def list(self, *, namespace: str | None = None, queue: str | None = None) -> tuple[JobView, ...]:
        """Return the jobs of a namespace; ``"*"`` means all namespaces."""
        chosen = namespace or self.namespace
        return await self._run(flows.list_jobs(None if chosen == "*" else chosen, queue, self._host))

    async def wait_until(
        self, name: str, state: State, *, namespace: str | None = None, timeout: float | None = None
    ) -> JobView:
        """Wait until a job is ``admitted``, ``running`` or ``finished``, or past that, and return it.

        Whether it succeeded says ``job.succeeded``. Raises NotFound, Rejected, TimedOut.
        """
        return await self._run(
            flows.wait_until(namespace or self.namespace, name, state, timeout, self._host)
        )

    def watch(
        self,
        name: str,
        *,
        until: State = "finished",
        namespace: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Change]:
        """Yield the job now and at each change until a state is reached. Raises as ``wait_until``."""
        return self._drive(flows.watch(namespace or self.namespace, name, until, timeout, self._host))

    def events(
        self,
        name: str,
        *,
        namespace: str | None = None,
        last_id: str = "",
        follow: bool = True,
        timeout: float | None = None,
    ) -> AsyncIterator[JobEvent]:
        """Yield a job's events, those of the past first, until it has ended; broken connections are resumed.

        Without ``follow`` only those of the past. A suspended job has not ended.
        """
        chosen = namespace or self.namespace
        flow = flows.events(chosen, name, last_id=last_id, follow=follow, timeout=timeout, host=self._host)
        return self._drive(flow)

    async def trace(self, name: str, *, namespace: str | None = None) -> Trace:
        """Return the spans of a job. Raises NotFound."""
        return await self._run(flows.call(calls.trace(namespace or self.namespace, name), self._host))

    async def suspend(
        self, name: str, *, namespace: str | None = None, wait: bool = False, timeout: float = 60.0
    ) -> Commanded:
        """Take a job's pods away and keep the job.

        Raises NotFound, Conflict, and, if it shall ``wait``, TimedOut after ``timeout`` seconds.
        """
        return await self._command(name, namespace, "suspend", timeout if wait else None)

    async def resume(
        self, name: str, *, namespace: str | None = None, wait: bool = False, timeout: float = 60.0
    ) -> Commanded:
        """Let a suspended job run again.

        Raises NotFound, Conflict, and, if it shall ``wait``, TimedOut after ``timeout`` seconds.
        """
        return await self._command(name, namespace, "resume", timeout if wait else None)

    async def delete(
        self, name: str, *, namespace: str | None = None, wait: bool = False, timeout: float = 60.0
    ) -> Commanded:
        """Delete a job and what it owns.

        Raises NotFound, Conflict, and, if it shall ``wait``, TimedOut after ``timeout`` seconds.
        """
        return await self._command(name, namespace, "delete", timeout if wait else None)

    async def queues(self) -> tuple[QueueView, ...]:
        """Return all queues."""
        return await self._run(flows.call(calls.queues(), self._host))

    async def open_queue(self, name: str, *, wait: bool = False, timeout: float = 60.0) -> QueueCommanded:
        """Let a queue take jobs again.

        Raises NotFound, Conflict while the queue above it is closed, and, if it shall ``wait``, TimedOut
        after ``timeout`` seconds.
        """
        return await self._command_queue(name, "open", timeout if wait else None)

    async def close_queue(self, name: str, *, wait: bool = False, timeout: float = 60.0) -> QueueCommanded:
        """Let a queue take no new jobs; its running ones go on.

        Raises NotFound, Conflict, and, if it shall ``wait``, TimedOut after ``timeout`` seconds.
        """
        return await self._command_queue(name, "close", timeout if wait else None)

    async def defragment(self, pool: str = "default") -> PoolCommanded:
        """Have running gangs of a node pool move now, if each has room elsewhere and one that waits starts.

        Raises NotFound.
        """
        return await self._run(flows.call(calls.defragment(pool), self._host))

    async def nodes(self) -> tuple[NodeView, ...]:
        """Return all nodes."""
        return await self._run(flows.call(calls.nodes(), self._host))

    async def _command(
        self, name: str, namespace: str | None, verb: calls.Command, wait: float | None
    ) -> Commanded:
        chosen = namespace or self.namespace
        what = calls.command(chosen, name, verb, wait)
        return await self._run(flows.command(what, f"{chosen}/{name}", self._host))

    async def _command_queue(self, name: str, verb: calls.QueueCommand, wait: float | None) -> QueueCommanded:
        what = calls.command_queue(name, verb, wait)
        return await self._run(flows.command(what, f"queue {name}", self._host))

    async def _run(self, flow: Flow[T]) -> T:
        results: list[T] = []
        async for _ in self._drive(flow, results.append):
            pass
        return results[0]

    async def _drive(
        self, flow: Flow[T], done: Callable[[T], None] = lambda _: None
    ) -> AsyncGenerator[Any, None]:
        """Carry the steps of a flow out; yield what it emits; give its result to ``done``."""
        async with contextlib.aclosing(_Stream(self._http, self.url)) as stream:
            result: Any = None
            failure: TransportFailure | None = None
            while True:
                try:
                    step = flow.throw(failure) if failure else flow.send(result)
                except StopIteration as stop:
                    done(stop.value)
                    return
                result = failure = None
                try:
                    match step:
                        case Send():
                            result = await self._send(step)
                        case Open():
                            result = await stream.open(step)
                        case Read():
                            result = await stream.read()
                        case Sleep():
                            await self._sleep(step.seconds)
                        case Emit():
                            yield step.value
                except httpx.TransportError as error:
                    failure = failed(self.url, error)

    async def _send(self, step: Send) -> Answer:
        timeout = httpx.USE_CLIENT_DEFAULT if step.timeout is None else httpx.Timeout(step.timeout)
        answer = await self._http.send(request(self._http, self.url, step.request, timeout))
        return Answer(answer.status_code, answer.headers, answer.content)


class _Stream:
    """The one stream that a flow reads."""

    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url
        self._answer: httpx.Response | None = None
        self._lines: AsyncIterator[str] | None = None

    async def open(self, step: Open) -> Answer:
        await self.aclose()
        timeout = httpx.Timeout(10.0, read=step.silence)
        self._answer = await self._http.send(
            request(self._http, self._url, step.request, timeout), stream=True
        )
        if self._answer.status_code == httpx.codes.OK:
            self._lines = self._answer.aiter_lines()
            return Answer(self._answer.status_code, self._answer.headers)
        return Answer(self._answer.status_code, self._answer.headers, await self._answer.aread())

    async def read(self) -> str | None:
        return None if self._lines is None else await anext(self._lines, None)

    async def aclose(self) -> None:
        if self._answer is not None:
            await self._answer.aclose()
            self._answer = None
