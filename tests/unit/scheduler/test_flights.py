"""Decisions in flight: what counts, until when, and that nothing counts for ever."""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.scheduler.core.cycle import decide
from services.scheduler.core.decisions import Decision
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Policy
from services.scheduler.core.reports import Reporter
from services.scheduler.core.results import adopt, apply_result
from shared.events import contracts as c
from tests.scenarios.scenario import job, node, queue
from tests.scenarios.world import START

GANG = job("train", gang=4, gpu=1)
PATIENCE = Policy().patience


def world() -> Model:
    model = Model()
    model.apply_queue(queue("default"))
    model.apply_node(node("n1", gpu=8))
    model.apply_podgroup(group(GANG))
    return model


def group(gang: c.Gang, phase: str = "Pending") -> c.PodGroupState:
    return c.PodGroupState(namespace="ns", name=gang.name, uid=gang.uid, phase=phase, gang=gang)


def pod(
    number: int, *, node_name: str | None = "n1", phase: str = "Running", generation: int = 0
) -> c.PodState:
    return c.PodState(
        namespace="ns",
        name=f"train-worker-{number}",
        uid=f"uid-{number}",
        gang="train",
        task="worker",
        generation=generation,
        queue="default",
        node=node_name,
        phase=phase,
        shape=GANG.tasks[0].shape,
        created_at=START,
    )


def free(model: Model) -> int:
    """GPUs that are free on n1."""
    column = model.resources.column("nvidia.com/gpu")
    slot = model.nodes.slots["n1"]
    return int(model.nodes.allocatable[column, slot] - model.nodes.used[column, slot])


def releasing(model: Model) -> int:
    """GPUs on n1 of pods that are being deleted."""
    return int(model.nodes.releasing[model.resources.column("nvidia.com/gpu"), model.nodes.slots["n1"]])


def result(
    decision: str,
    outcome: str,
    *,
    bound: tuple[int, ...] = (0, 1, 2, 3),
    failed: tuple[int, ...] = (),
    later: float = 0,
) -> c.DecisionApplied:
    return c.DecisionApplied(
        decision=decision,
        pool="default",
        gang=GANG.ref,
        outcome=c.DecisionOutcome(outcome),
        bound=tuple(c.BoundPod(pod=f"train-worker-{n}", uid=f"uid-{n}", node="n1") for n in bound),
        failures=tuple(
            c.BindFailure(pod=f"train-worker-{n}", node="n1", code="x", message="x") for n in failed
        ),
        at=START + timedelta(seconds=later),
    )


def test_what_was_decided_counts_before_anybody_saw_it() -> None:
    model = world()
    assert len(decide(model, START).decisions) == 1
    assert free(model) == 4
    assert model.queues.get("default").held[model.resources.column("nvidia.com/gpu")] == 4


def test_the_state_takes_over_without_a_gap_and_without_counting_twice() -> None:
    model = world()
    decide(model, START)
    for number in range(4):
        model.apply_pod(pod(number))
        assert free(model) == 4
    assert len(model.flights) == 0


def test_a_pod_seen_on_another_node_than_decided_counts_there() -> None:
    model = world()
    model.apply_node(node("n2", gpu=8))
    decide(model, START)
    model.apply_pod(pod(0, node_name="n2"))
    assert free(model) == 5


@pytest.mark.parametrize("outcome", ["refused", "rolled-back"])
def test_a_result_that_refuses_frees_everything(outcome) -> None:
    model = world()
    (decision,) = decide(model, START).decisions
    apply_result(model, result(decision.number, outcome))
    assert free(model) == 8
    assert len(model.flights) == 0


def test_a_partial_result_frees_what_failed() -> None:
    model = world()
    (decision,) = decide(model, START).decisions
    apply_result(model, result(decision.number, "partial", bound=(0, 1, 2), failed=(3,)))
    assert free(model) == 5


def test_a_pod_that_the_result_does_not_call_bound_frees_its_room() -> None:
    model = world()
    (decision,) = decide(model, START).decisions
    apply_result(model, result(decision.number, "applied", bound=(0,)))
    assert free(model) == 7


def test_a_rolled_back_gang_is_tried_again_later_and_later() -> None:
    model, waits, now = world(), [], START
    for _ in range(4):
        (decision,) = decide(model, now).decisions
        apply_result(model, result(decision.number, "rolled-back", later=(now - START).total_seconds()))
        outcome = decide(model, now)
        assert outcome.decisions == []
        assert outcome.wake_at is not None
        waits.append((outcome.wake_at - now).total_seconds())
        now = outcome.wake_at
    assert waits == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "train-worker-1: exceeded quota: team"),
        ("2 of 4 bindings failed: no", "2 of 4 bindings failed: no"),
    ],
)
def test_a_gang_that_is_tried_again_says_what_the_last_try_failed_of_once(message: str, said: str) -> None:
    model = world()
    reporter = Reporter(model)
    (decision,) = decide(model, START).decisions
    failure = c.BindFailure(pod="w", node="n1", code="x", message="train-worker-1: exceeded quota: team")
    change = {"failures": (failure,), "message": message}
    apply_result(model, result(decision.number, "rolled-back").model_copy(update=change))
    decide(model, START)
    reporter.begin(START)
    (report,) = reporter.some(START, 10) or []
    assert report.reason.code == "retrying"
    assert report.reason.message == f"its last decision could not be carried out (1 in a row): {said}"
    reporter.begin(START + timedelta(seconds=0.2))
    assert reporter.some(START + timedelta(seconds=0.2), 10) == []


def test_a_decision_without_a_result_is_sent_again_and_still_counts() -> None:
    model = world()
    (decision,) = decide(model, START).decisions
    assert decide(model, START + PATIENCE / 2).decisions == []
    (again,) = decide(model, START + PATIENCE).decisions
    assert again.number == decision.number
    assert again.again
    assert free(model) == 4


def test_a_pod_said_to_be_bound_and_never_seen_does_not_count_for_ever() -> None:
    model = world()
    (decision,) = decide(model, START).decisions
    apply_result(model, result(decision.number, "applied"))
    for number in range(3):
        model.apply_pod(pod(number))
    decide(model, START + PATIENCE)
    assert free(model) == 5
    assert model.flights.given_up == 1


def test_what_is_in_flight_for_a_gang_that_is_gone_counts_until_its_result() -> None:
    model = world()
    (decision,) = decide(model, START).decisions
    model.remove_podgroup("ns", "train")
    assert free(model) == 4
    apply_result(model, result(decision.number, "refused"))
    assert free(model) == 8


def test_what_is_in_flight_for_a_gang_that_is_gone_is_given_up_without_a_result() -> None:
    model = world()
    decide(model, START)
    model.remove_podgroup("ns", "train")
    assert decide(model, START + PATIENCE).decisions == []
    assert free(model) == 8


def test_a_pod_of_the_former_generation_does_not_land_the_new_one() -> None:
    model = world()
    for number in range(4):
        model.apply_pod(pod(number))
    model.apply_podgroup(group(GANG.model_copy(update={"generation": 1})))
    assert len(decide(model, START).decisions) == 1
    assert free(model) == 0
    for number in range(4):
        model.remove_pod("ns", f"train-worker-{number}")
    assert free(model) == 4


def test_what_is_in_flight_for_the_former_generation_is_not_of_the_new_one() -> None:
    model = world()
    decide(model, START)
    model.apply_podgroup(group(GANG.model_copy(update={"generation": 1})))
    (decision,) = decide(model, START).decisions
    assert (decision.generation, len(decision.rows)) == (1, 4)
    assert free(model) == 0


def test_a_result_of_the_former_generation_does_not_hold_the_new_one_up() -> None:
    model = world()
    (former,) = decide(model, START).decisions
    model.apply_podgroup(group(GANG.model_copy(update={"generation": 1})))
    apply_result(model, result(former.number, "rolled-back"))
    (decision,) = decide(model, START).decisions
    assert decision.generation == 1
    assert free(model) == 4


def test_a_pod_of_the_former_generation_that_is_seen_late_counts_beside_what_is_in_flight() -> None:
    model = world()
    model.apply_podgroup(group(GANG.model_copy(update={"generation": 1})))
    assert len(decide(model, START).decisions) == 1
    model.apply_pod(pod(0))
    assert free(model) == 3
    model.remove_pod("ns", "train-worker-0")
    assert free(model) == 4


def test_a_pod_that_is_seen_first_when_it_is_being_deleted_counts_as_releasing_until_it_is_gone() -> None:
    model = world()
    decide(model, START)
    model.apply_pod(pod(0).model_copy(update={"releasing": True}))
    assert releasing(model) == 1
    assert free(model) == 4
    model.remove_pod("ns", "train-worker-0")
    assert releasing(model) == 0
    assert free(model) == 5


def test_a_gang_that_was_refused_and_has_no_podgroup_is_forgotten() -> None:
    model = Model()
    model.apply_queue(queue("default"))
    model.apply_node(node("n1", gpu=8))
    model.gang_ready(GANG)
    (decision,) = decide(model, START).decisions
    apply_result(model, result(decision.number, "refused"))
    assert decide(model, START + timedelta(hours=1)).decisions == []
    assert model.gangs == {}


def test_a_gang_all_of_which_went_before_its_podgroup_said_that_it_was_let_in_is_decided_anew() -> None:
    model = world()
    (decision,) = decide(model, START).decisions
    apply_result(model, result(decision.number, "applied"))
    for number in range(4):
        model.apply_pod(pod(number))
    for number in range(4):
        assert decide(model, START).decisions == []
        model.remove_pod("ns", f"train-worker-{number}")
    (again,) = decide(model, START).decisions
    assert (again.enqueue, len(again.rows)) == (True, 4)


def decided(decision: Decision) -> c.GangDecided:
    """What the log says of a decision."""
    return c.GangDecided(
        decision=decision.number,
        pool="default",
        gang=GANG.ref,
        enqueue=True,
        bindings=tuple(c.Binding(pod=p, task=t, node=n, uid=u) for p, t, n, u in decision.rows),
        minimum=4,
        decided_at=START,
    )


def test_a_new_scheduler_counts_what_the_old_one_decided_but_not_what_is_seen() -> None:
    old = world()
    (decision,) = decide(old, START).decisions
    event = decided(decision)
    new = world()
    new.apply_pod(pod(0))
    adopt(new, event, START)
    adopt(new, event, START)
    assert free(new) == 4
    assert decide(new, START).decisions == []
    apply_result(new, result(decision.number, "rolled-back"))
    assert free(new) == 7


def test_a_new_scheduler_whose_clock_is_behind_gives_later_numbers_than_the_old_one() -> None:
    (decision,) = decide(world(), START).decisions
    new, now = world(), START - timedelta(hours=1)
    adopt(new, decided(decision), now)
    apply_result(new, result(decision.number, "rolled-back", later=-3601))
    (again,) = decide(new, now).decisions
    assert int(again.number.rpartition("/")[2]) > int(decision.number.rpartition("/")[2])


def test_numbers_of_decisions_never_repeat() -> None:
    model, seen = world(), set()
    for step in range(3):
        now = START + timedelta(seconds=step)
        (decision,) = decide(model, now).decisions
        apply_result(model, result(decision.number, "rolled-back", later=step - 9))
        seen.add(decision.number)
    assert len(seen) == 3


def test_a_late_gang_of_an_older_generation_changes_nothing() -> None:
    model = world()
    newer = GANG.model_copy(update={"generation": 2})
    model.apply_podgroup(group(newer))
    model.gang_ready(GANG)
    (decision,) = decide(model, START).decisions
    assert decision.generation == 2
