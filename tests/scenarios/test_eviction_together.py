"""Room that is kept for gangs to which it matters where pods are, by example."""

from __future__ import annotations

from shared.events import contracts as c
from tests.scenarios.scenario import job, leaves, node, queue, reports, task
from tests.scenarios.test_kin import HOST, ZONE, apart, other, term
from tests.scenarios.test_kin import near as beside
from tests.scenarios.test_topology import hypernode, near
from tests.scenarios.world import World


def two_nodes(*low: c.Gang) -> World:
    """Two nodes of 4 GPUs, in a rack and a zone each, and gangs of low priority on them."""
    world = World()
    world.queue(queue("default"))
    for name, zone in (("n0", "a"), ("n1", "b")):
        world.node(node(name, gpu=4, cpu=16, labels={HOST: name, ZONE: zone}))
        world.hypernode(hypernode(f"rack-{zone}", 1, name))
    for gang in low:
        world.submit(gang)
    world.settle()
    return world


def full() -> World:
    return two_nodes(job("low0", gang=4, gpu=1), job("low1", gang=4, gpu=1, at=1))


def on(world: World, name: str) -> list[str | None]:
    return [pod.node for pod in world.members(("ns", name))]


def test_victims_of_a_gang_that_must_be_near_lie_in_one_rack() -> None:
    world = two_nodes(job("low0", gang=1, replicas=4, gpu=1), job("low1", gang=1, replicas=4, gpu=1, at=1))
    world.submit(near(job("high", gang=2, gpu=1, priority=9, at=60)))
    world.settle()
    (rack,) = set(on(world, "high"))
    assert rack is not None
    assert len(world.books.evicted) == 2


def test_a_minimum_of_whichever_members_fit_evicts_for_those_that_can() -> None:
    """No node takes pods of the first task."""
    world = full()
    tasks = (task("a", 2, 0, gpu=1, selector={ZONE: "none"}), task("b", 2, 0, gpu=4))
    world.submit(job("high", *tasks, gang=1, priority=9, at=60))
    world.settle()
    assert [pod.task for pod in world.members(("ns", "high")) if pod.node is not None] == ["b"]
    assert len(world.books.evicted) == 4


def test_who_must_keep_away_from_a_gang_keeps_away_from_the_room_that_is_kept_for_it() -> None:
    world = full()
    high = job("high", gang=1, gpu=4, priority=9, at=60, pod_labels={"app": "x"}, extras=apart(term("x")))
    world.submit(high)
    (decision,) = world.decide()
    kept = decision.reservations[0].node
    shy = job("shy", gang=2, cpu=1, at=61, pod_labels={"app": "x"}, extras=apart(term("x")))
    world.submit(shy)
    assert world.decide() == [], "only one node is left for it"
    world.carry_out(decision)
    world.victims_go()
    world.settle()
    assert on(world, "high") == [kept]
    assert on(world, "shy") in ([], [None, None])


def test_nobody_is_placed_beside_pods_that_are_not_there_yet() -> None:
    world = full()
    world.submit(
        job("high", gang=1, gpu=4, priority=9, at=60, pod_labels={"app": "x"}, extras=apart(term("x")))
    )
    (decision,) = world.decide()
    world.submit(job("fond", gang=1, cpu=1, at=61, extras=beside(term("x"))))
    assert world.decide() == []
    world.carry_out(decision)
    world.victims_go()
    world.settle()
    assert on(world, "fond") == on(world, "high")


def test_kept_room_is_looked_at_again_by_rules_between_pods() -> None:
    """A pod that the gang must keep away from comes to its node before the victims have left."""
    world = full()
    world.submit(job("high", gang=1, gpu=4, priority=9, at=60, extras=apart(term("loud"))))
    (decision,) = world.decide()
    kept = decision.reservations[0].node
    world.pod(other("radio", kept, "loud"))
    world.carry_out(decision)
    world.victims_go()
    world.settle()
    (place,) = on(world, "high")
    assert place not in (None, kept)


def test_room_beside_a_pod_that_leaves_is_kept_once_and_used_when_it_has_left() -> None:
    """The gang must keep away from the pod, which leaves by itself; so nobody has to be evicted for it."""
    world = two_nodes(
        job("low", gang=1, gpu=1, on=["n0"], pod_labels={"app": "low"}), job("full", gang=4, gpu=1, on=["n1"])
    )
    leaves("low-worker-0")(world)
    world.submit(job("high", gang=1, gpu=1, priority=9, at=60, extras=apart(term("low"))))
    (decision,) = world.decide()
    world.carry_out(decision)
    assert ([row.node for row in decision.reservations], decision.evictions) == (["n0"], ())
    for _ in range(3):
        assert world.decide() == []
    world.delete_pod(("ns", "low-worker-0"))
    world.settle()
    assert on(world, "high") == ["n0"]


def sharing(*low: c.Gang) -> World:
    """A node with two shared GPUs, and gangs of low priority on it."""
    world = World()
    world.queue(queue("default"))
    world.node(node("n0", shared=2))
    for gang in low:
        world.submit(gang)
    world.settle()
    return world


def test_nobody_takes_a_part_of_a_device_that_is_kept_for_another_gang() -> None:
    """The victims leave one after the other; what the first leaves would do for a gang that came later."""
    world = sharing(*(job(f"low{number}", gang=1, part=500, at=number) for number in range(4)))
    world.submit(job("high", gang=1, part=1000, priority=9, at=60))
    (decision,) = world.decide()
    world.carry_out(decision)
    assert len(decision.evictions) == 2
    assert len(decision.reservations[0].devices) == 1
    first, second = sorted(world.books.leaving)
    left = dict(world.books.leaving)
    del world.books.leaving[second]
    world.victims_go(remade=False)
    world.submit(job("late", gang=1, part=500, at=61))
    world.settle()
    assert on(world, "late") in ([], [None])
    world.books.leaving[second] = left[second]
    world.victims_go(remade=False)
    world.settle()
    assert on(world, "high") == ["n0"]
    assert first not in world.books.pods


def test_which_devices_a_gang_gets_is_decided_when_it_lands() -> None:
    """The device that was kept for it has broken, and another one has become free."""
    world = sharing(job("low0", gang=1, part=1000), job("low1", gang=1, part=1000, at=1))
    world.submit(job("high", gang=1, part=500, priority=9, at=60))
    (decision,) = world.decide()
    world.carry_out(decision)
    (kept,) = decision.reservations[0].devices
    state = world.books.nodes["n0"]
    devices = tuple(c.Device(cores=0) if at == kept else c.Device() for at in range(2))
    world.node(state.model_copy(update={"devices": devices}))
    other_key = next(key for key, pod in world.books.pods.items() if pod.devices == (1 - kept,))
    world.remove_gang((other_key[0], world.books.pods[other_key].gang or ""))
    world.victims_go(remade=False)
    world.settle()
    (pod,) = world.members(("ns", "high"))
    assert (pod.node, pod.devices) == ("n0", (1 - kept,))


def test_a_gang_that_waits_for_its_room_wakes_nobody_when_it_looks_whether_it_lands() -> None:
    world = full()
    world.submit(near(job("high", gang=2, gpu=2, priority=9, at=60)))
    (decision,) = world.decide()
    model = world.model
    (mark,) = model.earmarks
    before = model.nodes.used.copy(), set(model.nodes.moved), set(model.nodes.grown), model.nodes.room_version
    with model.earmarks.lifted(mark.key):
        assert (model.nodes.earmarked == 0).all()
    after = model.nodes.used, model.nodes.moved, model.nodes.grown, model.nodes.room_version
    assert (before[0] == after[0]).all()
    assert before[1:] == after[1:]
    world.carry_out(decision)
    world.settle()
    assert None not in on(world, "high")


def beside_each_other(limit: int) -> World:
    """Two nodes of 8 GPUs, and queues q and r under one that may hold ``limit``; low runs in q."""
    world = World()
    for one in (queue("dept", gpu=limit), queue("q", parent="dept"), queue("r", parent="dept")):
        world.queue(one)
    for name in ("n0", "n1"):
        world.node(node(name, gpu=8, cpu=32))
    world.submit(job("low", gang=1, gpu=8, queue="q", on=["n0"]))
    world.settle()
    return world


def test_a_queue_holds_what_is_kept_for_a_gang_or_what_leaves_for_it_and_not_both() -> None:
    world = beside_each_other(12)
    world.submit(job("high", gang=1, gpu=8, queue="q", priority=9, at=1, on=["n0"]))
    world.submit(job("beside", gang=1, gpu=4, queue="r", at=2))
    world.submit(job("more", gang=1, gpu=1, queue="r", at=3))
    while found := world.decide():  # and those that leave take their time
        for one in found:
            world.carry_out(one)
    assert world.books.leaving
    assert on(world, "high") == []
    assert on(world, "beside") == ["n1"]
    why = reports(world)["more"].reason
    assert (why.code, why.numbers["used"], why.numbers["capability"]) == ("queue-capability", 12, 12)
    world.victims_go()
    world.settle()
    assert on(world, "high") == ["n0"]
    assert reports(world)["more"].reason.numbers["used"] == 12
