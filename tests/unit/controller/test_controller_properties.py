"""Whatever happens to a job's pods, whoever commands what, and wherever the controller dies: rules that hold.

A cluster of plain objects; a plan's writes are carried out one by one, in the carrier's order, so that a
crash is a prefix of them.
"""

from __future__ import annotations

import copy
from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from services.controller.core.gangs import gang_of
from services.controller.core.jobs import plan
from services.controller.core.lifecycle import FINAL, LIVE, Trigger
from services.controller.core.model import Priorities, read_group, read_job
from services.controller.core.plans import World
from services.controller.core.pods import make_pod
from services.controller.core.podview import read_pod
from services.controller.core.policies import Order
from services.controller.core.status import merge_patch, read_status, write_status
from tests.fakes.cluster import _merge
from tests.unit.controller.conftest import job
from tests.unit.controller.worlds import task

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVENTS = ("PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "TaskFailed", "JobUpdated", "*")
ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
)


MARK = {"metadata": {"annotations": {"volcano.sh/controller-out-of-sync": "true"}}}


class Objects:
    """A job, its podgroup and pods as the API server has them."""

    def __init__(self, spec: dict) -> None:
        self.now = START
        self.job = job(**spec)
        self.job["metadata"] |= {"uid": "u", "creationTimestamp": self.stamp(), "generation": 1}
        self.group: dict | None = None
        self.pods: dict[str, dict] = {}
        self.lost: list = []
        self.uids = 0

    def stamp(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def status(self):
        return read_status(self.job)

    def world(self, order: Order | None = None) -> World:
        return World(
            wanted=read_job(self.job),
            status=self.status,
            group=None if self.group is None else read_group(self.group),
            pods=tuple(read_pod(raw) for _, raw in sorted(self.pods.items())),
            lost=tuple(self.lost),
            order=order,
        )

    def writes(self, world: World):
        """Yield what a look at the job writes, each as something to call."""
        found = plan(world, self.now)
        status = merge_patch(self.job.get("status") or {}, write_status(found.status))
        statuses = [lambda: self._patch(self.job, {"status": status})] if status else []
        if found.group_patch is not None:
            statuses.append(lambda: self.group and self._patch(self.group, found.group_patch))
        groups = []
        if found.drop_group:
            groups.append(lambda: setattr(self, "group", None))
        if found.make_group is not None:
            groups.append(lambda: self._make_group(found.make_group))
        yield from [*statuses, *groups] if found.urgent else [*groups, *statuses]
        for pod in found.mark:
            yield lambda pod=pod: self._patch(self.pods[pod.name], MARK)
        for pod in found.delete:
            yield lambda pod=pod: self._delete(pod.name)
        for body in found.create:
            yield lambda body=body: self._create(body)

    def look(self, order: Order | None = None, *, crash_after: int | None = None) -> int:
        """Carry a plan out, or only its first writes; return how many there were."""
        count = 0
        for count, write in enumerate(self.writes(self.world(order)), 1):
            if crash_after is not None and count > crash_after:
                return count - 1
            write()
        self.lost = []
        return count

    def settle(self) -> None:
        """Look until nothing is left to do; kubelets end what is being deleted."""
        for _ in range(40):
            before = copy.deepcopy((self.job, self.group, self.pods))
            self.look()
            self.sweep()
            if before == (self.job, self.group, self.pods):
                return
        raise AssertionError(f"never settles: {self.job.get('status')}")

    # --------------------------------------------------------------------------- what others do
    def sweep(self) -> None:
        gone = [name for name, raw in self.pods.items() if raw["metadata"].get("deletionTimestamp")]
        for name in gone:
            del self.pods[name]

    def place(self) -> None:
        """Play scheduler and applier: the whole gang gets nodes."""
        world = self.world()
        gang = gang_of(world.wanted, world.status, world.group, Priorities(), world.pods)
        if gang is None or self.group is None:
            return
        if world.group.phase == "Pending":
            self.group["status"]["phase"] = "Inqueue"
        members = world.wanted.members()
        for name in (m.pod for t in gang.tasks for m in t.members):
            if name not in self.pods:
                self._create(make_pod(world.wanted, world.status, *members[name], node="n"))
            elif not self.pods[name]["metadata"].get("deletionTimestamp"):
                self.pods[name]["spec"]["nodeName"] = "n"

    def happen(self, what: str, number: int) -> None:
        alive = [n for n, raw in sorted(self.pods.items()) if not raw["metadata"].get("deletionTimestamp")]
        if not alive:
            return
        name = alive[number % len(alive)]
        raw = self.pods[name]
        phase = raw["status"]["phase"]
        if what == "evict":
            self.lost.append(read_pod(raw))
            del self.pods[name]
        elif what == "run" and phase == "Pending" and raw["spec"].get("nodeName"):
            raw["status"]["phase"] = "Running"
        elif what in ("succeed", "fail") and phase == "Running":
            code = 3 if what == "fail" else 0
            ended = {"terminated": {"exitCode": code, "finishedAt": self.stamp()}}
            raw["status"] |= {
                "phase": "Failed" if code else "Succeeded",
                "containerStatuses": [{"name": "c", "restartCount": 0, "state": ended}],
            }
        elif what == "crash" and phase == "Running":
            before = (raw["status"].get("containerStatuses") or [{}])[0].get("restartCount", 0)
            last = {"terminated": {"exitCode": 1, "finishedAt": self.stamp()}}
            again = {"name": "c", "ready": True, "restartCount": before + 1, "lastState": last}
            raw["status"]["containerStatuses"] = [again]

    def scale(self, number: int) -> None:
        one = self.job["spec"]["tasks"][-1]
        if "partitionPolicy" not in one:
            one["replicas"] = number % 4
            self.job["spec"]["minAvailable"] = min(self.job["spec"]["minAvailable"], 1 + number % 4)
            self.job["metadata"]["generation"] += 1

    # ----------------------------------------------------------------------------------- inside
    def _patch(self, obj: dict, patch: dict) -> None:
        _merge(obj, patch)

    def _make_group(self, body: dict) -> None:
        assert self.group is None
        self.group = copy.deepcopy(body)
        self.group["metadata"] |= {"uid": self._uid(), "creationTimestamp": self.stamp()}

    def _create(self, body: dict) -> None:
        name = body["metadata"]["name"]
        assert name not in self.pods, "made twice"
        assert body["metadata"]["annotations"]["volcano.sh/job-version"] == str(self.status.generation)
        assert name in read_job(self.job).members()
        raw = copy.deepcopy(body)
        raw["metadata"] |= {"uid": self._uid(), "creationTimestamp": self.stamp()}
        raw["status"] = {"phase": "Pending"}
        self.pods[name] = raw

    def _delete(self, name: str) -> None:
        if name in self.pods:
            self.pods[name]["metadata"]["deletionTimestamp"] = self.stamp()

    def _uid(self) -> str:
        self.uids += 1
        return f"uid-{self.uids}"

    def outcome(self):
        """What must not depend on where the controller died: all but times and identities."""
        status = self.status
        pods = {
            name: (raw["metadata"]["annotations"]["volcano.sh/job-version"], raw["status"]["phase"])
            for name, raw in self.pods.items()
        }
        return status.phase, status.generation, status.retries, pods, dict(status.controlled)


POLICIES = st.lists(
    st.fixed_dictionaries(
        {"event": st.sampled_from(EVENTS), "action": st.sampled_from(ACTIONS)},
        optional={"timeout": st.sampled_from(("5s", "30s"))},
    ),
    max_size=2,
)
ORDERS = st.sampled_from([Trigger(a) for a in (*ACTIONS, "ResumeJob")])
RUNNING = [("look", None), ("look", None), ("place", 0), ("all run", 0), ("look", None)]
"""What brings a job to Running when nothing comes in between."""
SOME = st.lists(
    st.one_of(
        st.tuples(st.just("look"), st.none() | st.integers(0, 6)),
        st.tuples(st.just("look"), st.none()),
        st.tuples(st.just("place"), st.just(0)),
        st.tuples(st.just("all run"), st.just(0)),
        st.tuples(st.just("sweep"), st.just(0)),
        st.tuples(st.sampled_from(("evict", "run", "succeed", "fail", "crash")), st.integers(0, 5)),
        st.tuples(st.just("order"), ORDERS),
        st.tuples(st.just("scale"), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.integers(1, 40)),
    ),
    max_size=25,
)
STEPS = st.one_of(SOME, SOME.map(lambda steps: RUNNING + steps), SOME.map(lambda steps: RUNNING + steps))


@st.composite
def specs(draw):
    kind = draw(st.sampled_from(("plain", "partitions", "in order")))
    first = task("first", draw(st.integers(1, 2)), policies=draw(POLICIES))
    second = task("second", draw(st.integers(1, 3)), policies=draw(POLICIES))
    if kind == "partitions":
        second |= {"replicas": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}
    elif kind == "in order":
        second["dependsOn"] = {"name": ["first"]}
    total = first["replicas"] + second["replicas"]
    return {
        "tasks": [first, second],
        "policies": draw(POLICIES),
        "minAvailable": draw(st.integers(1, total)),
        "maxRetry": draw(st.integers(1, 3)),
    } | draw(st.sampled_from(({}, {"minSuccess": 1})))


def order(trigger: Trigger, number: int) -> Order:
    return Order(trigger, "CommandIssued", "test", "second", "train-second-0", 0, command=f"c-{number}")


def run(objects: Objects, steps) -> None:
    """Let the steps happen, checking what must hold after each."""
    for number, (what, value) in enumerate(steps):
        before = objects.status
        objects.now += timedelta(seconds=1)
        if what == "look":
            objects.look(crash_after=value)
        elif what == "order":
            objects.look(order(value, number))
        elif what == "wait":
            objects.now += timedelta(seconds=value)
        elif what == "all run":
            for index in range(len(objects.pods)):
                objects.happen("run", index)
        elif what in ("place", "sweep"):
            getattr(objects, what)()
        elif what == "scale":
            objects.scale(value)
        else:
            objects.happen(what, value)
        after = objects.status
        assert after.generation >= before.generation
        assert before.retries <= after.retries <= before.retries + 1
        if before.phase in FINAL:
            assert (after.phase, after.generation, after.retries) == (
                before.phase,
                before.generation,
                before.retries,
            )


@settings(max_examples=150, deadline=None)
@given(spec=specs(), steps=STEPS)
def test_whatever_happens_a_job_settles_with_pods_of_its_generation_only(spec, steps):
    objects = Objects(spec)
    run(objects, steps)
    objects.settle()
    status, members = objects.status, read_job(objects.job).members()
    if status.phase in LIVE:
        versions = {raw["metadata"]["annotations"]["volcano.sh/job-version"] for raw in objects.pods.values()}
        assert versions <= {str(status.generation)}
        assert set(objects.pods) <= set(members)
        assert objects.group is not None
        assert read_group(objects.group).generation == status.generation
        assert objects.group["spec"]["minMember"] == read_job(objects.job).min_available
    else:
        assert {raw["status"]["phase"] for raw in objects.pods.values()} <= {"Succeeded", "Failed"}
        assert status.phase not in ("Aborting", "Completing", "Terminating", "Restarting")
    counted = Counter(raw["status"]["phase"].lower() for raw in objects.pods.values())
    assert {name: n for name, n in status.counts.model_dump().items() if n} == dict(counted)
    assert status.retries <= max(spec["maxRetry"], 0)


@settings(max_examples=150, deadline=None)
@given(spec=specs(), steps=STEPS, last=st.none() | ORDERS, crash=st.integers(0, 8), later=st.integers(0, 3))
def test_wherever_the_controller_dies_the_job_ends_up_the_same(spec, steps, last, crash, later):
    """An order is obeyed before its message is committed: after a crash it comes again, with the same id."""
    objects = Objects(spec)
    run(objects, steps)
    other = copy.deepcopy(objects)
    given_order = None if last is None else order(last, 1000)
    objects.look(given_order)
    objects.settle()

    other.look(given_order, crash_after=crash)
    other.now += timedelta(milliseconds=later)
    other.look(given_order)
    other.settle()
    assert other.outcome() == objects.outcome()
