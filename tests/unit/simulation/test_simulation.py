"""A scenario runs as a cluster would."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from services.controller.core.model import read_job
from shared.api import names
from tests.unit.simulation.worlds import GPU, happened, job, node, pod, queue, run, template


def test_a_job_runs_as_long_as_its_annotation_says() -> None:
    outcome = run(node("a"), job("j", at="10s", run_for="1m"))
    assert outcome["gangs"]["default/j"] == {
        "phase": "Completed",
        "reason": "",
        "queued_at": 10.0,
        "estimated_start": None,
        "started_at": 10.0,
        "finished_at": 70.0,
    }
    assert outcome["bindings"] == {"default/j-w-0": "a"}


def test_a_job_without_a_run_time_runs_until_it_is_deleted() -> None:
    outcome = run(node("a"), job("j", delete_at="40s"))
    assert outcome["gangs"]["default/j"]["phase"] == "Running"
    assert happened(outcome, "deleted", "Pod") == [(40.0, "Pod default/j-w-0")]


def test_a_templates_annotation_wins_over_its_jobs() -> None:
    own = job("j", run_for="1m")
    own["spec"]["tasks"].append({"name": "x", "replicas": 1, "template": template(0, run_for="10s")})
    outcome = run(node("a"), own)
    assert happened(outcome, "ended") == [(10.0, "Pod default/j-x-0"), (60.0, "Pod default/j-w-0")]


def test_an_exit_code_other_than_0_fails_the_job() -> None:
    outcome = run(node("a"), job("j", run_for="5s", exit_code="3"))
    gang = outcome["gangs"]["default/j"]
    assert (gang["phase"], gang["finished_at"]) == ("Failed", 5.0)
    assert "failed" in gang["reason"]


def test_virtual_time_ends_where_it_is_told_to() -> None:
    outcome = run(node("a"), job("j", run_for="1h"), until=timedelta(minutes=10))
    assert outcome["gangs"]["default/j"]["phase"] == "Running"
    assert outcome["queues"]["default"]["allocated"][GPU] == {"end": 8.0, "peak": 8.0, "mean": 8.0}


def test_a_waiting_gang_has_its_reason() -> None:
    outcome = run(node("a"), job("j", replicas=2))
    gang = outcome["gangs"]["default/j"]
    assert (gang["phase"], gang["started_at"]) == ("Pending", None)
    assert f"8 {GPU} on one node" in gang["reason"]
    assert outcome["bindings"] == {}


def test_of_equals_who_is_first_in_the_documents_is_first() -> None:
    outcome = run(node("a"), job("z", run_for="1m"), job("a", run_for="1m"))
    assert outcome["gangs"]["default/z"]["started_at"] == 0.0
    assert outcome["gangs"]["default/a"]["started_at"] == 60.0


def test_a_pod_of_its_own_is_a_gang_of_its_name() -> None:
    outcome = run(node("a"), pod("solo", run_for="5s"))
    assert outcome["gangs"]["default/solo"]["finished_at"] == 5.0


def test_a_pod_that_names_a_podgroup_which_nobody_makes_says_so() -> None:
    outcome = run(node("a"), pod("solo", group="missing"))
    assert outcome["bindings"] == {}
    assert "there is no PodGroup missing" in outcome["gangs"]["default/missing"]["reason"]


def test_a_pod_of_another_scheduler_takes_room_on_its_node() -> None:
    other = pod("other", 8, spec={"schedulerName": "default-scheduler", "nodeName": "a"}, delete_at="30s")
    outcome = run(node("a"), other, job("j"))
    assert outcome["gangs"]["default/j"]["started_at"] == 30.0


def test_the_pods_of_a_node_that_is_gone_are_made_again_elsewhere() -> None:
    outcome = run(node("a", delete_at="20s"), node("b", at="30s"), job("j", run_for="1m"))
    assert happened(outcome, "bound") == [(0.0, "Pod default/j-w-0"), (30.0, "Pod default/j-w-0")]
    assert outcome["bindings"] == {"default/j-w-0": "b"}
    assert outcome["gangs"]["default/j"]["finished_at"] == 90.0


def test_a_node_that_is_not_ready_takes_nothing_and_loses_its_pods_after_five_minutes() -> None:
    outcome = run(
        node("a"), job("early", gpu=4), node("a", ready=False, at="10s"), job("late", gpu=4, at="20s")
    )
    assert outcome["gangs"]["default/late"]["started_at"] is None
    assert happened(outcome, "deleted", "Pod") == [(310.0, "Pod default/early-w-0")]


def test_a_node_that_is_ready_again_in_time_keeps_its_pods() -> None:
    outcome = run(node("a"), job("j"), node("a", ready=False, at="10s"), node("a", at="20s"))
    assert happened(outcome, "deleted", "Pod") == []


def test_an_object_may_come_again_under_its_name() -> None:
    outcome = run(node("a"), job("j", delete_at="10s"), job("j", at="20s", run_for="5s"))
    assert happened(outcome, "started") == [(0.0, "Pod default/j-w-0"), (20.0, "Pod default/j-w-0")]


def test_a_queue_that_comes_later_document_has_other_limits_from_then_on() -> None:
    outcome = run(
        queue("q", spec={"capability": {GPU: 4}}),
        node("a"),
        job("one", gpu=4, spec={"queue": "q"}),
        job("two", gpu=4, spec={"queue": "q"}),
        queue("q", spec={"capability": {GPU: 8}}, at="50s"),
    )
    assert outcome["gangs"]["default/two"]["started_at"] == 50.0


def test_a_job_that_is_over_goes_when_its_time_to_live_is() -> None:
    outcome = run(node("a"), job("j", run_for="5s", spec={"ttlSecondsAfterFinished": 10}))
    assert happened(outcome, "deleted", "Job") == [(15.0, "Job default/j")]
    assert outcome["gangs"]["default/j"]["phase"] == "Completed"


def test_a_pods_grace_holds_its_room_until_it_is_gone() -> None:
    outcome = run(node("a"), job("old", delete_at="10s", grace_period="25s"), job("new", at="1s"))
    assert outcome["gangs"]["default/new"]["started_at"] == 35.0


def test_the_policy_of_a_config_map_counts_from_when_it_appears() -> None:
    conf = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: binpack\n    arguments:\n      binpack.weight: 0\n'
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "volcano-system", "name": "volcano-scheduler-configmap"},
        "data": {"volcano-scheduler.conf": conf},
    }
    outcome = run(node("a"), config, job("j", run_for="5s"))
    assert outcome["gangs"]["default/j"]["phase"] == "Completed"


def test_an_extender_is_asked_by_nobody_in_a_simulation() -> None:
    arguments = (
        '{extender.urlPrefix: "http://127.0.0.1:1", extender.predicateVerb: p, extender.prioritizeVerb: s}'
    )
    conf = f"actions: allocate\ntiers: [{{plugins: [{{name: extender, arguments: {arguments}}}]}}]"
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "volcano-system", "name": "volcano-scheduler-configmap"},
        "data": {"volcano-scheduler.conf": conf},
    }
    outcome = run(node("a"), config, job("j", run_for="5s"))
    assert outcome["gangs"]["default/j"]["phase"] == "Completed"


def test_uids_are_the_same_each_time_so_that_names_are() -> None:
    events = run(node("a"), job("j"), pod("p"))["events"]
    assert events == run(node("a"), job("j"), pod("p"))["events"]


_AMOUNT = st.integers(1, 8)
_SECONDS = st.integers(0, 60)


@given(
    nodes=st.lists(_AMOUNT, min_size=1, max_size=4),
    jobs=st.lists(st.tuples(_SECONDS, st.integers(1, 3), _AMOUNT, st.integers(1, 90)), max_size=8),
)
@settings(max_examples=25, deadline=None)
def test_no_node_ever_holds_more_than_it_has_and_gangs_start_whole(
    nodes: list[int], jobs: list[tuple[int, int, int, int]]
) -> None:
    objects = [node(f"n{number}", gpu) for number, gpu in enumerate(nodes)]
    objects += [
        job(f"j{number}", count, gpu, at=f"{at}s", run_for=f"{length}s")
        for number, (at, count, gpu, length) in enumerate(jobs)
    ]
    sizes = {f"default/j{number}": (count, gpu) for number, (_, count, gpu, _) in enumerate(jobs)}
    held = dict.fromkeys((f"n{number}" for number in range(len(nodes))), 0)
    running: dict[str, tuple[str, int]] = {}
    starts: dict[str, list[float]] = {}
    for event in run(*objects)["events"]:
        name = event["object"].removeprefix("Pod ")
        if event["event"] == "started":
            gang = name.rpartition("-w-")[0]
            starts.setdefault(gang, []).append(event["at"])
            running[name] = (event["node"], sizes[gang][1])
            held[event["node"]] += sizes[gang][1]
        elif event["event"] == "ended":
            place, gpus = running.pop(name)
            held[place] -= gpus
        for number, gpus in enumerate(nodes):
            assert held[f"n{number}"] <= gpus
    for gang, times in starts.items():
        assert len(times) == sizes[gang][0]
        assert len(set(times)) == 1
    waiting = [gang for gang in sizes if gang not in starts]
    biggest = max(nodes)
    assert all(
        sizes[gang][1] > biggest or sum(n // sizes[gang][1] for n in nodes) < sizes[gang][0]
        for gang in waiting
    )


def test_podgroups_are_named_as_in_production() -> None:
    raw = job("j")
    raw["metadata"] |= {"namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert read_job(raw).podgroup == names.podgroup_name("j", "u")
