"""When a waiting gang may start, by example: by the run times that are declared, or nobody can say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from heapq import heapify, heappop, heappush

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.core.reports import Reporter
from shared.events import contracts as c
from tests.scenarios.scenario import Step, job, node, passes, queue, reports, submits
from tests.scenarios.test_kin import HOST, apart, term
from tests.scenarios.test_topology import hypernode, near
from tests.scenarios.test_volumes import mount, mounting
from tests.scenarios.world import START, World


def pod(name: str, gpu: int = 1, **wants: object) -> c.Gang:
    return job(name, **{"gang": 1, "gpu": gpu, **wants})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    """``starts``: by gang, seconds since the beginning at which it may start; None: nobody can say."""

    name: str
    jobs: list[c.Gang]
    starts: dict[str, float | None]
    says: dict[str, str]
    nodes: tuple[c.NodeState, ...] = (node("n1", gpu=4),)
    queues: tuple[c.QueueState, ...] = (queue("default"),)
    then: tuple[Step, ...] = ()
    racks: tuple[c.HyperNodeState, ...] = ()


CASES = [
    Case(
        "a gang may start when the last of those that hold its room ends",
        [pod("a", 2, runs=600), pod("b", 2, runs=300), pod("large", 4, at=1)],
        {"large": 600},
        {"large": "when ns/a ends on n1"},
    ),
    Case(
        "a gang may start as soon as enough have ended",
        [pod("a", 2, runs=600), pod("b", 2, runs=300), pod("small", 2, at=1)],
        {"small": 300},
        {"small": "when ns/b ends on n1"},
    ),
    Case(
        "nobody can say when a gang starts whose room is held by those who said nothing",
        [pod("a", 4), pod("small", 1, at=1)],
        {"small": None},
        {"small": "nobody can say when: too few of those that hold its room said"},
    ),
    Case(
        "a gang comes after those before it, and they run as long as they say",
        [pod("a", 4, runs=600), pod("first", 4, at=1, runs=100), pod("second", 4, at=2)],
        {"first": 600, "second": 700},
        {"second": "when ns/first ends on n1"},
    ),
    Case(
        "who comes after one that runs for nobody knows how long waits for nobody knows how long",
        [pod("a", 4, runs=600), pod("first", 4, at=1), pod("second", 4, at=2)],
        {"first": 600, "second": None},
        {},
    ),
    Case(
        "who is kept from room by one whose start is not known cannot be told a start",
        [pod("a", 4), pod("b", 4, runs=60), job("first", gang=2, gpu=4, at=1), pod("second", 4, at=2)],
        {"first": None, "second": None},
        {"second": "nobody can say when: it comes after ns/first"},
        nodes=(node("n1", gpu=4), node("n2", gpu=4)),
    ),
    Case(
        "what one that will never fit asks for is in nobody's way",
        [pod("a", 4, runs=60), pod("huge", 5, at=1), pod("small", 4, at=2)],
        {"huge": None, "small": 60},
        {"huge": ""},
    ),
    Case(
        "a gang without quota may start when its queue has it again",
        [pod("a", 2, queue="team", runs=60), pod("b", 2, queue="team", at=1)],
        {"b": 60},
        {"b": "when ns/a ends"},
        queues=(queue("default"), queue("team", gpu=3)),
    ),
    Case(
        "quota that those hold who said nothing never comes back",
        [pod("a", 2, queue="team"), pod("b", 2, queue="team", at=1)],
        {"b": None},
        {},
        queues=(queue("default"), queue("team", gpu=3)),
    ),
    Case(
        "quota of a queue above counts as its own",
        [pod("a", 2, queue="x", runs=60), pod("b", 2, queue="y", at=1)],
        {"b": 60},
        {},
        queues=(queue("top", gpu=3), queue("x", parent="top"), queue("y", parent="top")),
    ),
    Case(
        "who runs for longer than declared is expected to end at any moment",
        [pod("a", 4, runs=600), pod("b", 4, at=1)],
        {"b": 700},
        {"b": "when ns/a ends on n1, which should have been by now"},
        then=(passes(700),),
    ),
    Case(
        "a reserved gang may start when its places are free",
        [pod("a", 2, runs=3600), pod("b", 2, runs=1800), pod("large", 4, at=1)],
        {"large": 3600},
        {},
        then=(passes(301),),
    ),
    Case(
        "who is told last comes after a reservation",
        [pod("a", 4, runs=3600), pod("large", 4, at=1, runs=600)],
        {"large": 3600, "late": 4200},
        {},
        then=(passes(302), submits(pod("late", 1, at=302))),
    ),
    Case(
        "all pods of a gang start at once, on many nodes",
        [pod("a", 4, runs=600), pod("b", 4, runs=300), job("both", gang=2, gpu=4, at=1)],
        {"both": 600},
        {"both": "when ns/a ends"},
        nodes=(node("n1", gpu=4), node("n2", gpu=4)),
    ),
    Case(
        "a gang that takes parts of GPUs may start when they are free",
        [pod("a", 0, part=700, runs=600), pod("b", 0, part=700, runs=300), pod("shared", 0, part=1000, at=1)],
        {"shared": 300},
        {"shared": "when ns/b ends on n1"},
        nodes=(node("n1", shared=2),),
    ),
    Case(
        "and who comes after it when it ends",
        [
            pod("a", 0, part=700, runs=600),
            pod("first", 0, part=500, at=1, runs=60),
            pod("second", 0, part=800, at=2),
        ],
        {"first": 600, "second": 660},
        {"second": "when ns/first ends on n1"},
        nodes=(node("n1", shared=1),),
    ),
    Case(
        "a gang that must be in one rack may start when one has the room",
        [
            *(pod(f"p{at}", 4, on=[f"n{at}"], runs=runs) for at, runs in enumerate((100, 400, 200, 300))),
            near(job("both", gang=2, gpu=4, at=1)),
        ],
        {"both": 300},
        {"both": "when ns/p3 ends"},
        nodes=tuple(node(f"n{number}", gpu=4) for number in range(4)),
        racks=(hypernode("r1", 1, "n0", "n1"), hypernode("r2", 1, "n2", "n3")),
    ),
    Case(
        "a gang that must keep away from others may start when they have ended",
        [
            pod("a", 1, runs=600, pod_labels={"app": "x"}),
            pod("full", 4, on=["n2"]),
            pod("shy", 1, at=1, extras=apart(term("x"))),
        ],
        {"shy": 600},
        {"shy": "when ns/a ends on n1"},
        nodes=(node("n1", gpu=4, labels={HOST: "n1"}), node("n2", gpu=4, labels={HOST: "n2"})),
    ),
    Case(
        "nor is one told when room is kept for it already that these keep it out of",
        [
            pod("a", 1, on=["n1"], pod_labels={"app": "x"}, extras=apart(term("x"))),
            pod("b", 1, on=["n2"], pod_labels={"app": "x"}, extras=apart(term("x"))),
            pod("shy", 1, at=1, pod_labels={"app": "x"}, extras=apart(term("x"))),
        ],
        {"shy": None},
        {"shy": "nobody can say when"},
        nodes=(node("n1", gpu=4, labels={HOST: "n1"}), node("n2", gpu=4, labels={HOST: "n2"})),
        then=(passes(310),),
    ),
    Case(
        "of a gang that can never be as it asks no start is told",
        [
            job("never", gang=2, pod_labels={"app": "x"}, extras=apart(term("x"))),
            pod("a", 4, runs=600),
        ],
        {"never": None},
        {"never": ""},
        nodes=(node("n1", gpu=4, labels={HOST: "n1"}),),
    ),
    Case(
        "nobody is told a start for a gang to which volumes of nodes matter",
        [pod("a", 4, runs=600), pod("mounts", 1, at=1, volumes=mounting(mount("v")))],
        {"mounts": None},
        {"mounts": "nobody can say when: volumes"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_waiting_gang_is_told_when_it_may_start(case: Case) -> None:
    world = World()
    for state in case.queues:
        world.queue(state)
    for there in case.nodes:
        world.node(there)
    for rack in case.racks:
        world.hypernode(rack)
    for gang in case.jobs:
        world.submit(gang)
    world.settle()
    for step in case.then:
        step(world)
        world.settle()
    found = reports(world)
    for name, at in case.starts.items():
        report = found[name]
        assert report.estimated_start == (None if at is None else START + timedelta(seconds=at)), report
        assert report.estimated_start_p90 == report.estimated_start
    for name, words in case.says.items():
        assert found[name].outlook.startswith(words), found[name]
        assert found[name].outlook or not words


_RUNS = st.one_of(st.none(), st.integers(1, 50).map(float))


@given(running=st.lists(_RUNS, min_size=4, max_size=4), waiting=st.lists(_RUNS, max_size=9))
def test_pods_of_one_size_start_as_at_a_counter_with_many_clerks(
    running: list[float | None], waiting: list[float | None]
) -> None:
    world = World()
    world.queue(queue("default"))
    world.node(node("n1", gpu=3))
    world.node(node("n2", gpu=1))
    for number, runs in enumerate(running):
        world.submit(pod(f"r{number}", runs=runs))
    world.settle()
    for number, runs in enumerate(waiting):
        world.submit(pod(f"w{number}", runs=runs, at=1 + number / 100))
    world.settle()
    forever = 1e9
    clerks = [forever if runs is None else runs for runs in running]
    heapify(clerks)
    expected: dict[str, float | None] = {}
    for number, runs in enumerate(waiting):
        start = heappop(clerks)
        expected[f"w{number}"] = None if start >= forever else start
        heappush(clerks, forever if runs is None else start + runs)
    found = {
        name: report.estimated_start and (report.estimated_start - START).total_seconds()
        for name, report in reports(world).items()
    }
    assert found == expected


def rounds(reporter: Reporter, world: World) -> list[c.GangReport]:
    reporter.begin(world.now)
    while reporter.foresee():
        pass
    return reporter.some(world.now, 100) or []


def full() -> World:
    world = World()
    world.queue(queue("default"))
    world.node(node("n1", gpu=4))
    world.submit(pod("a", 4, runs=600))
    world.submit(pod("b", 4, at=1))
    world.settle()
    return world


def test_a_start_that_stays_is_told_once() -> None:
    world = full()
    reporter = Reporter(world.model)
    assert [one.gang.name for one in rounds(reporter, world)] == ["b"]
    world.pass_time(100)
    world.settle()
    assert rounds(reporter, world) == []


def test_a_start_that_moves_by_a_tenth_of_the_wait_is_told_again() -> None:
    world = full()
    reporter = Reporter(world.model)
    rounds(reporter, world)
    for runs, is_told in ((601.0, False), (640.0, False), (700.0, True)):
        world.submit(world.books.gangs["ns", "a"].model_copy(update={"run_seconds": runs}))
        world.settle()
        assert bool(rounds(reporter, world)) is is_told, runs


def test_starts_are_worked_out_now_and_then_and_what_is_put_off_is_due() -> None:
    world = full()
    reporter = Reporter(world.model, timedelta(seconds=10))
    rounds(reporter, world)
    begin = world.now
    world.submit(pod("c", 4, at=2))
    world.pass_time(5)
    world.settle()
    (report,) = rounds(reporter, world)
    assert (report.gang.name, report.estimated_start, report.outlook) == ("c", None, "")
    assert not reporter.is_due(world.now)
    assert reporter.is_due(begin + timedelta(seconds=10))
    world.pass_time(5)
    (report,) = rounds(reporter, world)
    assert (report.gang.name, report.outlook[:17]) == ("c", "nobody can say wh")


def test_only_the_first_gangs_are_looked_at_and_the_others_are_told_so() -> None:
    world = full()
    for number in range(105):
        world.submit(pod(f"x{number:03d}", 4, at=2 + number, runs=1))
    world.settle()
    found = reports(world)
    assert found["x104"].estimated_start is None
    assert found["x104"].outlook == "not worked out: 105 gangs come first"
