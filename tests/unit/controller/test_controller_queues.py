"""Queues: the table of states, parents and children, commands by object and topic, and what is counted."""

from __future__ import annotations

import asyncio

import pytest

from services.controller.core.queues import TRANSITIONS, QueueTrigger, QueueView, plan_queue, read_queue
from shared.api import names
from shared.api import resources as r
from shared.api.scheduling import QueueState
from shared.errors import Unavailable
from shared.events import topics
from shared.events.contracts import CommandQueue, QueueAction
from tests.unit.controller.conftest import job

OPEN, CLOSING, CLOSED = QueueState.OPEN, QueueState.CLOSING, QueueState.CLOSED
UNKNOWN = QueueState.UNKNOWN
TOP = QueueView("root", "u-root", OPEN)


def view(state, *, mark="", parent="root", name="team") -> QueueView:
    return QueueView(name, "u", state, parent, mark)


def above(state) -> QueueView:
    return QueueView("division", "u-d", state, "root")


@pytest.mark.parametrize(
    ("state", "command", "in_use", "after"),
    [
        (None, None, 0, OPEN),
        (None, QueueTrigger.CLOSE, 0, CLOSED),
        (OPEN, None, 0, None),
        (OPEN, QueueTrigger.OPEN, 0, None),
        (OPEN, QueueTrigger.CLOSE, 0, CLOSED),
        (OPEN, QueueTrigger.CLOSE, 2, CLOSING),
        (CLOSING, None, 2, None),
        (CLOSING, None, 0, CLOSED),
        (CLOSING, QueueTrigger.CLOSE, 2, None),
        (CLOSING, QueueTrigger.OPEN, 2, OPEN),
        (CLOSED, None, 0, None),
        (CLOSED, None, 2, None),
        (CLOSED, QueueTrigger.CLOSE, 0, None),
        (CLOSED, QueueTrigger.OPEN, 0, OPEN),
        (UNKNOWN, None, 0, None),
        (UNKNOWN, QueueTrigger.OPEN, 2, OPEN),
        (UNKNOWN, QueueTrigger.CLOSE, 0, CLOSED),
        (UNKNOWN, QueueTrigger.CLOSE, 2, CLOSING),
    ],
)
def test_what_a_queue_becomes(state, command, in_use, after):
    assert plan_queue(view(state), TOP, in_use, command).state == after


def test_every_state_is_in_the_table():
    assert set(TRANSITIONS) == {None, *QueueState}


@pytest.mark.parametrize("parent", [CLOSING, CLOSED])
@pytest.mark.parametrize(("in_use", "after"), [(0, CLOSED), (1, CLOSING)])
def test_a_queue_is_closed_and_marked_with_its_parent(parent, in_use, after):
    plan = plan_queue(view(OPEN, parent="division"), above(parent), in_use)
    assert (plan.state, plan.mark) == (after, "true")


def test_only_what_its_parent_closed_is_opened_with_it():
    marked = plan_queue(view(CLOSED, mark="true", parent="division"), above(OPEN), 0)
    by_hand = plan_queue(view(CLOSED, parent="division"), above(OPEN), 0)
    assert (marked.state, marked.mark) == (OPEN, "false")
    assert (by_hand.state, by_hand.mark) == (None, None)


def test_a_close_by_command_outlasts_the_parents_opening():
    plan = plan_queue(view(CLOSED, mark="true", parent="division"), above(CLOSED), 0, QueueTrigger.CLOSE)
    assert (plan.state, plan.mark) == (None, "false")
    assert plan_queue(view(CLOSED, mark="false", parent="division"), above(OPEN), 0).state is None


def test_a_queue_below_a_closed_one_is_not_opened():
    plan = plan_queue(view(CLOSED, mark="true", parent="division"), above(CLOSED), 0, QueueTrigger.OPEN)
    assert (plan.state, plan.mark) == (None, None)
    assert [note.warning for note in plan.notes] == [True]
    assert "division, is closed" in plan.notes[0].message


def test_the_root_cannot_be_closed():
    plan = plan_queue(TOP, None, 0, QueueTrigger.CLOSE)
    assert plan.state is None
    assert plan.notes[0].warning


def test_a_queue_without_a_parent_gets_the_root_and_the_root_none():
    assert plan_queue(view(OPEN, parent=""), TOP, 0).parent == "root"
    assert plan_queue(TOP, None, 0).parent is None


def test_a_state_that_nobody_knows_is_unknown():
    raw = {"metadata": {"name": "q", "uid": "u"}, "status": {"state": "Ajar"}}
    assert read_queue(raw).state is UNKNOWN


# ---------------------------------------------------------------------------------- the whole life

looptime = pytest.mark.looptime


def queue(name: str, parent: str = "root") -> dict:
    return {
        "apiVersion": r.QUEUES.api_version,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "parent": parent},
    }


def command(action: str, name: str, uid: str = "", command_name: str = "c-1") -> dict:
    target = {"apiVersion": r.QUEUES.api_version, "kind": "Queue", "name": name, "uid": uid}
    return {
        "apiVersion": r.COMMANDS.api_version,
        "kind": "Command",
        "metadata": {"name": command_name, "namespace": "default"},
        "action": action,
        "target": target,
    }


def states(w) -> dict[str, str]:
    found = {one["metadata"]["name"]: one for one in w.cluster.all(r.QUEUES)}
    return {name: (one.get("status") or {}).get("state") for name, one in found.items()}


def mark_of(w, name: str) -> str | None:
    meta = w.cluster.one(r.QUEUES, name)["metadata"]
    return (meta.get("annotations") or {}).get(names.CLOSED_BY_PARENT)


async def say(w, name: str, action: QueueAction, event_id: str) -> None:
    event = CommandQueue(name=name, action=action)
    await w.send(topics.QUEUE_COMMANDS, name.encode(), event, event_id=event_id)


@looptime
async def test_closing_a_queue_closes_all_below_it_and_opening_it_opens_those_alone(world):
    async with world() as w:
        for name, parent in (("a", "root"), ("a1", "a"), ("a2", "a"), ("a11", "a1"), ("b", "root")):
            w.cluster.put(r.QUEUES, queue(name, parent))
        await w.until(lambda: set(states(w).values()) == {"Open"})
        await say(w, "a2", QueueAction.CLOSE, "1")
        await w.until(lambda: states(w)["a2"] == "Closed")
        await say(w, "a", QueueAction.CLOSE, "2")
        await w.until(lambda: [states(w)[name] for name in ("a", "a1", "a11")] == ["Closed"] * 3)
        assert [mark_of(w, name) for name in ("a", "a1", "a2", "a11")] == [None, "true", None, "true"]
        assert states(w)["b"] == "Open"
        await say(w, "a", QueueAction.OPEN, "3")
        await w.until(lambda: [states(w)[name] for name in ("a", "a1", "a11")] == ["Open"] * 3)
        await asyncio.sleep(1)
        assert states(w)["a2"] == "Closed"
        assert [mark_of(w, name) for name in ("a1", "a11")] == ["false", "false"]


@looptime
async def test_a_queue_in_use_is_closing_until_its_last_job_has_ended(world):
    async with world() as w:
        await w.admit(job())
        await w.run_gang()
        w.cluster.put(r.COMMANDS, command("CloseQueue", "default"))
        await w.until(lambda: states(w)["default"] == "Closing")
        assert w.cluster.all(r.COMMANDS) == []
        await asyncio.sleep(2)
        assert w.phase() == "Running"
        assert states(w)["default"] == "Closing"
        w.cluster.end_pods()
        await w.until(lambda: states(w)["default"] == "Closed")
        assert w.phase() == "Completed"


@looptime
async def test_a_command_object_is_deleted_first_and_obeyed_though_the_api_server_then_fails(world):
    async with world() as w:
        w.cluster.put(r.QUEUES, queue("team"))
        await w.until(lambda: states(w).get("team") == "Open")
        failures = iter([Unavailable("away"), Unavailable("away")])

        async def before(verb, resource, name):
            if verb == "patch" and name == "team" and (error := next(failures, None)):
                assert w.cluster.all(r.COMMANDS) == []
                raise error

        w.cluster.before = before
        w.cluster.put(r.COMMANDS, command("CloseQueue", "team"))
        await w.until(lambda: states(w)["team"] == "Closed")


@looptime
async def test_a_command_object_for_another_queue_of_that_name_does_nothing_and_one_of_no_meaning_is_told(
    world,
):
    async with world() as w:
        w.cluster.put(r.QUEUES, queue("team"))
        await w.until(lambda: states(w).get("team") == "Open")
        w.cluster.put(r.COMMANDS, command("CloseQueue", "team", uid="another", command_name="c-1"))
        w.cluster.put(r.COMMANDS, command("Dance", "team", command_name="c-2"))
        await w.until(lambda: not w.cluster.all(r.COMMANDS))
        await asyncio.sleep(1)
        assert states(w)["team"] == "Open"
        [event] = w.cluster.all(r.EVENTS)
        assert event["involvedObject"]["name"] == "team"
        assert event["message"] == 'there is no action "Dance": known are CloseQueue, OpenQueue'


@looptime
async def test_a_child_made_below_a_closed_queue_is_closed_too(world):
    async with world() as w:
        w.cluster.put(r.QUEUES, queue("a"))
        await w.until(lambda: states(w).get("a") == "Open")
        await say(w, "a", QueueAction.CLOSE, "1")
        await w.until(lambda: states(w)["a"] == "Closed")
        w.cluster.put(r.QUEUES, queue("a1", "a"))
        await w.until(lambda: states(w).get("a1") == "Closed" and mark_of(w, "a1") == "true")


@looptime
async def test_default_and_root_come_again_and_a_new_queue_costs_one_write(world):
    async with world() as w:
        await w.until(lambda: states(w) == {"root": "Open", "default": "Open"})
        w.cluster.remove(r.QUEUES, None, "default")
        await w.until(lambda: states(w).get("default") == "Open")
        await asyncio.sleep(1)
        w.cluster.writes.clear()
        w.cluster.put(r.QUEUES, queue("team"))
        await w.until(lambda: states(w).get("team") == "Open")
        await asyncio.sleep(1)
        assert dict(w.cluster.writes) == {("patch", "queues"): 1}


@looptime
async def test_podgroups_are_counted_by_queue_and_phase(world):
    async with world() as w:

        def count(phase: str) -> float | None:
            labels = {"queue": "default", "phase": phase}
            return w.telemetry.registry.get_sample_value("pumice_controller_queue_podgroups", labels)

        await w.admit(job())
        await w.until(lambda: count("Pending") == 1)
        await w.run_gang()
        await w.until(lambda: count("Running") == 1)
        assert count("Pending") is None
        w.cluster.remove(r.JOBS, "default", "train")
        await w.until(lambda: count("Running") is None)
