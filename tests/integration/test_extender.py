"""The scheduler and a real extender over HTTP: what it says decides, its absence is told, and replays need it not."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from aiohttp import web

from services.scheduler.adapters.replaying import read_stretch, replay
from services.scheduler.core.configuration import configure
from services.scheduler.settings import SchedulerSettings
from shared.clock import SystemClock
from shared.events import contracts as c
from shared.events import topics
from shared.events.codec import decode
from shared.log.core.state import Limits
from shared.log.memory import MemoryLog
from shared.telemetry.telemetry import Telemetry
from tests.fixtures.waiting import eventually
from tests.integration.test_scheduler_service import World, gang, running

EXAMPLE = Path(__file__).parents[2] / "examples" / "extender" / "server.py"
Answer = Callable[[dict[str, Any]], Any]
REFRESH = 0.4


class RealTime(World):
    """A log in real time: the requests are real."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = SystemClock()  # type: ignore[assignment]
        self.log = MemoryLog(self.clock, limits=Limits(sweep_records=10**9, maintenance_seconds=1e9))

    async def labelled(self, name: str, **labels: str) -> None:
        amounts = {"cpu": 64000, "pods": 110, "nvidia.com/gpu": 8}
        state = c.NodeState(
            name=name,
            labels={f"example.org/{key}": value for key, value in labels.items()},
            allocatable=amounts,
        )
        await self.state("node", "", name, state)

    async def decided(self, name: str, *, evicts: bool = False) -> c.GangDecided:
        """Return the decision that binds a gang's pods, or that evicts others for it, when there is one."""
        found: list[c.GangDecided] = []

        async def there() -> bool:
            about = [one for one in await self.decisions() if one.gang.name == name]
            found[:] = [one for one in about if (one.evictions if evicts else one.bindings)]
            return bool(found)

        await eventually(there, what=f"a decision about {name}", seconds=10)
        return found[0]

    async def told(self, name: str, code: str) -> c.Reason:
        """Return the reason why a gang waits, when it is one of this code."""
        found: list[c.Reason] = []

        async def there() -> bool:
            report = (await self.reports()).get(f"ns/{name}".encode())
            found[:] = [] if report is None else [report.reason]
            return bool(found) and found[0].code == code

        await eventually(there, what=f"{name} waits for {code}", seconds=10)
        return found[0]

    async def answers(self) -> list[c.ExtenderAnswered]:
        events = [
            decode(one).data for one in await self.read(topics.EXTENDER_ANSWERS) if one.value is not None
        ]
        return [event for event in events if isinstance(event, c.ExtenderAnswered)]


@dataclass
class Server:
    """An extender whose answers are the test's; it counts what it is asked."""

    port: int = 0
    predicate: Answer = lambda _: {"status": ""}
    prioritize: Answer = lambda _: {"nodeScore": {}}
    preemptable: Answer = lambda _: {"status": 0}
    asked: Counter[str] = field(default_factory=Counter)
    nodes: list[str] = field(default_factory=list)
    hangs: bool = False
    ends: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.Response:
        body, verb = json.loads(await request.read()), request.path.removeprefix("/")
        self.asked[verb] += 1
        self.nodes += [body["node"]["Name"]] if "node" in body else []
        if self.hangs:
            await self.ends.wait()
        found = getattr(self, verb)(body)
        return found if isinstance(found, web.Response) else web.json_response(found)


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[Server]:
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/{verb}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", server.port)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        server.ends.set()
        await runner.cleanup()


def policy_text(port: int, actions: str = "allocate", **arguments: Any) -> str:
    given = {"urlPrefix": f"http://127.0.0.1:{port}", "predicateVerb": "predicate", **arguments}
    plugins = [
        {"name": "priority"},
        {"name": "extender", "arguments": {f"extender.{k}": v for k, v in given.items()}},
    ]
    return yaml.safe_dump({"actions": actions, "tiers": [{"plugins": plugins}]})


@asynccontextmanager
async def scheduling(port: int, tmp_path: Path, **arguments: Any) -> AsyncIterator[RealTime]:
    """Two nodes and a scheduler."""
    world, file = RealTime(), tmp_path / "policy.conf"
    file.write_text(policy_text(port, **arguments))
    await world.start()
    await world.queue()
    for name in ("n1", "n2"):
        await world.node(name, 8)
    async with running(world, policy_file=file, report_pause=0.05, extender_refresh=REFRESH):
        yield world


def refuses(*names: str) -> Answer:
    return lambda body: {"status": "sick" if body["node"]["Name"] in names else ""}


async def test_what_it_says_decides_and_equal_pods_cost_the_requests_of_one(tmp_path: Path) -> None:
    async with serving(Server(predicate=refuses("n1"))) as server, scheduling(server.port, tmp_path) as world:
        await world.gang(gang("a", 4))
        assert {one.node for one in (await world.decided("a")).bindings} == {"n2"}
        await world.gang(gang("b", 3))
        assert {one.node for one in (await world.decided("b")).bindings} == {"n2"}
    assert server.asked == {"predicate": 2}
    assert sorted(server.nodes) == ["n1", "n2"]


async def test_nodes_that_it_likes_are_taken_first_and_it_is_shown_those_it_accepted(tmp_path: Path) -> None:
    shown: list[list[str]] = []

    def likes(body: dict[str, Any]) -> Any:
        shown.append([node["Name"] for node in body["nodes"]])
        return {"nodeScore": {"n2": 3, "n1": 1}}

    server = Server(prioritize=likes, predicate=refuses("n3"))
    async with serving(server), scheduling(server.port, tmp_path, prioritizeVerb="prioritize") as world:
        await world.node("n3", 8)
        await world.gang(gang("a", 1))
        assert [one.node for one in (await world.decided("a")).bindings] == ["n2"]
    assert shown[0] == ["n1", "n2"]


async def test_a_node_that_changes_or_comes_is_asked_about_and_a_gang_that_waits_then_starts(
    tmp_path: Path,
) -> None:
    server = Server(predicate=lambda body: {"status": "sick" if _sick(body["node"]) else ""})
    async with serving(server), scheduling(server.port, tmp_path) as world:
        for name in ("n1", "n2"):
            await world.labelled(name, sick="fan")
        await world.gang(gang("a", 1))
        reason = await world.told("a", "no-node-accepted")
        assert "2 are refused by the extender (sick)" in reason.message
        await world.labelled("n2")
        assert [one.node for one in (await world.decided("a")).bindings] == ["n2"]


def _sick(node: dict[str, Any]) -> bool:
    return "example.org/sick" in node["Node"]["metadata"]["labels"]


async def test_an_answer_that_is_old_is_asked_for_again_while_somebody_waits(tmp_path: Path) -> None:
    server = Server(predicate=refuses("n1", "n2"))
    async with serving(server), scheduling(server.port, tmp_path) as world:
        await world.gang(gang("a", 1))
        await world.told("a", "no-node-accepted")
        server.predicate = refuses("n1")
        assert [one.node for one in (await world.decided("a")).bindings] == ["n2"]
        asked = server.asked["predicate"]
        await asyncio.sleep(1.5 * REFRESH)
        assert server.asked["predicate"] == asked
        assert len(await world.answers()) == 2


async def test_while_it_is_down_gangs_wait_with_the_error_and_start_when_it_comes_back(
    tmp_path: Path,
) -> None:
    async with serving(Server()) as gone:
        port = gone.port
    async with scheduling(port, tmp_path) as world:
        await world.gang(gang("a", 1))
        reason = await world.told("a", "no-node-answered")
        await eventually(
            lambda: _says(world, "a", "predicate: Cannot connect to host 127.0.0.1"),
            what="the error",
            seconds=5,
        )
        assert "of 2 nodes, 2 are waiting for an answer of the extender" in reason.message
        async with serving(Server(port=port)):
            assert (await world.decided("a")).bindings


async def _says(world: RealTime, name: str, words: str) -> bool:
    report = (await world.reports()).get(f"ns/{name}".encode())
    return report is not None and words in report.reason.message


async def test_where_it_is_ignorable_gangs_start_while_it_is_down(tmp_path: Path) -> None:
    async with serving(Server()) as gone:
        port = gone.port
    async with scheduling(port, tmp_path, ignorable=True, prioritizeVerb="prioritize") as world:
        await world.gang(gang("a", 1))
        assert (await world.decided("a")).bindings


async def test_scheduling_goes_on_while_it_is_slow(tmp_path: Path) -> None:
    server = Server(hangs=True)
    managed = {"managedResources": ["nvidia.com/gpu"], "httpTimeout": "300ms"}
    async with serving(server), scheduling(server.port, tmp_path, **managed) as world:
        await world.gang(gang("slow", 1))
        await eventually(lambda: server.asked["predicate"], what="a request", seconds=5)
        plain = c.Shape(requests={"cpu": 1000})
        other = gang("other", 1)
        tasks = tuple(one.model_copy(update={"shape": plain}) for one in other.tasks)
        await world.gang(other.model_copy(update={"tasks": tasks}))
        assert (await world.decided("other")).bindings
        await eventually(
            lambda: _says(world, "slow", "predicate: no answer within 0.3 s"), what="the timeout", seconds=5
        )


WRONG: dict[str, Answer] = {
    "answered with status 503": lambda _: web.Response(status=503),
    "answered with no JSON": lambda _: web.Response(text="<html>"),
    "answered with JSON that is no object": lambda _: [],
    "answered with a status that is no text": lambda _: {"status": 3},
    "answered with more than 10 MB": lambda _: web.Response(body=b" " * (11 << 20)),
}


@pytest.mark.parametrize(("words", "answer"), WRONG.items(), ids=WRONG.keys())
async def test_a_wrong_answer_is_as_none_and_named(words: str, answer: Answer, tmp_path: Path) -> None:
    server = Server(predicate=answer)
    async with serving(server), scheduling(server.port, tmp_path) as world:
        await world.gang(gang("a", 1))
        await eventually(lambda: _says(world, "a", f"(predicate: {words})"), what=words, seconds=10)


WRONG_SCORES: dict[str, Answer] = {
    "answered without scores": lambda _: {},
    "it is Monday": lambda _: {"nodeScore": {}, "errorMessage": "it is Monday"},
    "answered with a score that is no number": lambda _: {"nodeScore": {"n1": "3"}},
}


@pytest.mark.parametrize(("words", "answer"), WRONG_SCORES.items(), ids=WRONG_SCORES.keys())
async def test_wrong_scores_are_as_none_and_named(words: str, answer: Answer, tmp_path: Path) -> None:
    server = Server(prioritize=answer)
    async with serving(server), scheduling(server.port, tmp_path, prioritizeVerb="prioritize") as world:
        await world.gang(gang("a", 1))
        await eventually(lambda: _says(world, "a", f"(prioritize: {words})"), what=words, seconds=10)


async def test_a_replay_decides_the_same_without_it(tmp_path: Path) -> None:
    server = Server(predicate=refuses("n1"), prioritize=lambda _: {"nodeScore": {"n3": 5, "n2": 1}})
    async with serving(server), scheduling(server.port, tmp_path, prioritizeVerb="prioritize") as world:
        for number in range(4):
            await world.gang(gang(f"g{number}", 1 + number))
            await world.decided(f"g{number}")
            if number == 1:
                await world.node("n3", 8)
        logged = await world.decisions()
    assert {one.node for decision in logged for one in decision.bindings} >= {"n2", "n3"}
    asked = server.asked.copy()
    text = policy_text(server.port, prioritizeVerb="prioritize")
    chosen = configure(text, SchedulerSettings().policy()).policy
    stretch = await read_stretch(world.log, "default", None, None)
    made = list(replay(stretch, chosen, Telemetry("replay"), fixed=True))
    assert sum(len(one.again) for one in made) == len(logged) == 4
    assert [one.differences for one in made] == [()] * len(made)
    assert server.asked == asked


VOTING = {"actions": "allocate, preempt", "preemptableVerb": "preemptable", "predicateVerb": "predicate"}


def lets_go(*prefixes: str) -> Answer:
    """Vote as Volcano's extenders do: the tasks that may go come back."""
    return lambda body: {
        "status": 1,
        "victims": [one for one in body["evictees"] if one["Name"].startswith(prefixes)],
    }


async def test_it_says_who_is_evicted_and_a_replay_evicts_the_same(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def votes(body: dict[str, Any]) -> Any:
        seen.append(body)
        return lets_go("b-")(body)

    async with (
        serving(Server(preemptable=votes)) as server,
        scheduling(server.port, tmp_path, **VOTING) as world,
    ):
        for name in ("a", "b"):
            await world.gang(gang(name, 8))
            await world.bound(gang(name, 8), await world.decided(name))
        await world.gang(gang("high", 8).model_copy(update={"priority": 9}))
        evicting = await world.decided("high", evicts=True)
        asked = server.asked["preemptable"]
    assert {one.pod for one in evicting.evictions} == {f"b-worker-{number}" for number in range(8)}
    assert (seen[0]["evictor"]["Name"], seen[0]["evictor"]["Job"]) == ("high-worker-0", "ns/high")
    assert {one["Job"] for one in seen[0]["evictees"]} == {"ns/a", "ns/b"}
    assert asked == 1
    chosen = configure(policy_text(server.port, **VOTING), SchedulerSettings().policy()).policy
    made = list(
        replay(await read_stretch(world.log, "default", None, None), chosen, Telemetry("r"), fixed=True)
    )
    assert [one.differences for one in made] == [()] * len(made)
    assert any(decision.evictions for one in made for decision in one.again)


async def test_nobody_is_evicted_while_it_cannot_be_asked_who(tmp_path: Path) -> None:
    down = Server(preemptable=lambda _: web.Response(status=500))
    async with serving(down), scheduling(down.port, tmp_path, **VOTING) as world:
        for name in ("a", "b"):
            await world.gang(gang(name, 8))
            await world.bound(gang(name, 8), await world.decided(name))
        await world.gang(gang("high", 8).model_copy(update={"priority": 9}))

        async def told() -> bool:
            report = (await world.reports()).get(b"ns/high")
            said = [] if report is None else [one.message for one in report.details]
            return any(
                "16 pods may be evicted for it (preemptable: answered with status 500)" in one for one in said
            )

        await eventually(told, what="the reason", seconds=10)
        down.preemptable = lets_go("a-")
        evictions = (await world.decided("high", evicts=True)).evictions
    assert {one.pod for one in evictions} == {f"a-worker-{number}" for number in range(8)}


async def test_a_vote_is_taken_back_when_its_gang_waits_no_more(tmp_path: Path) -> None:
    server = Server(preemptable=lets_go())
    async with serving(server), scheduling(server.port, tmp_path, **VOTING) as world:
        for name in ("a", "b"):
            await world.gang(gang(name, 8))
            await world.bound(gang(name, 8), await world.decided(name))
        await world.gang(gang("high", 8).model_copy(update={"priority": 9}))
        await eventually(lambda: _pods_known(world), what="a vote", seconds=10)
        await world.state("podgroup", "ns", "high", None)

        async def taken_back() -> bool:
            return (await world.read(topics.EXTENDER_ANSWERS))[-1].value is None

        await eventually(taken_back, what="the vote is taken back", seconds=10)


async def _pods_known(world: RealTime) -> bool:
    return any(one.about == "pods" for one in await world.answers())


async def test_a_scheduler_that_starts_anew_knows_the_answers_of_the_one_before(tmp_path: Path) -> None:
    async with serving(Server(predicate=refuses("n1"))) as server:
        async with scheduling(server.port, tmp_path) as world:
            await world.gang(gang("a", 1))
            await world.decided("a")
        asked = server.asked.copy()
    async with running(world, policy_file=tmp_path / "policy.conf", report_pause=0.05):
        await world.gang(gang("b", 1))
        assert [one.node for one in (await world.decided("b")).bindings] == ["n2"]
    assert server.asked == asked


@pytest.fixture
def example() -> Any:
    spec = importlib.util.spec_from_file_location("extender_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_example_decides(example: Any, tmp_path: Path) -> None:
    server = example.ThreadingHTTPServer(("127.0.0.1", 0), example.Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        async with scheduling(server.server_port, tmp_path, prioritizeVerb="prioritize") as world:
            await world.labelled("n0", sick="fan", firmware="9")
            await world.labelled("n1", firmware="1.5")
            await world.labelled("n2", firmware="2")
            await world.gang(gang("a", 9))
            assert Counter(one.node for one in (await world.decided("a")).bindings) == {"n2": 8, "n1": 1}
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()
