"""The table of a job's life."""

from __future__ import annotations

import pytest

from services.controller.core.lifecycle import (
    FINAL,
    LIVE,
    TRANSITIONS,
    IllegalTransition,
    Kill,
    Tally,
    Trigger,
    finding,
    step,
)
from shared.api.batch import JobPhase
from tools import lifecycle as drawing

P = JobPhase
ORDERS = {t for t in Trigger if t.value.isalpha()}


def test_every_phase_has_a_row_and_final_phases_lead_nowhere():
    assert set(TRANSITIONS) == set(JobPhase)
    assert {phase for phase, row in TRANSITIONS.items() if not row} == FINAL


def test_every_phase_can_be_reached_from_pending():
    seen, todo = set(), [P.PENDING]
    while todo:
        phase = todo.pop()
        if phase not in seen:
            seen.add(phase)
            todo += [t.phase for t in TRANSITIONS[phase].values()]
    assert seen == set(JobPhase)


def test_a_trigger_without_an_entry_is_refused():
    with pytest.raises(IllegalTransition, match="ResumeJob means nothing to a job that is Running"):
        step(P.RUNNING, Trigger.RESUME_JOB)


@pytest.mark.parametrize("phase", sorted(LIVE))
def test_orders_are_obeyed_by_live_jobs_only(phase):
    assert set(TRANSITIONS[phase]) & ORDERS == ORDERS - {Trigger.RESUME_JOB}


def test_a_resume_leads_out_of_a_suspension_and_is_no_retry():
    for phase in (P.ABORTING, P.ABORTED):
        transition = step(phase, Trigger.RESUME_JOB)
        assert (transition.phase, transition.kill, transition.retry) == (P.RESTARTING, Kill.ALL, False)


def test_only_restarts_are_retries():
    retries = {trigger for row in TRANSITIONS.values() for trigger, t in row.items() if t.retry}
    assert retries == {
        Trigger.RESTART_JOB,
        Trigger.RESTART_TASK,
        Trigger.RESTART_POD,
        Trigger.RESTART_PARTITION,
    }


def test_what_takes_all_pods_away_voids_earlier_decisions_and_what_takes_some_does_not():
    for row in TRANSITIONS.values():
        for transition in row.values():
            assert transition.new_generation == (transition.kill in (Kill.ALL, Kill.UNFINISHED))


@pytest.mark.parametrize(
    ("phase", "numbers", "found"),
    [
        (P.PENDING, {"replicas": 4, "minimum": 4, "running": 3}, None),
        (
            P.PENDING,
            {"replicas": 4, "minimum": 4, "running": 2, "succeeded": 1, "failed": 1},
            Trigger.ENOUGH_STARTED,
        ),
        (P.PENDING, {"replicas": 4, "minimum": 2, "running": 2}, Trigger.ENOUGH_STARTED),
        (P.RUNNING, {"replicas": 0, "minimum": 0}, None),
        (P.RUNNING, {"replicas": 4, "minimum": 4, "running": 4}, None),
        (P.RUNNING, {"replicas": 4, "minimum": 4, "succeeded": 4}, Trigger.SUCCEEDED),
        (P.RUNNING, {"replicas": 4, "minimum": 4, "succeeded": 3, "failed": 1}, Trigger.FAILED),
        (P.RUNNING, {"replicas": 4, "minimum": 2, "succeeded": 3, "failed": 1}, Trigger.SUCCEEDED),
        (
            P.RUNNING,
            {"replicas": 4, "minimum": 2, "succeeded": 1, "running": 1, "min_success": 1},
            Trigger.SUCCEEDED,
        ),
        (
            P.RUNNING,
            {"replicas": 4, "minimum": 2, "succeeded": 2, "failed": 2, "min_success": 3},
            Trigger.FAILED,
        ),
        (
            P.RUNNING,
            {
                "replicas": 4,
                "minimum": 3,
                "succeeded": 3,
                "failed": 1,
                "task_minimums": 3,
                "task_short": True,
            },
            Trigger.FAILED,
        ),
        (
            P.RUNNING,
            {
                "replicas": 4,
                "minimum": 2,
                "succeeded": 3,
                "failed": 1,
                "task_minimums": 4,
                "task_short": True,
            },
            Trigger.SUCCEEDED,
        ),
        (P.RUNNING, {"replicas": 4, "minimum": 4, "running": 3, "leaving": 1}, None),
        (P.RUNNING, {"replicas": 4, "minimum": 4, "running": 3, "missing": 1}, Trigger.TOO_FEW_ACTIVE),
        (P.RUNNING, {"replicas": 4, "minimum": 2, "running": 2, "pending": 2}, None),
        (P.RESTARTING, {"replicas": 4, "minimum": 4, "leaving": 1}, None),
        (P.RESTARTING, {"replicas": 4, "minimum": 4}, Trigger.CLEARED),
        (P.RESTARTING, {"replicas": 4, "minimum": 3, "leaving": 1}, Trigger.CLEARED),
        (P.RESTARTING, {"replicas": 4, "minimum": 4, "retries": 3, "leaving": 4}, Trigger.RETRIES_SPENT),
        (P.ABORTING, {"replicas": 4, "minimum": 4, "leaving": 1, "succeeded": 3}, None),
        (P.ABORTING, {"replicas": 4, "minimum": 4, "succeeded": 1}, Trigger.DRAINED),
        (P.COMPLETING, {"replicas": 4, "minimum": 4, "running": 1}, None),
        (P.TERMINATING, {"replicas": 4, "minimum": 4}, Trigger.DRAINED),
        (P.COMPLETED, {"replicas": 4, "minimum": 4, "running": 1}, None),
        (P.ABORTED, {"replicas": 4, "minimum": 4}, None),
    ],
)
def test_what_the_numbers_mean(phase, numbers, found):
    assert finding(phase, Tally(**numbers)) is found


def test_every_finding_has_its_place_in_the_table():
    found_in = {
        Trigger.ENOUGH_STARTED: {P.PENDING},
        Trigger.TOO_FEW_ACTIVE: {P.RUNNING},
        Trigger.SUCCEEDED: {P.RUNNING},
        Trigger.FAILED: {P.RUNNING},
        Trigger.CLEARED: {P.RESTARTING},
        Trigger.RETRIES_SPENT: {P.RESTARTING},
        Trigger.DRAINED: {P.ABORTING, P.COMPLETING, P.TERMINATING},
    }
    for trigger, phases in found_in.items():
        assert {phase for phase, row in TRANSITIONS.items() if trigger in row} == phases


def test_the_drawing_in_the_documents_is_the_table():
    assert drawing.PAGE.read_text(encoding="utf-8") == drawing.page(), "stale: make generate"


def test_the_drawing_shows_every_transition():
    text = drawing.mermaid()
    for phase, row in TRANSITIONS.items():
        for transition in row.values():
            assert f"{phase} --> {transition.phase}" in text
