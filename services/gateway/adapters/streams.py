"""A job's events as they happen: server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response, StreamingResponse

from services.gateway.adapters.context import Context
from services.gateway.adapters.documents import PROBLEMS
from services.gateway.core.cursor import Cursor
from services.gateway.core.facts import JobKey
from services.gateway.core.incarnation import Incarnation, current, of_life, of_submission
from services.gateway.core.rendering import history_entry
from services.gateway.core.views import HistoryEntry

_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_RETRY = "retry: 2000\n\n"
"""Milliseconds until a browser connects again."""


class StreamRoutes:
    """The route of events."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.router = APIRouter(tags=["jobs"])
        self.router.add_api_route(
            "/v1/jobs/{namespace}/{name}/events",
            self.events,
            methods=["GET"],
            response_class=StreamingResponse,
            responses={
                200: {
                    "description": "Server-sent events `submitted`, `admitted`, `rejected`, `command`, "
                    "`phase`, `decision`, `result`, `report`, and `end` at the end; the data of each:",
                    "content": {"text/event-stream": {"schema": HistoryEntry.model_json_schema()}},
                },
                204: {"description": "All was sent before, and nothing more will come."},
                404: PROBLEMS[404],
            },
            summary="What happens to a job, as it happens",
        )

    async def events(
        self,
        namespace: str,
        name: str,
        follow: Annotated[
            bool, Query(description="Go on after the end, also with the name's next job.")
        ] = False,
        last_event_id: Annotated[str | None, Header(description="Send what came after this event.")] = None,
    ) -> Response:
        """Stream everything that happened to the job and what happens, until it has ended."""
        _, job = self._context.job(namespace, name)
        cursor = Cursor.parse(last_event_id or "")
        if job.over and not follow and cursor.seen and not cursor.unseen(job.history()):
            return Response(status_code=204)  # tells a browser not to connect again
        frames = self._frames((namespace, name), cursor, self._meant(job, follow=follow), follow=follow)
        return StreamingResponse(frames, media_type="text/event-stream", headers=_HEADERS)

    def _meant(self, job: Incarnation, *, follow: bool) -> Callable[[], Incarnation | None]:
        """Return how to look the job up again: the very one, or whichever has the name."""
        model, record = self._context.model, job.record
        if follow:
            return lambda: current(model, record)
        if job.submission is not None:
            submission = job.submission.id
            return lambda: of_submission(model, submission)
        uid = job.life.uid if job.life else ""
        return lambda: of_life(model, record, record.lives[uid]) if uid in record.lives else None

    async def _frames(
        self, key: JobKey, cursor: Cursor, look_up: Callable[[], Incarnation | None], *, follow: bool
    ) -> AsyncIterator[str]:
        context = self._context
        context.metrics.streams.inc()
        try:
            with context.watchers.watch(key) as woken:
                yield _RETRY
                while True:
                    woken.clear()
                    job = look_up()
                    for entry in cursor.unseen(job.history()) if job else ():
                        cursor.advance(entry)
                        yield _frame(entry.kind, cursor.text(), history_entry(entry).encoded().decode())
                    if context.watchers.stopping:
                        return
                    if (job is None or job.over) and not follow:
                        yield _frame("end", cursor.text(), f'{{"phase":"{_last_phase(job)}"}}')
                        return
                    if not await _woken(woken, context.settings.heartbeat):
                        yield ": heartbeat\n\n"
        finally:
            context.metrics.streams.dec()


def _last_phase(job: Incarnation | None) -> str:
    return "Deleted" if job is None or job.deleted else job.phase


def _frame(kind: str, id_: str, data: str) -> str:
    return f"id: {id_}\nevent: {kind}\ndata: {data}\n\n"


async def _woken(woken: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        return False
    return True
