"""The fold: what is seen does not depend on how the topics are read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.gateway.adapters.reading import read_record
from services.gateway.core.facts import Arrival, Model
from services.gateway.core.incarnation import current, of_submission
from services.gateway.core.listing import Listing
from services.gateway.core.readmodel import fold
from services.gateway.core.rendering import detail, history_entry, nodes
from services.gateway.core.retention import settle
from services.gateway.core.tracing import trace
from shared.errors import ContractError
from shared.events import topics
from shared.events.codec import decode, encode
from shared.events.contracts import PodCounts, PodState, Shape
from shared.events.envelope import Envelope
from shared.log.port import Delivery
from tests.fixtures.gateway_story import Said, Story, at, by_topic, node, queue


def arrivals(said: list[Said]) -> list[Arrival]:
    offsets: dict[str, int] = {}
    found = []
    for message in said:
        offset = offsets.get(message.topic, 0)
        offsets[message.topic] = offset + 1
        found.append(Arrival(message.topic, 0, offset, message.time, message.key, message.envelope))
    return found


def fold_all(found: list[Arrival]) -> Model:
    model = Model()
    for arrival in found:
        fold(model, arrival)
    return model


def seen(model: Model) -> str:
    """Everything that the API shows, as text."""
    jobs = {}
    for key, record in sorted(model.jobs.items()):
        job = current(model, record)
        spans = trace(job)
        jobs["/".join(key)] = {
            "detail": json.loads(detail(job, model).encoded()),
            "trace": json.loads(spans.encoded()) if spans else None,
            "history": [json.loads(history_entry(entry).encoded()) for entry in job.history()],
        }
    world = {
        "nodes": [json.loads(view.encoded()) for view in nodes(model)],
        "queues": [json.loads(view.encoded()) for view in Listing(model).queues()],
    }
    return json.dumps([jobs, world], sort_keys=True, indent=1)


def the_world() -> list[Said]:
    """Several jobs in all kinds of states, one name used twice, one job made by kubectl."""
    done = Story("done", "u-done", "s-done").finished()
    again = Story("again", "u-a1", "s-a1").finished()
    again.gone(12)
    second = Story("again", "u-a2", "s-a2", base=20).placed()
    waits = Story("waits", "u-w", "s-w", queue="team-a").born()
    waits.report(0.5, position=2)
    waits.command("suspend", 0.6)
    refused = Story("refused", submission="s-r")
    refused.submitted()
    refused.rejected(0.1, "queue", "replicas")
    torn = Story("torn", "u-t", "s-t").born()
    torn.decided(1, "d-1")
    torn.applied(1.2, "d-1", "rolled-back")
    torn.decided(2, "d-2")
    torn.applied(2.2, "d-2")
    torn.phase("Running", 3)
    torn.phase("Restarting", 5, previous="Running", generation=1)
    torn.phase("Pending", 6, previous="Restarting", generation=1)
    torn.state("Pending", 6, generation=1)
    torn.group(6, generation=1)
    kubectl = Story("applied", "u-k", "")
    kubectl.phase("Pending", 0.2, previous="")
    kubectl.state("Pending", 0.2)
    stories = (done, again, second, waits, refused, torn, kubectl)
    return [
        *(node(f"n{index}") for index in range(2)),
        queue("default", capability={"nvidia.com/gpu": 16}),
        queue("team-a", weight=3),
        *(message for story in stories for message in story.said),
    ]


WORLD = arrivals(the_world())
EXPECTED = seen(fold_all(WORLD))
TOPICS = [[arrival for arrival in WORLD if arrival.topic == topic] for topic, _ in by_topic(the_world())]


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_interleaving_of_the_topics_shows_the_same(random: object) -> None:
    queues_ = [list(reversed(topic)) for topic in TOPICS]
    order: list[Arrival] = []
    while left := [one for one in queues_ if one]:
        order.append(random.choice(left).pop())  # type: ignore[attr-defined]
    assert seen(fold_all(order)) == EXPECTED


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, len(WORLD) - 1), max_size=10))
def test_reading_again_from_the_start_shows_the_same(cuts: list[int]) -> None:
    model = Model()
    for cut in [*cuts, len(WORLD)]:
        for arrival in WORLD[:cut]:
            fold(model, arrival)
    assert seen(model) == EXPECTED


def test_every_change_names_the_job_whose_view_changes() -> None:
    model = Model()
    listing = Listing(model)
    before = {}
    for arrival in WORLD:
        changed = fold(model, arrival)
        listing.changed(changed)
        assert list(listing.jobs()) == list(Listing(model).jobs())
        after = {key: detail(current(model, record), model).encoded() for key, record in model.jobs.items()}
        assert {key for key, view in after.items() if view != before.get(key)} <= changed
        before = after


def test_a_jobs_life_is_shown_as_it_goes_on(folded) -> None:
    steps = [
        (lambda s: s.submitted(), "Submitted"),
        (lambda s: s.admitted(), "Admitted"),
        (lambda s: s.state("Pending", 0.2), "Pending"),
        (lambda s: s.phase("Running", 2), "Running"),
        (lambda s: s.phase("Completed", 3, previous="Running"), "Completed"),
    ]
    story = Story()
    for step, phase in steps:
        step(story)
        model = folded(story.said)
        assert current(model, model.jobs["default", "train"]).phase == phase


def test_a_running_job_shows_its_pods_and_nodes(folded) -> None:
    model = folded(Story().placed().said)
    view = detail(current(model, model.jobs["default", "train"]), model)
    assert [(pod.pod, pod.node, pod.phase) for pod in view.place] == [
        ("train-worker-0", "n0", "Running"),
        ("train-worker-1", "n1", "Running"),
    ]
    assert view.pods.running == 2
    assert view.waiting is None


def test_an_exposed_job_shows_its_urls_as_long_as_it_is_there(folded) -> None:
    story, urls = Story(), {"jupyter": "https://jupyter.example.org"}
    story.submitted()
    story.admitted()
    story.state("Running", 1, urls=urls)
    model = folded(story.said)
    assert detail(current(model, model.jobs["default", "train"]), model).urls == urls
    story.gone(2)
    model = folded(story.said)
    assert detail(current(model, model.jobs["default", "train"]), model).urls == {}


def test_a_finished_job_still_shows_where_its_pods_were(folded) -> None:
    model = folded(Story().finished().said)
    view = detail(current(model, model.jobs["default", "train"]), model)
    assert [(pod.pod, pod.node) for pod in view.place] == [("train-worker-0", "n0"), ("train-worker-1", "n1")]
    assert view.finished_at == at(10.5)


def test_a_waiting_job_says_why_with_numbers_and_its_position(folded) -> None:
    story = Story().born()
    story.report(0.5, position=2)
    model = folded(story.said)
    view = detail(current(model, model.jobs["default", "train"]), model)
    assert view.waiting is not None
    assert (view.position, view.waiting.queue_length) == (2, 3)
    assert view.waiting.reason.numbers == {"needed": 8, "free": 6}
    assert (view.waiting.estimated_start, view.waiting.estimated_start_p90) == (at(60), at(90))
    assert view.waiting.outlook == "when default/other ends on n1"


def test_a_report_about_an_older_generation_is_not_shown(folded) -> None:
    story = Story().born()
    story.report(0.5)
    story.state("Pending", 3, generation=1)
    model = folded(story.said)
    assert detail(current(model, model.jobs["default", "train"]), model).waiting is None


def test_a_rejected_job_shows_every_violation(folded) -> None:
    story = Story()
    story.submitted()
    story.rejected(0.1, "queue", "replicas")
    model = folded(story.said)
    view = detail(current(model, model.jobs["default", "train"]), model)
    assert view.phase == "Rejected"
    assert [violation.code for violation in view.violations] == ["queue", "replicas"]


def test_a_second_submission_of_a_name_in_use_does_not_hide_the_job_that_exists(folded) -> None:
    first, second = Story().placed(), Story(submission="s-2", base=100)
    second.submitted()
    second.rejected(0.1, "exists")
    model = folded([*first.said, *second.said])
    view = detail(current(model, model.jobs["default", "train"]), model)
    assert view.phase == "Running"
    assert view.last_rejection is not None
    assert view.last_rejection.submission == "s-2"
    mine = of_submission(model, "s-2")
    assert mine is not None
    assert mine.rejected


def test_a_refused_submission_does_not_hide_one_of_the_same_name_that_is_about_to_be_created(folded) -> None:
    first, second = Story(), Story(submission="s-2", base=0.2)
    first.submitted()
    first.admitted()
    second.submitted()
    second.rejected(0.1, "exists")
    model = folded([*first.said, *second.said])
    assert current(model, model.jobs["default", "train"]).phase == "Admitted"


def test_a_name_used_again_shows_the_new_job_and_only_its_history(folded) -> None:
    first, second = Story().finished(), Story(uid="u-2", submission="s-2", base=100).born()
    first.gone(20)
    model = folded([*first.said, *second.said])
    job = current(model, model.jobs["default", "train"])
    assert (job.phase, job.life.uid if job.life else "") == ("Pending", "u-2")
    assert {entry.time >= at(100) for entry in job.history()} == {True}


def test_a_job_whose_tombstone_was_compacted_away_is_gone_once_all_was_read(folded) -> None:
    story = Story()
    story.phase("Pending", 0.2, previous="")
    model = folded(story.said)
    record = model.jobs["default", "train"]
    assert not current(model, record).deleted
    settle(model)
    assert current(model, record).deleted
    late = Story()
    late.state("Pending", 0.2)
    fold(model, Arrival(late.said[0].topic, 0, 9, at(0), late.said[0].key, late.said[0].envelope))
    assert not current(model, record).deleted


def test_nodes_and_queues_count_pods_from_binding_to_their_end(folded) -> None:
    world = [node("n0"), node("n1"), queue("default")]
    running = folded([*world, *Story().placed().said])
    first = nodes(running)[0]
    assert (first.allocated["nvidia.com/gpu"], first.free["nvidia.com/gpu"], first.pods) == (8, 0, 1)
    assert (first.allocated["pods"], first.free["pods"]) == (1, 109)
    (held,) = Listing(running).queues()
    assert (held.allocated, held.pods, held.jobs) == ({"nvidia.com/gpu": 16, "cpu": 2000}, 2, {"Running": 1})
    finished = folded([*world, *Story().finished().said])
    assert nodes(finished)[0].free == {"nvidia.com/gpu": 8, "cpu": 64000, "pods": 110}
    assert Listing(finished).queues()[0].pods == 0
    assert finished.node_use.amounts == {}


def test_what_cannot_name_a_job_is_ignored(folded) -> None:
    story = Story()
    message = story.submitted()
    assert message.envelope is not None
    for job in ({}, {"metadata": None}, {"metadata": {"name": 3}}, {"metadata": {"namespace": "x"}}):
        broken = message.envelope.data.model_copy(update={"job": job})
        envelope = message.envelope.__class__("x", "/t", at(0), broken)
        assert folded([Said(message.topic, message.key, envelope)]).jobs == {}


@given(
    st.builds(
        PodState,
        namespace=st.just("ns"),
        name=st.just("p"),
        uid=st.just("u"),
        gang=st.none() | st.just("g"),
        task=st.sampled_from(["", "worker"]),
        index=st.integers(0, 3),
        generation=st.integers(0, 3),
        queue=st.sampled_from(["", "q"]),
        node=st.none() | st.just("n1"),
        phase=st.sampled_from(["Pending", "Running", "Failed"]),
        releasing=st.booleans(),
        shape=st.builds(
            Shape, requests=st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 9))
        ),
        created_at=st.just(at(0)),
        started_at=st.none() | st.just(at(1.5)),
    )
)
def test_a_pods_state_read_in_short_is_the_same_as_read_in_full(state: PodState) -> None:
    record = encode(topics.CLUSTER_STATE, b"pod/ns/p", Envelope("id", "/t", at(0), state))
    delivery = Delivery(topics.CLUSTER_STATE, 0, 0, 0, record.key, record.value, record.headers)
    short, full = read_record(delivery), decode(delivery)
    models = Model(), Model()
    fold(models[0], short)
    fold(models[1], Arrival(topics.CLUSTER_STATE, 0, 0, at(0), record.key, full))
    assert short.pod is not None
    assert models[0] == models[1]


def test_the_counts_of_pods_are_those_of_the_phase_that_is_shown(folded) -> None:
    story = Story().born()
    running = story.phase("Running", 2)
    assert running.envelope is not None
    counted = running.envelope.data.model_copy(update={"pods": PodCounts(running=2)})
    story.said[-1] = Said(running.topic, running.key, replace(running.envelope, data=counted))
    model = folded(story.said)  # the object's own state still says Pending
    view = detail(current(model, model.jobs["default", "train"]), model)
    assert (view.phase, view.pods.running, view.started_at) == ("Running", 2, at(2))


@pytest.mark.parametrize("timestamp", [10**16, -(10**16), 10**30])
def test_a_record_of_no_possible_time_is_one_that_cannot_be_read(timestamp: int) -> None:
    delivery = Delivery(topics.JOB_SUBMITTED, 0, 0, timestamp, b"ns/a", b"{}")
    with pytest.raises(ContractError):
        read_record(delivery)
