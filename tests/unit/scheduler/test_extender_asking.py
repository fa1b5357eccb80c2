"""What is asked of an extender and written of its answers, where the way there is the test's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from services.scheduler.adapters import extender as asking_nodes
from services.scheduler.adapters import extender_votes
from services.scheduler.adapters.extender import Asker
from services.scheduler.adapters.extender_http import Unanswered
from services.scheduler.adapters.extender_line import Line
from services.scheduler.adapters.metrics import Metrics
from services.scheduler.core.policy import Policy
from shared.clock import LoopClock
from shared.errors import TooLarge
from shared.events import contracts as c
from shared.events.codec import decode
from shared.log.port import Delivery, Record
from shared.telemetry.telemetry import Telemetry
from tests.scenarios.scenario import job, node, queue
from tests.scenarios.world import START, World
from tests.unit.scheduler.test_extender import AB, ASKED, FULL, HIGH, PREEMPTS

pytestmark = pytest.mark.looptime
REFRESH = 60.0


class Written:
    """The log: what is written comes back to the model at once, if it is not too large."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.events: list[c.ExtenderAnswered] = []
        self.tries = 0
        self.too_large = False

    async def say(self, records: list[Record]) -> None:
        self.tries += 1
        if self.too_large:
            raise TooLarge("too large", size=2, limit=1)
        for record in records:
            event = decode(Delivery(record.topic, 0, 0, 0, record.key, record.value, record.headers)).data
            assert isinstance(event, c.ExtenderAnswered)
            self.events.append(event)
            self.world.model.apply_answer(event)


def parts(world: World) -> tuple[Written, dict[str, Any]]:
    written, numbers = Written(world), count()
    telemetry = Telemetry("scheduler")
    return written, {
        "clock": LoopClock(START),
        "say": written.say,
        "ids": lambda: str(next(numbers)),
        "telemetry": telemetry,
        "metrics": Metrics(CollectorRegistry()),
    }


def waiting(policy: Policy, nodes: list[c.NodeState], jobs: list[c.Gang]) -> World:
    world = World(policy)
    world.queue(queue("default"))
    for one in nodes:
        world.node(one)
    for gang in jobs:
        world.submit(gang)
    world.settle()
    world.submit(HIGH)
    world.decide()
    return world


class Voting:
    """Somebody waits for others to go, and the extender is asked who may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = waiting(PREEMPTS, FULL, AB)
        self.written, given = parts(self.world)
        line = Line("default", **given)
        self.asker = extender_votes.VoteAsker(
            self.world.model, line, refresh=REFRESH, clock=given["clock"], say=given["say"]
        )
        (self.question,) = self.world.model.nodes.answers.votes
        self.says: Callable[[set[str]], set[str] | None] = lambda _: None
        self.asked: list[set[str]] = []

        async def victims(_session: Any, _extender: Any, _verb: str, _for: Any, pods: list[Any]) -> Any:
            written = [orjson.loads(orjson.dumps(one)) for one in pods]
            self.asked.append({one["UID"] for one in written})
            return self.says(self.asked[-1])

        monkeypatch.setattr(extender_votes, "victims", victims)

    def uid(self, name: str) -> str:
        return self.world.books.pods["ns", f"{name}-worker-0"].uid

    async def round(self) -> c.ExtenderAnswered:
        extender = PREEMPTS.extender
        assert extender is not None
        await self.asker.round(None, extender)  # type: ignore[arg-type]
        return self.written.events[-1]

    def comes(self, name: str) -> None:
        """One more pod could make room."""
        self.world.node(node("n2", gpu=1))
        pod = self.world.books.pods["ns", "a-worker-0"]
        self.world.pod(
            pod.model_copy(
                update={"name": f"{name}-worker-0", "uid": f"uid-of-{name}", "node": "n2", "gang": name}
            )
        )
        self.world.model.nodes.answers.lacking[self.question] = {f"uid-of-{name}": None}


async def test_an_abstention_stands_while_it_cannot_be_asked_about_more_pods(monkeypatch) -> None:
    voting = Voting(monkeypatch)
    assert (await voting.round()).abstains
    voting.comes("c")

    def away(_uids: set[str]) -> None:
        raise Unanswered("it is away")

    voting.says = away
    for _ in range(2):  # asked in vain, and then not asked as it is away
        last = await voting.round()
        voting.comes("d")
        assert last.abstains
    assert {"it is away"} == set(last.unanswered)


async def test_after_an_abstention_it_is_asked_about_all_pods_when_one_comes(monkeypatch) -> None:
    voting = Voting(monkeypatch)
    await voting.round()
    voting.comes("c")
    voting.says = lambda _: {voting.uid("c")}
    last = await voting.round()
    assert voting.asked[-1] == {voting.uid("a"), voting.uid("b"), voting.uid("c")}
    assert (last.abstains, last.accepted) == (False, (voting.uid("c"),))


async def test_an_answer_that_is_too_large_is_asked_for_again_after_a_while(monkeypatch) -> None:
    voting = Voting(monkeypatch)
    voting.written.too_large = True
    extender = PREEMPTS.extender
    for _ in range(3):
        await voting.asker.round(None, extender)  # type: ignore[arg-type]
    assert voting.written.tries == 1
    voting.written.too_large = False
    await LoopClock(START).sleep(REFRESH)
    assert (await voting.round()).abstains


async def test_a_policy_that_changes_while_nodes_are_asked_about_stops_nothing(monkeypatch) -> None:
    world = waiting(ASKED, [node("n1", gpu=1)], [job("a", gpu=1)])
    written, given = parts(world)
    asker = Asker(world.model, refresh=REFRESH, **given)

    async def predicate(*_: Any) -> str:
        world.set_policy(Policy())
        return ""

    async def prioritize(*_: Any) -> dict[str, float]:
        return {"n1": 1.0}

    monkeypatch.setattr(asking_nodes, "predicate", predicate)
    monkeypatch.setattr(asking_nodes, "prioritize", prioritize)
    assert ASKED.extender is not None
    await asker._round(None, ASKED.extender)  # type: ignore[arg-type]
    assert [one.accepted for one in written.events] == [("n1",)]


async def test_a_node_that_went_and_comes_back_as_another_is_asked_about_anew(monkeypatch) -> None:
    """Also when others had its place meanwhile; and of those that went for good nothing is remembered."""
    world = waiting(ASKED, [node("n1", gpu=1), node("n2", gpu=1)], [job("a", gpu=1)])
    _, given = parts(world)
    asker = Asker(world.model, refresh=1e9, **given)
    asked: list[tuple[str, dict[str, str]]] = []

    async def predicate(_session: Any, _extender: Any, _task: Any, one: dict[str, Any]) -> str:
        meta = one["Node"]["metadata"]
        asked.append((meta["name"], meta["labels"]))
        return "sick"

    async def asks() -> list[tuple[str, dict[str, str]]]:
        assert ASKED.extender is not None
        asked.clear()
        world.decide()
        await asker._round(None, ASKED.extender)  # type: ignore[arg-type]
        return list({str(one): one for one in asked}.values())

    monkeypatch.setattr(asking_nodes, "predicate", predicate)
    assert await asks() == [("n1", {}), ("n2", {})]
    assert await asks() == []
    world.remove_node("n1")
    world.node(node("theirs", gpu=1).model_copy(update={"pool": "another"}))
    assert await asks() == []
    world.node(node("n1", gpu=1, labels={"firmware": "2"}))
    assert await asks() == [("n1", {"firmware": "2"})]
    for number in range(5):
        world.node(node(f"other{number}", gpu=1))
        assert await asks() == [(f"other{number}", {})]
        world.remove_node(f"other{number}")
    assert len(asker._tokens) <= 4
