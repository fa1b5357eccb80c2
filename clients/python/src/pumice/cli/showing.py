"""``get``, ``describe``, ``explain``, ``events`` and ``trace``."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import typer

from pumice import errors, render
from pumice.cli.exits import UsageError
from pumice.cli.place import Place, dumped
from pumice.cli.tables import changed, table_of
from pumice.models import JobView, NodeView, QueueView
from pumice.render.text import description, explanation
from pumice.render.timelines import event_line

Thing = JobView | QueueView | NodeView
_INTERVAL = 1.0
"""Seconds between two looks of ``get --watch``."""


def get(
    place: Place, kind: str, name: str | None, *, queue: str | None, everywhere: bool, watch: bool, form: str
) -> None:
    """Print what there is; with ``watch`` go on with what changes."""
    if kind != "jobs" and (queue or everywhere):
        raise UsageError("-q and -A are for jobs")
    things = _read(place, kind, name, queue, everywhere=everywhere)
    _print(place, kind, things, name, everywhere=everywhere, form=form)
    while watch:
        before = {_identity(thing): thing for thing in things}
        time.sleep(_INTERVAL)
        things = _read(place, kind, name, queue, everywhere=everywhere)
        new = [thing for thing in things if changed(before.get(_identity(thing)), thing)]
        if new:
            _print(place, kind, new, name, everywhere=everywhere, form=form, title=False)


def describe(place: Place, name: str) -> None:
    """Print all that is known of a job."""
    job = _job(place, name)
    place.lines(description(job, _now()))


def explain(place: Place, name: str, *, form: str) -> None:
    """Print why a job waits, or where it is placed."""
    job = _job(place, name)
    if form in {"json", "yaml"}:
        place.dump(job.dump(), form)
    else:
        place.lines(explanation(job, _now()))


def events(place: Place, name: str, *, follow: bool, form: str) -> None:
    """Print a job's events as they come; those of the past alone as a timeline."""
    namespace, short = place.job(name)
    found = place.client.events(short, namespace=namespace, follow=follow)
    if not follow and form in {"table", "wide"}:
        if place.console is not None:
            place.console.print(render.timeline(found))
        else:
            place.lines(render.timeline_lines(found))
        return
    for event in found:
        if form == "json":
            place.lines([json.dumps(event.dump(), ensure_ascii=False)])
        elif form == "yaml":
            place.lines(["---"])
            place.dump(event.dump(), form)
        else:
            place.lines([event_line(event)])


def trace(place: Place, name: str, *, form: str) -> None:
    """Print a job's spans."""
    namespace, short = place.job(name)
    found = place.client.trace(short, namespace=namespace)
    if form in {"json", "yaml"}:
        place.dump(found.dump(), form)
    elif place.console is not None:
        place.console.print(render.waterfall(found.spans))
    else:
        place.lines(render.waterfall_lines(found.spans))


def _job(place: Place, name: str) -> JobView:
    namespace, short = place.job(name)
    return place.client.get(short, namespace=namespace)


def _read(
    place: Place, kind: str, name: str | None, queue: str | None, *, everywhere: bool
) -> Sequence[Thing]:
    client = place.client
    if kind == "jobs":
        return (
            [_job(place, name)] if name else client.list(namespace="*" if everywhere else None, queue=queue)
        )
    found = client.queues() if kind == "queues" else client.nodes()
    chosen = [thing for thing in found if name in {None, thing.name}]
    if name and not chosen:
        raise errors.NotFound(f"{kind.removesuffix('s')} {name} not found")
    return chosen


def _print(
    place: Place,
    kind: str,
    things: Sequence[Thing],
    name: str | None,
    *,
    everywhere: bool,
    form: str,
    title: bool = True,
) -> None:
    if form in {"json", "yaml"}:
        place.dump(dumped(things, single=name is not None), form)
    elif form == "name":
        place.lines([f"{kind.removesuffix('s')}/{_identity(thing)[1]}" for thing in things])
    elif not things:
        typer.echo(f"no {kind}", err=True)
    else:
        place.table(table_of(things, _now(), wide=form == "wide", namespaced=everywhere), title=title)


def _identity(thing: Thing) -> tuple[str, str]:
    return (thing.namespace if isinstance(thing, JobView) else "", thing.name)


def _now() -> datetime:
    return datetime.now(UTC)
