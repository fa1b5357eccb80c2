"""The SDK against a gateway on a real port. Each rule is checked with both clients."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import pumice
from pumice.retry import Retry
from pumice.steps import Host

QUICK = Retry(first=0.001, longest=0.01, attempts=4, patience=2.0)
FULL = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"}, "spec": {}}


class Both:
    """Runs a method of one of the clients, whichever the test is for."""

    def __init__(self, url: str, *, asynchronous: bool) -> None:
        self.url = url
        self.asynchronous = asynchronous

    def __call__(self, method: str, *args: Any, **kwargs: Any) -> Any:
        if self.asynchronous:
            return asyncio.run(self._call(method, *args, **kwargs))
        with pumice.Client(self.url, retry=QUICK) as client:
            return getattr(client, method)(*args, **kwargs)

    def gather(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        if self.asynchronous:
            return asyncio.run(self._gather(method, *args, **kwargs))
        with pumice.Client(self.url, retry=QUICK) as client:
            return list(getattr(client, method)(*args, **kwargs))

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        async with pumice.AsyncClient(self.url, retry=QUICK) as client:
            return await getattr(client, method)(*args, **kwargs)

    async def _gather(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        async with pumice.AsyncClient(self.url, retry=QUICK) as client:
            return [one async for one in getattr(client, method)(*args, **kwargs)]


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def client(request, gateway):
    return Both(gateway.url, asynchronous=request.param)


def later(*steps: Any) -> threading.Thread:
    """Do the steps from another thread, a little apart."""

    def go() -> None:
        for step in steps:
            time.sleep(0.05)
            step()

    thread = threading.Thread(target=go)
    thread.start()
    return thread


def test_a_submitted_job_comes_back_as_the_gateway_knows_it(client, gateway):
    job = client("submit", FULL)
    assert (job.namespace, job.name, job.phase) == ("default", "train", "Pending")
    assert gateway.submitted == [{**FULL, "metadata": {"name": "train", "namespace": "default"}}]


def test_yaml_and_the_short_form_are_submitted_too(client, gateway):
    client(
        "submit", "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a, namespace: team}\n"
    )
    client("submit", pumice.Job(name="b", image="busybox", gpus=8, workers=4))
    assert gateway.submitted[0]["metadata"] == {"name": "a", "namespace": "team"}
    assert gateway.submitted[1] == {
        "namespace": "default",
        "name": "b",
        "image": "busybox",
        "gpus": 8,
        "workers": 4,
    }


@pytest.mark.parametrize("fault", ["drop", "drop-after", 503, 429])
def test_a_submission_that_is_tried_again_makes_one_job(client, gateway, fault):
    gateway.faults.extend([fault, fault])
    assert client("submit", FULL).name == "train"
    keys = {headers["idempotency-key"] for _, _, headers in gateway.seen}
    assert (len(gateway.submitted), len(gateway.seen), len(keys)) == (1, 3, 1)


def test_two_submissions_have_two_keys_unless_one_is_given(client, gateway):
    client("submit", FULL)
    with pytest.raises(pumice.Conflict):
        client("submit", FULL)
    client("submit", {**FULL, "metadata": {"name": "other"}}, idempotency_key="mine")
    client("submit", {**FULL, "metadata": {"name": "other"}}, idempotency_key="mine")
    assert len(gateway.jobs) == 2


def test_a_rejection_carries_every_violation(client, gateway):
    gateway.violations = [
        {"code": "required", "path": "spec.tasks", "message": "must not be empty"},
        {"code": "invalid", "path": "spec.minAvailable", "message": "must be at least 1"},
    ]
    with pytest.raises(pumice.Rejected) as caught:
        client("submit", FULL)
    assert [one.path for one in caught.value.violations] == ["spec.tasks", "spec.minAvailable"]
    assert len(gateway.seen) == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, pumice.BadRequest),
        (403, pumice.Forbidden),
        (404, pumice.NotFound),
        (409, pumice.Conflict),
        (413, pumice.TooLarge),
        (500, pumice.ProtocolError),
    ],
)
def test_a_final_error_is_not_tried_again(client, gateway, status, error):
    gateway.faults.append(status)
    with pytest.raises(error, match="broken on purpose"):
        client("get", "train")
    assert len(gateway.seen) == 1


def test_a_server_that_stays_away_is_unavailable_after_the_attempts(client, gateway):
    gateway.faults.extend([503] * 10)
    with pytest.raises(pumice.Unavailable):
        client("get", "train")
    assert len(gateway.seen) == QUICK.attempts


def test_nobody_listening_is_unavailable_and_names_the_address():
    with (
        pumice.Client("http://127.0.0.1:1", retry=QUICK) as client,
        pytest.raises(pumice.Unavailable, match=r"127\.0\.0\.1:1"),
    ):
        client.queues()


def test_a_page_that_is_no_gateways_is_a_protocol_error(client, gateway):
    gateway.queues = "hello"  # type: ignore[assignment]
    with pytest.raises(pumice.ProtocolError):
        client("queues")


def test_unknown_fields_are_kept(client, gateway):
    gateway.put("train", phase="Pending", colour="blue", pods={"running": 2, "napping": 1})
    job = client("get", "train")
    assert job.pods.running == 2
    assert job.dump()["colour"] == "blue"
    assert job.dump()["pods"] == {"running": 2, "napping": 1}


def test_a_list_has_all_pages(client, gateway):
    gateway.page = 2
    for name in "abcde":
        gateway.put(name, phase="Pending")
    gateway.put("x", "team", phase="Pending", queue="research")
    assert [job.name for job in client("list")] == list("abcde")
    assert [job.name for job in client("list", namespace="*", queue="research")] == ["x"]


def test_waiting_ends_when_the_job_runs(client, gateway):
    gateway.put("train", phase="Pending")
    thread = later(lambda: gateway.put("train", phase="Running"))
    assert client("wait_until", "train", "running", timeout=10).phase == "Running"
    thread.join()


def test_waiting_for_a_job_to_run_ends_when_it_never_will(client, gateway):
    gateway.put("train", phase="Pending")
    thread = later(lambda: gateway.put("train", phase="Failed"))
    job = client("wait_until", "train", "running", timeout=10)
    assert job.ended
    assert not job.succeeded
    thread.join()


def test_waiting_stops_at_its_time(client, gateway):
    gateway.put("train", phase="Pending")
    start = time.monotonic()
    with pytest.raises(pumice.TimedOut):
        client("wait_until", "train", "running", timeout=0.3)
    assert 0.25 < time.monotonic() - start < 2


def test_waiting_for_a_job_that_is_deleted_says_so(client, gateway):
    gateway.put("train", phase="Pending")
    thread = later(lambda: gateway.remove("train"))
    with pytest.raises(pumice.NotFound):
        client("wait_until", "train", "finished", timeout=10)
    thread.join()


def test_a_job_rejected_after_it_was_taken_in_raises_with_its_violations(client, gateway):
    gateway.put("train", phase="Submitted")
    violation = {"code": "required", "path": "spec.queue", "message": "no such queue"}
    thread = later(lambda: gateway.put("train", phase="Rejected", violations=[violation]))
    with pytest.raises(pumice.Rejected) as caught:
        client("wait_until", "train", "admitted", timeout=10)
    assert str(caught.value.violations[0]) == "spec.queue: no such queue [required]"
    thread.join()


def test_submitting_can_wait_for_the_end(client, gateway):
    gateway.on_submit = {"phase": "Pending"}

    def live() -> None:
        with gateway.changed:
            gateway.changed.wait_for(lambda: gateway.jobs, 10)
        gateway.put("train", phase="Running")
        gateway.put("train", phase="Completed")

    thread = later(live)
    assert client("submit", FULL, wait="finished", timeout=10).succeeded
    thread.join()


def test_events_come_in_order_and_once_although_the_connection_breaks_after_each(client, gateway):
    gateway.events_per_connection = 1
    for phase in ("Pending", "Running", "Restarting", "Running", "Completed"):
        gateway.put("train", phase=phase)
    events = client.gather("events", "train", timeout=10)
    assert [event.data["phase"] for event in events] == [
        "Pending",
        "Running",
        "Restarting",
        "Running",
        "Completed",
    ]
    assert [event.id for event in events] == list("12345")
    resumed = [headers.get("last-event-id") for _, path, headers in gateway.seen if path.endswith("events")]
    assert resumed[:5] == [None, "1", "2", "3", "4"]


def test_a_suspended_job_is_followed_on_until_it_ends(client, gateway):
    gateway.put("train", phase="Running")
    gateway.put("train", phase="Aborted")
    thread = later(
        lambda: gateway.put("train", phase="Pending"), lambda: gateway.put("train", phase="Completed")
    )
    events = client.gather("events", "train", timeout=10)
    assert [event.data["phase"] for event in events] == ["Running", "Aborted", "Pending", "Completed"]
    thread.join()


def test_admission_that_takes_long_is_asked_for_again_with_the_same_key(client, gateway):
    gateway.on_submit = {"phase": "Submitted"}

    def live() -> None:
        while len(gateway.seen) < 3:
            time.sleep(0.01)
        gateway.put("train", phase="Pending")

    thread = later(live)
    assert client("submit", FULL, timeout=10).phase == "Pending"
    thread.join()
    assert (len(gateway.submitted), len({headers["idempotency-key"] for _, _, headers in gateway.seen})) == (
        1,
        1,
    )


def test_events_of_the_past_end_by_themselves(client, gateway):
    gateway.put("train", phase="Pending")
    assert [event.kind for event in client.gather("events", "train", follow=False)] == ["phase"]


def test_following_outlives_a_gateway_that_is_away_for_a_while(client, gateway):
    gateway.put("train", phase="Pending")
    gateway.events_per_connection = 1

    def fail() -> None:
        while not any(path.endswith("/events") for _, path, _ in gateway.seen):
            time.sleep(0.01)
        gateway.faults.extend(["drop"] * 6)
        gateway.put("train", phase="Completed")

    thread = later(fail)
    changes = client.gather("watch", "train", timeout=10)
    assert changes[-1].job.phase == "Completed"
    thread.join()


def test_commands_reach_the_job_they_name(client, gateway):
    gateway.put("train", "team", phase="Running")
    gateway.faults.append(503)
    assert client("suspend", "train", namespace="team").phase == "Running"
    assert client("resume", "train", namespace="team").action == "resume"
    assert gateway.commands == [("suspend", "team", "train"), ("resume", "team", "train")]


def test_queues_are_opened_and_closed(client, gateway):
    gateway.queues = [{"name": "team", "state": "Open", "weight": 1, "priority": 0, "reclaimable": True}]
    assert client("close_queue", "team").action == "close"
    assert client("open_queue", "team").action == "open"
    with pytest.raises(pumice.NotFound):
        client("close_queue", "other")


def test_gangs_of_a_node_pool_are_asked_to_move(client, gateway):
    assert client("defragment").pool == "default"
    assert gateway.commands == [("defragment", "", "default")]
    with pytest.raises(pumice.NotFound):
        client("defragment", "other")


def test_a_command_that_is_waited_for_is_done_or_times_out(client, gateway):
    gateway.put("train", phase="Running")
    done = client("suspend", "train", wait=True)
    assert (done.done, done.phase) == (True, "Aborted")
    gateway.obeys = False
    with pytest.raises(pumice.TimedOut):
        client("resume", "train", wait=True, timeout=0.1)


def test_a_command_to_a_queue_that_is_waited_for_is_done_or_times_out(client, gateway):
    gateway.queues = [{"name": "team", "state": "Open", "weight": 1, "priority": 0, "reclaimable": True}]
    assert not client("close_queue", "team").done
    done = client("close_queue", "team", wait=True)
    assert (done.done, done.state) == (True, "Closing")
    gateway.obeys = False
    with pytest.raises(pumice.TimedOut, match="open of queue team was taken, but is not done yet"):
        client("open_queue", "team", wait=True, timeout=0.1)


def test_a_deletion_that_was_done_but_not_answered_is_done(client, gateway):
    gateway.put("train", phase="Running")
    gateway.faults.append("drop-after")
    client("delete", "train")
    assert gateway.jobs == {}


def test_deleting_what_never_was_is_not_found(client):
    with pytest.raises(pumice.NotFound):
        client("delete", "train")


def test_names_are_escaped_in_paths(client, gateway):
    with pytest.raises(pumice.NotFound):
        client("get", "a/../b c")
    assert gateway.seen[0][1] == "/v1/jobs/default/a%2F..%2Fb%20c"


def test_both_clients_have_the_same_methods():
    import inspect

    def public(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert public(pumice.Client) == public(pumice.AsyncClient)


def test_the_clock_and_the_chance_are_the_callers():
    slept: list[float] = []
    host = Host(monotonic=lambda: sum(slept), random=lambda: 0.0, retry=Retry(attempts=4, first=1.0))
    with (
        pumice.Client("http://127.0.0.1:1", host=host, sleep=slept.append) as client,
        pytest.raises(pumice.Unavailable),
    ):
        client.nodes()
    assert slept == [0.5, 1.0, 2.0]
