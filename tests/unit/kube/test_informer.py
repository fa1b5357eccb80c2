"""The informer against a server that ends, cuts and forgets watches and goes away for a while."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from shared.clock import LoopClock
from shared.errors import Gone, NotFound, Unavailable
from shared.kube.informer import Informer
from shared.kube.port import JSON, Listing, Resource, WatchEvent

pytestmark = pytest.mark.looptime

PODS = Resource("", "v1", "pods", "Pod")


def pod(name: str, rv: int, **spec) -> JSON:
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": str(rv)},
        "spec": spec,
    }


class Script:
    """An API server that answers lists and watches from a script; a watch after its end stays silent."""

    def __init__(self, *steps) -> None:
        self.steps = deque(steps)
        self.versions: list[str] = []
        self.lists = 0
        self.now = "1000000"
        self.there: list[JSON] = []
        self.live: asyncio.Queue[WatchEvent | Exception | None] = asyncio.Queue()

    async def list(self, resource, namespace=None, *, labels="", fields="", page=500):
        if fields.startswith("metadata.name="):
            return Listing(
                [one for one in self.there if f"metadata.name={one['metadata']['name']}" == fields], self.now
            )
        self.lists += 1
        step = self.steps.popleft()
        if isinstance(step, Exception):
            raise step
        self.there = list(step.items)
        return step

    async def watch(self, resource, namespace=None, *, resource_version, labels="", fields=""):
        self.versions.append(resource_version)
        step = self.steps.popleft() if self.steps else ()
        if isinstance(step, Exception):
            raise step
        yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": resource_version}})
        for event in step:
            if isinstance(event, Exception):
                raise event
            if event.type == "ADDED":
                self.there.append(event.object)
            yield event
        if not self.steps:
            while (event := await self.live.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                yield event


@asynccontextmanager
async def running(server: Script, **options):
    changes: list[tuple[JSON | None, JSON | None]] = []
    informer = Informer(
        server,
        PODS,
        clock=LoopClock(datetime(2026, 1, 1, tzinfo=UTC)),
        on_change=lambda old, new: changes.append((old, new)),
        rng=random.Random(1),
        **options,
    )
    task = asyncio.create_task(informer.run())
    try:
        yield informer, changes
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def settled() -> None:
    await asyncio.sleep(60)


async def test_changes_are_reported_in_order_and_the_store_is_complete_once_synced():
    server = Script(Listing([pod("a", 1)], "5"), [WatchEvent("ADDED", pod("b", 6))])
    async with running(server) as (informer, changes):
        assert not informer.healthy
        await informer.synced()
        assert informer.store["ns", "a"] == pod("a", 1)
        await settled()
        assert changes == [(None, pod("a", 1)), (None, pod("b", 6))]
        assert informer.healthy
        assert server.versions == ["5"]


async def test_a_cut_watch_goes_on_at_the_last_version_without_a_list(caplog):
    caplog.set_level(logging.INFO)
    cut = [WatchEvent("ADDED", pod("a", 6)), Unavailable("connection reset")]
    server = Script(Listing([], "5"), cut, [WatchEvent("ADDED", pod("b", 7))])
    async with running(server) as (informer, changes):
        await settled()
        assert [new for _, new in changes] == [pod("a", 6), pod("b", 7)]
        assert server.versions == ["5", "6"]
        assert server.lists == 1
        assert informer.healthy
    assert caplog.messages == []


async def test_a_bookmark_moves_the_place_where_a_watch_goes_on():
    bookmark = WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "90"}})
    server = Script(Listing([], "5"), [bookmark], [])
    async with running(server):
        await settled()
        assert server.versions == ["5", "90"]


@pytest.mark.parametrize("gone", [Gone("too old"), [Gone("too old")]], ids=["at once", "in the stream"])
async def test_a_forgotten_version_leads_to_a_list_that_reports_missed_ends(gone):
    server = Script(Listing([pod("a", 1), pod("b", 2)], "5"), gone, Listing([pod("b", 8)], "9"))
    async with running(server) as (informer, changes):
        await settled()
        assert changes[2:] == [(pod("a", 1), None), (pod("b", 2), pod("b", 8))]
        assert set(informer.store) == {("ns", "b")}
        assert server.versions == ["5", "9"]


async def test_an_event_older_than_the_watch_means_that_the_history_began_anew():
    young = pod("young", 3)
    server = Script(Listing([pod("a", 80)], "90"), [WatchEvent("ADDED", young)], Listing([young], "4"))
    async with running(server) as (_, changes):
        await settled()
        assert changes == [(None, pod("a", 80)), (pod("a", 80), None), (None, young)]
        assert server.versions == ["90", "4"]


async def test_a_server_that_comes_back_with_a_younger_history_is_listed_anew(caplog):
    young = pod("young", 3)
    server = Script(
        Listing([pod("a", 80)], "90"), [], *[Unavailable("refused")] * 2, Listing([young], "4"), []
    )
    server.now = "4"
    async with running(server) as (_, changes):
        await settled()
        assert changes == [(None, pod("a", 80)), (pod("a", 80), None), (None, young)]
        assert server.versions[-1] == "4"


async def test_a_server_that_comes_back_as_another_one_beyond_our_version_is_listed_anew():
    other = pod("a", 20) | {"metadata": pod("a", 20)["metadata"] | {"uid": "another"}}
    server = Script(
        Listing([pod("a", 80), pod("b", 81)], "90"),
        [Unavailable("cut")],
        Listing([other, pod("c", 7)], "500"),
        [WatchEvent("ADDED", pod("d", 501))],
    )
    async with running(server) as (informer, changes):
        await informer.synced()
        server.there = [other]
        await settled()
        assert changes[2:] == [
            (pod("b", 81), None),
            (pod("a", 80), None),
            (None, other),
            (None, pod("c", 7)),
            (None, pod("d", 501)),
        ]
        assert server.versions == ["90", "500"]


async def test_an_empty_store_is_filled_anew_after_a_cut():
    server = Script(Listing([], "90"), [Unavailable("cut")], Listing([pod("a", 7)], "500"))
    async with running(server) as (_, changes):
        await settled()
        assert changes == [(None, pod("a", 7))]


async def test_an_outage_is_said_once_and_its_end_once_and_health_follows(caplog):
    caplog.set_level(logging.INFO)
    away = [Unavailable("connection refused")] * 6
    server = Script(Listing([pod("o", 1)], "5"), [], *away, [WatchEvent("ADDED", pod("a", 6))])
    async with running(server) as (informer, changes):
        await informer.synced()
        await asyncio.sleep(3)
        assert not informer.healthy
        await settled()
        assert informer.healthy
        assert changes[1:] == [(None, pod("a", 6))]
        assert server.lists == 1
    assert caplog.messages == [
        "pods: API server is away, waiting for it: connection refused",
        "pods: API server is back",
    ]


async def test_a_server_that_is_away_at_the_start_is_waited_for():
    server = Script(*[Unavailable("no")] * 4, Listing([pod("a", 1)], "1"))
    async with running(server) as (informer, _):
        await informer.synced()
        assert informer.healthy


async def test_a_kind_that_is_not_served_any_more_is_waited_for_and_listed_anew(caplog):
    caplog.set_level(logging.INFO)
    missing = [NotFound("the server could not find the requested resource")] * 3
    server = Script(
        Listing([pod("a", 1)], "5"),
        *missing,
        Unavailable("restarting"),
        *missing,
        Listing([pod("b", 8)], "8"),
    )
    async with running(server) as (informer, changes):
        await informer.synced()
        await asyncio.sleep(1)
        assert not informer.healthy
        await settled()
        assert informer.healthy
        assert changes == [(None, pod("a", 1)), (pod("a", 1), None), (None, pod("b", 8))]
    unknown = "pods: API server does not know this kind, waiting for it: the server could not find the"
    assert [message.removesuffix(" requested resource") for message in caplog.messages] == [
        unknown,
        "pods: API server is away, waiting for it: restarting",
        unknown,
        "pods: API server is back",
    ]


async def test_a_server_that_ends_each_watch_at_once_is_not_asked_in_a_tight_loop():
    server = Script(Listing([], "5"), *[[]] * 10_000)
    async with running(server):
        await settled()
        assert len(server.versions) < 30


async def test_waits_grow_between_tries_and_stay_bounded():
    server = Script(*[Unavailable("no")] * 10_000)
    async with running(server):
        await asyncio.sleep(3600)
        assert 350 < server.lists < 750


async def test_a_writes_own_answer_is_visible_at_once_and_reported_once():
    server = Script(Listing([pod("a", 1)], "5"))
    async with running(server) as (informer, changes):
        await informer.synced()
        informer.upsert(pod("a", 6, nodeName="n1"))
        assert informer.store["ns", "a"]["spec"] == {"nodeName": "n1"}
        await server.live.put(WatchEvent("MODIFIED", pod("a", 6, nodeName="n1")))
        await settled()
        assert changes[1:] == [(pod("a", 1), pod("a", 6, nodeName="n1"))]
        informer.forget(pod("a", 6))
        assert informer.store == {}
        await server.live.put(WatchEvent("MODIFIED", pod("a", 7)))
        await server.live.put(WatchEvent("DELETED", pod("a", 8)))
        await settled()
        assert changes[2:] == [(pod("a", 6, nodeName="n1"), None)]


async def test_a_transform_sees_everything_that_is_stored():
    def names_only(obj: JSON) -> JSON:
        return {"metadata": obj["metadata"]}

    server = Script(Listing([pod("a", 1, big="x")], "5"), [WatchEvent("ADDED", pod("b", 6, big="x"))])
    async with running(server, transform=names_only) as (informer, _):
        await settled()
        informer.upsert(pod("c", 9, big="x"))
        assert all(set(obj) == {"metadata"} for obj in informer.store.values())
        assert len(informer.store) == 3


async def test_an_error_of_the_handler_ends_the_informer():
    def handler(old, new):
        raise KeyError("our own mistake")

    clock = LoopClock(datetime(2026, 1, 1, tzinfo=UTC))
    informer = Informer(Script(Listing([pod("a", 1)], "5")), PODS, clock=clock, on_change=handler)
    with pytest.raises(KeyError):
        await informer.run()
