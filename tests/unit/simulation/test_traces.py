"""Traces: what is read, what is measured, and the baselines' order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from pumice.cli.app import app
from services.scheduler.core.policy import Eviction, Policy
from services.simulation.core.gates import DominantShare, FirstInFirstOut, Gate
from services.simulation.core.ledger import Ledger
from services.simulation.core.trace import Trace, TraceJob, read_trace
from services.simulation.core.tracerun import Cluster, TraceOutcome, TraceRun

HEADER = "arrival_s,queue,gpus,duration_s"


def _trace(*rows: str, header: str = HEADER) -> Trace:
    return read_trace([header, *rows], "t.csv")


def _starts(outcome: TraceOutcome) -> dict[str, float | None]:
    return {one.job.name: one.started for one in outcome.records}


def test_columns_may_come_in_any_order_and_those_that_nobody_knows_are_passed_over() -> None:
    (job,) = _trace("7,x,2,3.5,mine", header="gpus,colour,arrival_s,duration_s,name").jobs
    assert job == TraceJob(2, "mine", arrival=2.0, duration=3.5, gpus=7)


def test_who_declares_a_run_time_passes_a_job_that_it_does_not_delay() -> None:
    """8 GPUs: the whole of them are free at 1,000 s at the latest, for who has waited since 1 s."""
    header = f"{HEADER},name,declared_s"
    rows = ["0,q,4,1000,long,1000", "1,q,8,10,all,20", "900,q,4,50,short,60", "901,q,4,50,silent,"]
    outcome = TraceRun(_trace(*rows, header=header), Cluster(8)).run()
    assert {one.job.name: one.started for one in outcome.records} == {
        "long": 0.0, "all": 1000.0, "short": 900.0, "silent": 1010.0,
    }  # fmt: skip


def test_jobs_are_in_order_of_arrival() -> None:
    assert [job.arrival for job in _trace("9,q,1,1", "1,q,1,1").jobs] == [1.0, 9.0]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("x,q,1,1", 'arrival_s: "x" is no number'),
        ("nan,q,1,1", "arrival_s: nan is not between"),
        ("1,q,1,-1", "duration_s: -1 is not between"),
        ("1,q,1.5,1", 'gpus: "1.5" is no whole number'),
        ("1,q,-1,1", "gpus: -1 is not between"),
        ("1e300,q,1,1", "arrival_s: 1e300 is not between"),
        ("1,q,1", "3 cells, the header has 4"),
    ],
)
def test_a_bad_row_is_told_by_its_line_and_everything_else_goes_on(row: str, says: str) -> None:
    trace = _trace("1,q,1,1", row, "2,q,1,1")
    (problem,) = trace.problems
    assert problem.startswith("t.csv: line 3: ")
    assert says in problem
    assert len(trace.jobs) == 2


def test_a_trace_without_a_column_that_is_needed_is_none() -> None:
    with pytest.raises(ValueError, match="line 1: no column gpus"):
        _trace(header="arrival_s,duration_s")
    with pytest.raises(ValueError, match="no column arrival_s"):
        read_trace([], "empty.csv")


def test_a_trace_with_a_column_twice_is_none() -> None:
    with pytest.raises(ValueError, match="line 1: two columns gpus"):
        _trace("1,q,1,1,2", header=f"{HEADER},gpus")


def test_a_job_of_many_gpus_is_pods_of_whole_nodes_and_the_rest() -> None:
    assert TraceJob(1, "a", 0, 1, 20).pods(8) == [8, 8, 4]
    assert TraceJob(1, "a", 0, 1, 8).pods(8) == [8]
    assert TraceJob(1, "a", 0, 1, 0).pods(8) == [0]


def test_a_job_waits_until_there_is_room_for_all_its_pods() -> None:
    outcome = TraceRun(_trace("0,q,8,100", "10,q,16,50"), Cluster(16)).run()
    assert [(one.started, one.ended) for one in outcome.records] == [(0.0, 100.0), (100.0, 150.0)]
    assert outcome.summary["wait_s"] == {"mean": 45.0, "median": 45.0, "p95": 90.0, "max": 90.0}
    assert outcome.summary["completion_s"]["max"] == 140.0


def test_a_job_larger_than_the_cluster_waits_for_ever_and_the_run_ends() -> None:
    outcome = TraceRun(_trace("0,q,64,1", "0,q,1,1"), Cluster(8)).run()
    assert (outcome.summary["jobs"], outcome.summary["started"]) == (2, 1)
    assert outcome.summary["makespan_s"] == 1.0
    assert outcome.unstarted() == ["never started: job-2 (line 2: 64 GPUs, queue q)"]
    assert outcome.summary["utilisation_to_the_end"] == pytest.approx(1 / 8)


def test_utilisation_is_what_is_used_of_what_there_is() -> None:
    outcome = TraceRun(_trace("0,q,8,50", "100,q,8,100"), Cluster(16)).run()
    assert outcome.summary["utilisation"] == pytest.approx(8 * 50 / (16 * 100))
    assert outcome.summary["utilisation_to_the_end"] == pytest.approx((8 * 50 + 8 * 100) / (16 * 200))


def test_what_a_queue_lacks_of_its_fair_share_is_the_share_error() -> None:
    ledger = Ledger({"n": 8}, 0.0, 1.0)
    for number, queue in enumerate("aab"):
        ledger.arrive(TraceJob(number, "", 0, 1, 4, queue))
    assert ledger.share_error == 1.0
    for number in (0, 1):
        ledger.start(TraceJob(number, "", 0, 1, 4, "a"))
    assert ledger.share_error == 0.5


def test_free_gpus_on_nodes_used_in_part_are_fragments() -> None:
    ledger = Ledger({"a": 8, "b": 8}, 0.0, 1.0)
    assert ledger.fragmentation == 0.0
    ledger.take("a", 4)
    assert ledger.fragmentation == pytest.approx(4 / 12)
    ledger.take("a", 4)
    assert ledger.fragmentation == 0.0
    ledger.take("a", -4)
    assert ledger.fragmentation == pytest.approx(4 / 12)


def test_first_in_first_out_holds_everybody_up_behind_who_does_not_fit() -> None:
    trace = _trace("0,q,8,100", "1,q,16,10", "2,p,1,10")
    strict = TraceRun(trace, Cluster(16), gate=FirstInFirstOut()).run()
    assert [one.started for one in strict.records] == [0.0, 100.0, 110.0]
    assert [one.started for one in TraceRun(trace, Cluster(16)).run().records] != [0.0, 100.0, 110.0]


def test_an_evicted_job_runs_again_from_its_beginning() -> None:
    rows = ("0,a,4,100", "0,a,4,100", "10,b,4,50")
    outcome = TraceRun(_trace(*rows), Cluster(8)).run()
    assert outcome.summary["evictions"] == 1
    assert sorted(one.ended for one in outcome.records if one.ended is not None) == [60.0, 100.0, 160.0]
    stays = Policy(eviction=Eviction(preempt=False, reclaim=False))
    assert TraceRun(_trace(*rows), Cluster(8), stays).run().summary["evictions"] == 0


def test_by_dominant_share_the_queue_with_the_least_is_next() -> None:
    rows = ("0,a,8,10", "1,a,4,10", "1,a,4,10", "2,b,4,10", "3,c,8,10")
    outcome = TraceRun(_trace(*rows), Cluster(8), gate=DominantShare()).run()
    assert [one.started for one in outcome.records] == [0.0, 10.0, 20.0, 10.0, 30.0]


@pytest.mark.parametrize("gate", [FirstInFirstOut, DominantShare])
def test_room_that_is_reserved_for_a_job_does_not_count_as_its_start(gate: type[Gate]) -> None:
    """At 350 s it has waited for longer than five minutes, and half of its room is free."""
    outcome = TraceRun(_trace("0,a,4,350", "0,a,4,1000", "1,a,8,10"), Cluster(8), gate=gate()).run()
    assert [one.started for one in outcome.records] == [0.0, 0.0, 1000.0]


_JOBS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 12), st.integers(1, 40), st.sampled_from("abc")), max_size=25
)


@given(rows=_JOBS, gate=st.sampled_from([None, FirstInFirstOut, DominantShare]))
@settings(max_examples=40, deadline=None)
def test_every_job_that_fits_runs_once_for_its_time_within_the_cluster(
    rows: list[tuple[int, int, int, str]], gate: type[Gate] | None
) -> None:
    jobs = tuple(
        TraceJob(number, f"j{number}", arrival, length, gpus, queue)
        for number, (arrival, gpus, length, queue) in enumerate(sorted(rows), 1)
    )
    stays = Policy(eviction=Eviction(preempt=False, reclaim=False))
    outcome = TraceRun(Trace(jobs), Cluster(12, 4), stays, None if gate is None else gate()).run()
    changes: list[tuple[float, int]] = []
    for one in outcome.records:
        assert one.started is not None
        assert one.started >= one.job.arrival
        assert one.ended == one.started + one.job.duration
        changes += [(one.started, one.job.gpus), (one.ended, -one.job.gpus)]
    used = 0
    for _, change in sorted(changes):
        used += change
        assert 0 <= used <= 12


def test_the_command_prints_figures_writes_a_report_and_names_bad_rows(tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text(f"{HEADER}\n0,q,8,100\n10,q,16,50\n5,q,x,1\n")
    words = [
        "simulate",
        "--trace",
        str(table),
        "--gpus",
        "16",
        "--report",
        str(tmp_path / "out"),
        "-o",
        "json",
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["ended"] == 2
    assert found["queues"]["q"]["jobs"] == 2
    assert [f'{table}: line 4: gpus: "x" is no whole number'] == found["problems"]
    assert f"{table}: line 4" in result.stderr
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"trace.json", "trace.md", "waits.svg", "gpus-in-use.svg"} <= written


def test_a_trace_that_is_none_ends_with_2_and_a_line(tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text("a,b\n1,2\n")
    result = CliRunner().invoke(app, ["simulate", "--trace", str(table)])
    assert result.exit_code == 2
    assert "no column arrival_s, duration_s, gpus" in result.stderr
