"""Work follows the change: shown by counting what is looked at, never by time."""

from __future__ import annotations

from services.scheduler.core.cycle import decide
from services.scheduler.core.model import Model
from shared.events import contracts as c
from tests.scenarios.scenario import job, node, other, queue, task
from tests.scenarios.world import START


def cluster(nodes: int) -> Model:
    model = Model()
    model.apply_queue(queue("default"))
    for number in range(nodes):
        model.apply_node(node(f"n{number:05d}", gpu=8))
    return model


def submit(model: Model, gang: c.Gang) -> None:
    model.gang_ready(gang)


def looked_at(model: Model, step) -> tuple[int, int, int]:
    """Nodes, passes over all nodes, and gangs that one step and its cycle looked at."""
    work = model.work
    before = work.nodes, work.passes, work.gangs
    step()
    decide(model, START)
    return work.nodes - before[0], work.passes - before[1], work.gangs - before[2]


def test_a_cycle_without_a_change_looks_at_nothing() -> None:
    model = cluster(100)
    submit(model, job("train", gang=4, gpu=1))
    decide(model, START)
    assert looked_at(model, lambda: None) == (0, 0, 0)


def test_a_lone_gang_costs_the_nodes_it_uses_whatever_the_size_of_the_cluster() -> None:
    for nodes in (100, 4000):
        model = cluster(nodes)
        submit(model, job("first", gang=4, gpu=1))
        decide(model, START)
        for number in range(20):
            seen = looked_at(model, lambda m=model, n=number: submit(m, job(f"j{n}", gang=4, gpu=1)))
            assert seen == (1, 0, 1)


def test_pods_that_already_run_cost_nothing() -> None:
    model = cluster(400)
    for number in range(350):
        for slot in range(8):
            model.apply_pod(other(f"x{number}-{slot}", f"n{number:05d}", gpu=1))
    submit(model, job("first", gang=4, gpu=1))
    decide(model, START)
    assert looked_at(model, lambda: submit(model, job("train", gang=4, gpu=1))) == (1, 0, 1)


def test_a_pod_that_ends_costs_one_node() -> None:
    model = cluster(1000)
    model.apply_pod(other("x", "n00500", gpu=1))
    submit(model, job("first", gang=4, gpu=1))
    decide(model, START)
    nodes, passes, _ = looked_at(
        model, lambda: (model.remove_pod("other", "x"), submit(model, job("train", gang=8, gpu=1)))
    )
    assert passes == 0
    assert nodes <= 4


def test_ten_thousand_equal_gangs_that_do_not_fit_cost_one_trial() -> None:
    model = cluster(4)
    for number in range(10_000):
        submit(model, job(f"j{number}", gang=40, gpu=1))
    assert looked_at(model, lambda: None)[2] == 1


def test_ten_thousand_waiting_gangs_cost_nothing_while_nothing_they_need_grows() -> None:
    model = cluster(4)
    for number in range(4):
        model.apply_pod(other(f"x{number}", f"n{number:05d}", gpu=6))
    for number in range(10_000):
        submit(model, job(f"j{number}", gang=20, gpu=1))
    decide(model, START)
    assert looked_at(model, lambda: submit(model, job("cpu", gang=2, cpu=1)))[2] == 1
    nodes, _, gangs = looked_at(model, lambda: model.remove_pod("other", "x1"))
    assert gangs == 0
    assert nodes <= 4


def test_waiting_gangs_are_tried_again_when_enough_grew() -> None:
    model = cluster(4)
    for number in range(4):
        model.apply_pod(other(f"x{number}", f"n{number:05d}", gpu=8))
    for number in range(1000):
        submit(model, job(f"j{number}", gang=16, gpu=1))
    decide(model, START)
    model.remove_pod("other", "x1")
    assert decide(model, START).decisions == []
    model.remove_pod("other", "x2")
    assert len(decide(model, START).decisions) == 1


def test_a_gang_that_does_not_fit_all_at_once_is_tried_when_a_node_is_used_that_it_may_use() -> None:
    model = cluster(0)
    model.apply_node(node("n1", gpu=4, cpu=4.5))
    model.apply_node(node("n2", cpu=5))
    model.apply_node(node("n3", cpu=5, taints=["team=a:NoSchedule"]))
    submit(model, job("train", task("a", 1, cpu=4), task("b", 2, gpu=1, cpu=1)))
    submit(model, job("again", task("a", 1, cpu=4), task("b", 2, gpu=1, cpu=1), at=1))
    decide(model, START)
    assert looked_at(model, lambda: None) == (0, 0, 0)
    assert looked_at(model, lambda: model.apply_pod(other("x", "n3", cpu=1)))[2] == 0
    assert looked_at(model, lambda: model.apply_pod(other("y", "n2", gpu=0, cpu=0)))[2] == 1
    assert looked_at(model, lambda: None) == (0, 0, 0)


def test_what_surplus_makes_possible_is_decided_at_once() -> None:
    model = cluster(0)
    model.apply_node(node("n1", gpu=4, cpu=4.5))
    model.apply_node(node("n2", cpu=6))
    submit(model, job("train", task("a", 1, cpu=4), task("b", 2, gpu=1, cpu=1)))
    submit(model, job("small", gang=1, replicas=2, cpu=1, on=["n2"], at=1))
    first = decide(model, START)
    assert [(one.name, len(one.rows)) for one in first.decisions] == [("small", 2)]
    assert first.unfinished
    second = decide(model, START)
    assert [one.name for one in second.decisions] == ["train"]
    assert not second.unfinished


def test_gangs_over_their_quota_are_not_tried_while_it_stays_used() -> None:
    model = cluster(4)
    model.apply_queue(queue("team", gpu=4))
    submit(model, job("first", gang=4, gpu=1, queue="team"))
    for number in range(1000):
        submit(model, job(f"j{number}", gang=1, gpu=1, queue="team", at=1))
    decide(model, START)
    assert looked_at(model, lambda: model.apply_node(node("new", gpu=8)))[2] == 0


def test_events_that_say_nothing_new_cost_nothing() -> None:
    model = cluster(50)
    gang = job("train", gang=4, gpu=1)
    submit(model, gang)
    decide(model, START)

    def again() -> None:
        submit(model, gang)
        for number in range(50):
            model.apply_node(node(f"n{number:05d}", gpu=8))
        model.apply_queue(queue("default"))

    assert looked_at(model, again) == (0, 0, 0)
