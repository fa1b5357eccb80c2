"""What an extender said counts, what it has not said is waited for, and what of its words is read."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.core import asking
from services.scheduler.core.configuration import configure
from services.scheduler.core.extending import ExtenderVote, question_of, unasked
from services.scheduler.core.policy import Extender, Policy
from shared.events import contracts as c
from tests.scenarios.scenario import (
    GPU,
    Scenario,
    Step,
    adds,
    check,
    job,
    node,
    placed,
    queue,
    reports,
    shape,
    submits,
    waits,
)
from tests.scenarios.world import START, World

URL = "http://127.0.0.1:1/x"


def file(**arguments: Any) -> str:
    given_ = {f"extender.{name}": value for name, value in arguments.items()}
    plugins = [{"name": "gang"}, {"name": "extender", "arguments": given_}]
    return yaml.safe_dump({"actions": "allocate", "tiers": [{"plugins": plugins}]})


def policy(**arguments: Any) -> Policy:
    verbs = {"urlPrefix": URL, "predicateVerb": "predicate", "prioritizeVerb": "prioritize"}
    found = configure(file(**{**verbs, **arguments}), Policy())
    assert found.problems == ()
    return found.policy


ASKED = policy()
EVICTS = replace(ASKED, eviction=Policy().eviction)
IGNORED = policy(ignorable=True)
GPUS_ONLY = policy(managedResources=[GPU])


def says(
    *accepted: str,
    refused: dict[str, tuple[str, ...]] | None = None,
    unanswered: dict[str, tuple[str, ...]] | None = None,
    scores: dict[str, float] | None = None,
    of: c.Shape | None = None,
    by: Policy = ASKED,
) -> Step:
    """The extender's answer about pods with a GPU."""

    def step(world: World) -> None:
        assert by.extender is not None
        question = question_of(by.extender, of or shape(gpu=1))
        assert question is not None
        world.model.apply_answer(
            c.ExtenderAnswered(
                pool="default",
                question=question,
                accepted=accepted,
                refused=refused or {},
                unanswered=unanswered or {},
                scores=scores or {},
                as_of=START,
            )
        )

    return step


TWO = [node("n1", gpu=2), node("n2", gpu=2)]
ONE = [job("a", gpu=1)]


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(
            "a gang waits until the extender answers",
            TWO,
            ONE,
            {"a": waits("no-node-answered", "of 2 nodes, 2 are waiting for an answer of the extender")},
            policy=ASKED,
        ),
        Scenario(
            "and starts where it lets it run",
            TWO,
            ONE,
            {"a": placed(n2=1)},
            then=[says("n2", refused={"old firmware": ("n1",)})],
            policy=ASKED,
        ),
        Scenario(
            "what it says against nodes is the reason",
            TWO,
            ONE,
            {"a": waits("no-node-accepted", "2 are refused by the extender (old firmware)")},
            then=[says(refused={"old firmware": ("n1", "n2")})],
            policy=ASKED,
        ),
        Scenario(
            "nodes that it likes more are taken first",
            TWO,
            [job("a", replicas=3, gpu=1)],
            {"a": placed(n2=2, n1=1)},
            then=[says("n1", "n2", scores={"n2": 7.0})],
            policy=ASKED,
        ),
        Scenario(
            "another answer counts for those who come later",
            TWO,
            ONE,
            {"a": placed(n2=1), "b": placed(n1=1)},
            then=[
                says("n1", "n2", scores={"n2": 7.0}),
                says("n1", refused={"sick": ("n2",)}),
                submits(job("b", gpu=1)),
            ],
            policy=ASKED,
        ),
        Scenario(
            "pods of one shape need one answer",
            TWO,
            [*ONE, job("b", replicas=2, gpu=1)],
            {"a": placed(n1=1), "b": placed(n1=1, n2=1)},
            then=[says("n1", "n2")],
            policy=ASKED,
        ),
        Scenario(
            "pods of another shape wait for their own",
            TWO,
            [*ONE, job("b", gpu=2)],
            {"a": placed(n1=1), "b": waits("no-node-answered")},
            then=[says("n1", "n2")],
            policy=ASKED,
        ),
        Scenario(
            "a node that is new waits for an answer, the others do not",
            [TWO[0]],
            ONE,
            {
                "a": placed(n1=1),
                "b": waits("gang-too-large", "1 node is waiting for an answer of the extender"),
            },
            then=[says("n1"), adds(TWO[1]), submits(job("b", replicas=3, gpu=1))],
            policy=ASKED,
        ),
        Scenario(
            "where it cannot be asked nothing is placed, and the reason has the error",
            TWO,
            ONE,
            {
                "a": waits(
                    "no-node-answered", "2 are waiting for an answer of the extender (predicate: no answer"
                )
            },
            then=[says(unanswered={"predicate: no answer within 1 s": ("n1", "n2")})],
            policy=ASKED,
        ),
        Scenario(
            "unless that is ignorable",
            TWO,
            ONE,
            {"a": placed(n1=1)},
            then=[says(unanswered={"predicate: no answer within 1 s": ("n1", "n2")}, by=IGNORED)],
            policy=IGNORED,
        ),
        Scenario(
            "what was refused stays refused when an error is ignored",
            TWO,
            ONE,
            {"a": placed(n2=1)},
            then=[says(refused={"sick": ("n1",)}, unanswered={"down": ("n2",)}, by=IGNORED)],
            policy=IGNORED,
        ),
        Scenario(
            "it is not asked about pods that it does not manage",
            TWO,
            [job("web", cpu=1), *ONE],
            {"web": placed(n1=1), "a": waits("no-node-answered")},
            policy=GPUS_ONLY,
        ),
        Scenario(
            "nobody is evicted for a gang that waits for an answer",
            [node("n1", gpu=1)],
            [job("low", gpu=1, priority=1)],
            {"low": placed(1), "high": waits("no-node-answered")},
            then=[says("n1"), submits(job("high", gpu=1, cpu=2, priority=9, at=60))],
            policy=EVICTS,
        ),
        Scenario(
            "with the answer somebody is evicted for it",
            [node("n1", gpu=1)],
            [job("low", gpu=1, priority=1)],
            {"high": placed(1)},
            then=[
                says("n1"),
                submits(job("high", gpu=1, cpu=2, priority=9, at=60)),
                says("n1", of=shape(gpu=1, cpu=2)),
            ],
            policy=EVICTS,
            evicted=["low-worker-0"],
        ),
    ],
    ids=lambda scenario: scenario.name,
)
def test_what_the_extender_said_counts(scenario: Scenario) -> None:
    scenario.run()


def test_an_answer_to_another_pool_or_question_changes_nothing() -> None:
    world = World(ASKED)
    world.queue(queue("default"))
    for one in TWO:
        world.node(one)
    world.submit(ONE[0])
    world.settle()
    for pool, question in (
        ("other", question_of(ASKED.extender or Extender(URL), shape(gpu=1))),
        ("default", "x"),
    ):
        event = c.ExtenderAnswered(pool=pool, question=question or "", accepted=("n1", "n2"), as_of=START)
        world.model.apply_answer(event)
    world.settle()
    check(world, "a", waits("no-node-answered"))


def test_an_answer_that_is_taken_back_is_as_none() -> None:
    world = World(ASKED)
    world.queue(queue("default"))
    world.node(TWO[0])
    says("n1")(world)
    assert ASKED.extender is not None
    world.model.forget_answer("default", question_of(ASKED.extender, shape(gpu=1)) or "")
    world.submit(ONE[0])
    world.settle()
    check(world, "a", waits("no-node-answered"))


def test_with_another_extender_its_own_answers_count() -> None:
    other = policy(urlPrefix="http://127.0.0.1:2")
    world = World(ASKED)
    world.queue(queue("default"))
    world.node(TWO[0])
    says("n1")(world)
    world.set_policy(other)
    world.submit(ONE[0])
    world.settle()
    check(world, "a", waits("no-node-answered"))
    world.set_policy(ASKED)
    world.settle()
    check(world, "a", placed(1))


def test_it_is_noted_what_is_to_be_asked_and_about_nodes_alone_that_all_else_allows() -> None:
    world = World(ASKED)
    world.queue(queue("default"))
    for one in (*TWO, node("tainted", gpu=2, taints=["x:NoSchedule"])):
        world.node(one)
    world.submit(ONE[0])
    world.settle()
    answers = world.model.nodes.answers
    (question,) = answers.lacking
    assert sorted(answers.lacking[question]) == ["n1", "n2"]
    says("n1")(world)
    assert list(answers.lacking[question]) == ["n2"]


@given(st.integers(0, 2**32))
def test_decisions_do_not_depend_on_when_answers_came(seed: int) -> None:
    """Against one that knew all from the start: the same gangs start on the same nodes."""
    chance = random.Random(seed)
    nodes = [node(f"n{number}", gpu=chance.randint(1, 4)) for number in range(5)]
    names = [one.name for one in nodes]
    gangs = [job(f"g{number}", gpu=1, replicas=chance.randint(1, 4), at=number) for number in range(4)]
    history = [
        says(
            *(name for name in names if name not in sick),
            refused={"sick": tuple(sick)} if sick else None,
            scores={name: float(chance.randint(0, 3)) for name in names},
        )
        for sick in (chance.sample(names, chance.randint(0, 5)) for _ in range(3))
    ]
    early, late = World(ASKED), World(ASKED)
    for world in (early, late):
        world.queue(queue("default"))
        for one in nodes:
            world.node(one)
    for answer in history:
        answer(early)
    for gang in gangs:
        late.submit(gang)
    assert late.decide() == []
    history[-1](late)
    for gang in gangs:
        early.submit(gang)
    for world in (early, late):
        world.settle()
    assert {key: pod.node for key, pod in early.books.pods.items()} == {
        key: pod.node for key, pod in late.books.pods.items()
    }
    assert {name: report.reason.code for name, report in reports(early).items()} == {
        name: report.reason.code for name, report in reports(late).items()
    }


# ---------------------------------------------------------------------- votes

FULL = [node("n1", gpu=2)]
AB = [job("a", gpu=1, priority=1), job("b", gpu=1, priority=1, at=1)]
HIGH = job("high", gpu=1, priority=9, at=60)


def voting(method: str = "preemptable", more: str = "") -> Policy:
    """An extender that is asked about victims alone, in a tier of its own; ``more``: another tier."""
    arguments = f'{{extender.urlPrefix: "{URL}", extender.{method}Verb: v}}'
    text = "actions: allocate, preempt, reclaim\ntiers:\n- plugins: [{name: priority}]\n"
    text += f"- plugins: [{{name: extender, arguments: {arguments}}}]\n{more}"
    found = configure(text, Policy())
    assert found.problems == ()
    return found.policy


def lets(*names: str, but: tuple[str, ...] = (), by: Policy, gang: c.Gang = HIGH, **more: Any) -> Step:
    """It says of pods whether they may go for a gang."""

    def step(world: World) -> None:
        (vote,) = (
            one
            for tiers in (by.eviction.preempt_filters, by.eviction.reclaim_filters)
            for tier in tiers
            for one in tier
            if isinstance(one, ExtenderVote)
        )
        uid = {name: world.books.pods["ns", f"{name}-worker-0"].uid for name in (*names, *but)}
        event = c.ExtenderAnswered(
            pool="default",
            question=vote.question(gang) or "",
            about="pods",
            accepted=tuple(uid[name] for name in names),
            refused={"": tuple(uid[name] for name in but)},
            as_of=START,
            **more,
        )
        world.model.apply_answer(event)

    return step


PREEMPTS, RECLAIMS = voting(), voting("reclaimable", "- plugins: [{name: proportion}]")
PASSED_OVER = voting("preemptable", "- plugins: [{name: cdp}]")


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(
            "nobody is evicted before it has said whether they may",
            FULL,
            AB,
            {"high": waits("no-room"), "a": placed(1), "b": placed(1)},
            then=[submits(HIGH)],
            policy=PREEMPTS,
        ),
        Scenario(
            "then those go that it lets go",
            FULL,
            AB,
            {"high": placed(1), "b": placed(1)},
            then=[submits(HIGH), lets("a", but=("b",), by=PREEMPTS)],
            policy=PREEMPTS,
            evicted=["a-worker-0"],
        ),
        Scenario(
            "nobody does where it lets nobody go",
            FULL,
            AB,
            {"high": waits("no-room"), "a": placed(1), "b": placed(1)},
            then=[submits(HIGH), lets(but=("a", "b"), by=PREEMPTS)],
            policy=PREEMPTS,
        ),
        Scenario(
            "what it says for one gang is nothing to another",
            FULL,
            AB,
            {"high": waits("no-room"), "other": waits("no-room")},
            then=[
                submits(HIGH, job("other", gpu=1, cpu=2, priority=9, at=61)),
                lets("a", "b", by=PREEMPTS, gang=job("third")),
            ],
            policy=PREEMPTS,
        ),
        Scenario(
            "where it abstains the next tier decides",
            FULL,
            AB,
            {"high": placed(1), "a": placed(1)},
            then=[submits(HIGH), lets("a", but=("b",), by=PASSED_OVER, abstains=True)],
            policy=PASSED_OVER,
            evicted=["b-worker-0"],
        ),
        Scenario(
            "so it does of pods of other queues",
            FULL,
            [job("a", gpu=1, queue="x"), job("b", gpu=1, queue="x", at=1)],
            {"high": placed(1), "b": placed(1)},
            [queue("x"), queue("y")],
            then=[
                submits(HIGH.model_copy(update={"queue": "y"})),
                lets("a", but=("b",), by=RECLAIMS),
            ],
            policy=RECLAIMS,
            evicted=["a-worker-0"],
        ),
    ],
    ids=lambda scenario: scenario.name,
)
def test_its_votes_on_victims_count(scenario: Scenario) -> None:
    scenario.run()


def test_who_waits_for_a_vote_is_told_so() -> None:
    world = World(PREEMPTS)
    world.queue(queue("default"))
    world.node(FULL[0])
    for gang in AB:
        world.submit(gang)
    world.settle()
    world.submit(HIGH)
    world.settle()
    (reason,) = (one for one in reports(world)["high"].details if one.code == "victims-unanswered")
    assert reason.message == "the extender has not said yet whether 2 pods may be evicted for it"
    lets(but=("a", "b"), by=PREEMPTS)(world)
    world.settle()
    assert "victims-unanswered" not in {one.code for one in reports(world)["high"].details}


def test_in_a_simulation_its_tier_is_passed_over() -> None:
    assert unasked(PASSED_OVER).eviction.preempt_filters == (("cdp", "conformance"),)
    assert unasked(PREEMPTS).eviction.preempt_filters == (("conformance",),)
    assert unasked(PREEMPTS).extender is None
    assert unasked(Policy()) == Policy()


# ---------------------------------------------------------------------- words

REFUSED = ("queueOverused", "jobEnqueueable", "jobEnqueued", "jobReady",
           "allocateFunc", "deallocateFunc", "onSessionOpen", "onSessionClose")  # fmt: skip


@pytest.mark.parametrize("verb", REFUSED)
def test_verbs_that_cannot_be_kept_are_refused_by_name(verb: str) -> None:
    text = file(urlPrefix=URL, predicateVerb="p", **{f"{verb}Verb": verb})
    [problem] = configure(text, Policy()).problems
    assert problem.path == f"tiers[0].plugins[1].arguments.extender.{verb}Verb"
    assert problem.message.startswith("refused: ")


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"predicateVerb": "p"}, ["extender.urlPrefix: must say where the extender listens"]),
        ({"urlPrefix": URL}, ["must name what is asked"]),
        ({"urlPrefix": "localhost:80", "predicateVerb": "p"}, ["must be an address such as http://"]),
        ({"urlPrefix": "http://x:99999", "predicateVerb": "p"}, ["must be an address such as http://"]),
        ({"urlPrefix": URL, "predicateVerb": "p", "httpTimeout": "soon"}, ["must be a time such as"]),
        ({"urlPrefix": URL, "predicateVerb": "p", "managedResources": GPU}, ["must be a list of resources"]),
        ({"urlPrefix": URL, "predicateVerb": "p", "ignoreable": True}, ["did you mean extender.ignorable?"]),
    ],
)
def test_what_is_wrong_with_an_extender_is_named(arguments: dict[str, Any], lines: list[str]) -> None:
    found = [str(problem) for problem in configure(file(**arguments), Policy()).problems]
    assert all(any(line in one for one in found) for line in lines), found
    assert len(found) == len(lines), found


def test_arguments_are_read_as_volcano_has_them() -> None:
    found = policy(urlPrefix=f"{URL}/", httpTimeout="100ms", ignorable="true", managedResources=["a", "b"])
    assert found.extender == Extender(
        URL, timedelta(milliseconds=100), "predicate", "prioritize", ignorable=True, managed=("a", "b")
    )
    assert found.digest != ASKED.digest


# ---------------------------------------------------------------------- what is sent


def test_what_is_sent_has_volcanos_names_and_units() -> None:
    world = World(ASKED)
    world.queue(queue("default"))
    world.node(node("n1", gpu=2, cpu=4, labels={"zone": "a"}, taints=["x=y:PreferNoSchedule"]))
    sent = asking.node(world.model.nodes, 0)
    assert (sent["Name"], sent["Node"]["metadata"]["labels"]) == ("n1", {"zone": "a"})
    assert sent["Node"]["spec"]["taints"] == [{"key": "x", "value": "y", "effect": "PreferNoSchedule"}]
    assert sent["Allocatable"]["MilliCPU"] == 4000
    assert sent["Allocatable"]["ScalarResources"] == {GPU: 2000}
    assert sent["Used"] == {"MilliCPU": 0, "Memory": 0, "ScalarResources": {}}
    assert sent["Idle"] == sent["Allocatable"]
    task = asking.task("q", shape(gpu=1, cpu=0.5, selector={"zone": "a"}, on=["n1"], tolerates=["x"]))
    assert task["Resreq"] == {"MilliCPU": 500, "Memory": 0, "ScalarResources": {GPU: 1000}}
    spec = task["Pod"]["spec"]
    assert spec["nodeSelector"] == {"zone": "a"}
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "500m", GPU: "1"}
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    ]
