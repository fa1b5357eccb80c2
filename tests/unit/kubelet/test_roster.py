"""The life of pods on simulated nodes, in written statuses, with time as an argument."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from shared.kube.port import JSON
from simulator.kubelet.core.log import container_log
from simulator.kubelet.core.nodes import NodeSpec, parse_nodes
from simulator.kubelet.core.roster import STOP_SECONDS, Roster

T0 = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def make_pod(name: str = "p", script: str | None = None, *, node: str = "node-0", **parts) -> JSON:
    container: JSON = {"name": "main", "image": "busybox"}
    if script is not None:
        container["command"] = ["sh", "-c", script]
    if "requests" in parts:
        container["resources"] = {"requests": parts.pop("requests")}
    spec = {"containers": [container], "nodeName": node, "restartPolicy": "Never", **parts.pop("spec", {})}
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": "1", **parts}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


class Bench:
    """A roster and the API server's side of it: pods with the statuses that were written, by merge."""

    def __init__(self, nodes: list[NodeSpec] | None = None, *, start: float = 0.0, stop: float = 0.0) -> None:
        self.nodes = nodes or parse_nodes("2x8,cpu=8,memory=32Gi,pods=4")
        self.options = {"start_delay": lambda: start, "stop_seconds": stop}
        self.pods: dict[str, JSON] = {}
        self.writes: list[tuple[str, str]] = []
        self.restart()

    def restart(self, seconds: float = 0.0) -> None:
        """Begin again with nothing but what the API server knows."""
        self.roster = Roster(self.nodes, **self.options)
        for pod in list(self.pods.values()):
            self.roster.see(copy.deepcopy(pod), at(seconds))
        self.flush()

    def add(self, pod: JSON, seconds: float = 0.0) -> JSON:
        self.pods[pod["metadata"]["name"]] = pod
        self.roster.see(copy.deepcopy(pod), at(seconds))
        self.flush()
        return self.status(pod["metadata"]["name"])

    def delete(self, name: str, seconds: float, grace: int = 30) -> None:
        metadata = self.pods[name]["metadata"]
        metadata |= {"deletionTimestamp": "x", "deletionGracePeriodSeconds": grace}
        self.roster.see(copy.deepcopy(self.pods[name]), at(seconds))
        self.flush()

    def until(self, seconds: float) -> None:
        """Let time pass, waking up when the roster says so."""
        while (due := self.roster.next_time()) is not None and due <= at(seconds):
            self.roster.work(due)
            self.flush()

    def flush(self) -> None:
        for entry in list(self.roster.pods.values()):
            write = entry.next_write()
            if write is None:
                continue
            if write.status is not None:
                stored = self.pods[entry.name]["status"]
                conditions = {c["type"]: c for c in stored.get("conditions", [])}
                for condition in write.status.get("conditions", []):
                    merged = {**conditions.get(condition["type"], {}), **condition}
                    conditions[condition["type"]] = {k: v for k, v in merged.items() if v is not None}
                stored |= write.status
                stored["conditions"] = list(conditions.values())
                self.writes.append((entry.name, stored["phase"]))
            entry.note_written(write)
            if write.removes:
                self.writes.append((entry.name, "removed"))
                self.roster.drop(self.pods.pop(entry.name))

    def status(self, name: str = "p") -> JSON:
        return self.pods[name]["status"]

    def phases(self, name: str = "p") -> list[str]:
        return [phase for one, phase in self.writes if one == name]

    def container(self, name: str = "p", index: int = 0, kind: str = "containerStatuses") -> JSON:
        return self.status(name)[kind][index]

    def condition(self, kind: str, name: str = "p") -> JSON:
        return next(c for c in self.status(name)["conditions"] if c["type"] == kind)


def test_a_pod_runs_and_succeeds_with_two_writes_and_true_times():
    bench = Bench()
    status = bench.add(make_pod(script="sleep 60"))
    assert status["phase"] == "Running"
    assert status["startTime"] == "2026-05-01T12:00:00Z"
    assert status["hostIP"] == "10.0.0.1"
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert bench.container()["state"] == {"running": {"startedAt": "2026-05-01T12:00:00Z"}}
    assert bench.container()["ready"] is True
    for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready", "PodReadyToStartContainers"):
        assert bench.condition(kind)["status"] == "True", kind
    bench.until(59.9)
    assert bench.phases() == ["Running"]
    bench.until(1000)
    assert bench.phases() == ["Running", "Succeeded"]
    ended = bench.container()["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert (ended["startedAt"], ended["finishedAt"]) == ("2026-05-01T12:00:00Z", "2026-05-01T12:01:00Z")
    assert bench.condition("Ready") == {
        "type": "Ready",
        "status": "False",
        "reason": "PodCompleted",
        "lastTransitionTime": "2026-05-01T12:01:00Z",
    }


def test_a_pod_that_ends_at_once_costs_one_write():
    bench = Bench()
    bench.add(make_pod(script="exit 3"))
    assert bench.phases() == ["Failed"]
    assert bench.container()["state"]["terminated"]["exitCode"] == 3
    assert bench.container()["state"]["terminated"]["reason"] == "Error"
    assert bench.condition("Ready")["reason"] == "PodFailed"


def test_a_condition_which_the_api_server_wrote_is_not_written_again():
    bench = Bench()
    pod = make_pod(script="sleep 1")
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-05-01T11:00:00Z"}
    pod["status"]["conditions"] = [bound]
    bench.add(pod)
    assert bench.condition("PodScheduled") == bound


def test_a_start_delay_shows_the_pod_as_creating_its_containers():
    bench = Bench(start=5.0)
    status = bench.add(make_pod(script="sleep 10"))
    assert status["phase"] == "Pending"
    assert bench.container()["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert bench.condition("Ready")["message"] == "containers with unready status: [main]"
    bench.until(100)
    assert bench.phases() == ["Pending", "Running", "Succeeded"]
    assert bench.container()["state"]["terminated"]["startedAt"] == "2026-05-01T12:00:05Z"
    assert "message" not in bench.condition("Ready")


@pytest.mark.parametrize(
    ("policy", "script", "phases", "restarts"),
    [
        ("Never", "sleep 5; exit 1", ["Running", "Failed"], 0),
        ("OnFailure", "sleep 5", ["Running", "Succeeded"], 0),
        ("OnFailure", "sleep 5; exit 1", ["Running"] * 7, 3),
        ("Always", "sleep 5", ["Running"] * 7, 3),
    ],
)
def test_containers_start_again_by_the_restart_policy(policy, script, phases, restarts):
    bench = Bench()
    bench.add(make_pod(script=script, spec={"restartPolicy": policy}))
    bench.until(60)
    assert bench.phases() == phases
    assert bench.container()["restartCount"] == restarts


def test_the_first_restart_is_at_once_and_the_back_off_doubles_up_to_five_minutes():
    bench = Bench()
    bench.add(make_pod(script="sleep 1; exit 1", spec={"restartPolicy": "Always"}))
    starts = []
    for second in range(3000):
        bench.until(second)
        state = bench.container()["state"]
        if "running" in state:
            starts.append(second)
    waits = [later - before - 1 for before, later in pairwise(starts)]
    assert waits[:8] == [0, 10, 20, 40, 80, 160, 300, 300]


def test_while_it_backs_off_a_container_waits_with_its_last_end():
    bench = Bench()
    bench.add(make_pod(script="sleep 1; exit 7", spec={"restartPolicy": "OnFailure"}))
    bench.until(2)
    status = bench.container()
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["lastState"]["terminated"]["exitCode"] == 7
    assert status["ready"] is False
    assert bench.status()["phase"] == "Running"


def test_a_long_run_makes_the_back_off_begin_again():
    bench = Bench()
    pod = make_pod(script="sleep 700; exit 1", spec={"restartPolicy": "Always"})
    bench.add(pod)
    bench.until(700 * 4 + 1)
    assert bench.container()["restartCount"] == 4


def init(name: str, script: str, **more) -> JSON:
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], **more}


def test_init_containers_run_in_order_before_the_others():
    bench = Bench()
    steps = [init("one", "sleep 2"), init("two", "sleep 3")]
    bench.add(make_pod(script="sleep 4", spec={"initContainers": steps}))
    assert bench.status()["phase"] == "Pending"
    assert bench.condition("Initialized")["message"] == "containers with incomplete status: [one two]"
    assert bench.container()["state"]["waiting"]["reason"] == "PodInitializing"
    bench.until(100)
    assert bench.phases() == ["Pending", "Pending", "Running", "Succeeded"]
    two = bench.container(index=1, kind="initContainerStatuses")["state"]["terminated"]
    assert (two["startedAt"], two["finishedAt"]) == ("2026-05-01T12:00:02Z", "2026-05-01T12:00:05Z")
    assert bench.container()["state"]["terminated"]["startedAt"] == "2026-05-01T12:00:05Z"
    assert bench.condition("Initialized")["status"] == "True"


def test_a_failed_init_container_fails_a_pod_that_never_restarts():
    bench = Bench()
    bench.add(make_pod(script="sleep 4", spec={"initContainers": [init("one", "sleep 2; exit 9")]}))
    bench.until(100)
    assert bench.phases() == ["Pending", "Failed"]
    assert "waiting" in bench.container()["state"]


def test_a_failed_init_container_is_tried_again_otherwise():
    bench = Bench()
    spec = {"initContainers": [init("one", "sleep 2; exit 9")], "restartPolicy": "Always"}
    bench.add(make_pod(script="sleep 4", spec=spec))
    bench.until(30)
    assert bench.status()["phase"] == "Pending"
    assert bench.container(kind="initContainerStatuses")["restartCount"] == 2


def test_a_sidecar_runs_beside_the_others_and_ends_with_them():
    bench = Bench()
    side = init("side", "tail -f /log", restartPolicy="Always")
    bench.add(make_pod(script="sleep 4", spec={"initContainers": [side]}))
    assert bench.status()["phase"] == "Running"
    bench.until(100)
    assert bench.phases() == ["Running", "Succeeded"]
    assert bench.container(kind="initContainerStatuses")["state"]["terminated"]["finishedAt"].endswith(
        "12:00:04Z"
    )


def test_a_pod_over_its_active_deadline_fails():
    bench = Bench()
    bench.add(make_pod(script="sleep 100", spec={"activeDeadlineSeconds": 30}))
    bench.until(1000)
    assert bench.phases() == ["Running", "Failed"]
    assert bench.status()["reason"] == "DeadlineExceeded"
    assert bench.container()["state"]["terminated"]["finishedAt"].endswith("12:00:30Z")


def test_a_pod_that_ends_on_its_deadline_has_ended_well():
    bench = Bench()
    bench.add(make_pod(script="sleep 30", spec={"activeDeadlineSeconds": 30}))
    bench.until(1000)
    assert bench.phases() == ["Running", "Succeeded"]


def test_a_deleted_pod_gets_its_true_end_written_and_is_removed():
    bench = Bench()
    bench.add(make_pod(script="sleep 100"))
    kept = bench.pods["p"]
    bench.delete("p", 10)
    assert bench.phases() == ["Running", "Failed", "removed"]
    ended = kept["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["finishedAt"]) == (143, "2026-05-01T12:00:10Z")
    assert bench.roster.pods == {}


def test_containers_that_take_their_time_to_stop_are_waited_for_and_killed_when_the_grace_is_over():
    bench = Bench()
    bench.add(make_pod("slow", "sleep 100", annotations={STOP_SECONDS: "8"}))
    bench.add(make_pod("stubborn", "sleep 100", annotations={STOP_SECONDS: "3600"}))
    slow, stubborn = bench.pods["slow"], bench.pods["stubborn"]
    bench.delete("slow", 10)
    bench.delete("stubborn", 10)
    bench.until(17)
    assert set(bench.pods) == {"slow", "stubborn"}
    bench.until(100)
    for pod, code, finished in ((slow, 143, "12:00:18Z"), (stubborn, 137, "12:00:40Z")):
        ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["finishedAt"][-9:]) == (code, finished)
    assert bench.pods == {}


def test_a_command_that_ends_within_the_grace_keeps_its_own_end():
    bench = Bench(stop=20.0)
    bench.add(make_pod(script="sleep 15"))
    kept = bench.pods["p"]
    bench.delete("p", 10)
    bench.until(100)
    assert bench.phases() == ["Running", "Succeeded", "removed"]
    assert kept["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_a_finished_pod_is_removed_without_another_status():
    bench = Bench()
    bench.add(make_pod(script="sleep 1"))
    bench.until(10)
    bench.delete("p", 20)
    assert bench.phases() == ["Running", "Succeeded", "removed"]


def test_a_pod_deleted_before_its_containers_start_never_starts_them():
    bench = Bench(start=0.5)
    bench.add(make_pod(script="sleep 100"))
    kept = bench.pods["p"]
    bench.delete("p", 0.2)
    bench.until(100)
    assert bench.pods == {}
    assert "waiting" in kept["status"]["containerStatuses"][0]["state"]


@pytest.mark.parametrize(
    ("requests", "reason", "message"),
    [
        ({"cpu": "2500m"}, "OutOfcpu", "cpu, requested: 2500, used: 6000, capacity: 8000"),
        (
            {"memory": "31Gi"},
            "OutOfmemory",
            f"memory, requested: {31 << 30}, used: {2 << 30}, capacity: {32 << 30}",
        ),
        (
            {"nvidia.com/gpu": "8"},
            "OutOfnvidia.com/gpu",
            "nvidia.com/gpu, requested: 8, used: 1, capacity: 8",
        ),
        ({"rdma/hca": "1"}, "OutOfrdma/hca", "rdma/hca, requested: 1, used: 0, capacity: 0"),
    ],
)
def test_a_node_that_is_full_rejects_in_the_real_kubelets_words(requests, reason, message):
    bench = Bench()
    bench.add(make_pod("first", "sleep 9", requests={"cpu": "6", "memory": "2Gi", "nvidia.com/gpu": 1}))
    status = bench.add(make_pod("second", "sleep 9", requests=requests))
    assert status["phase"] == "Failed"
    assert status["reason"] == reason
    assert status["message"] == f"Pod was rejected: Node didn't have enough resource: {message}"
    assert (
        bench.add(make_pod("third", "sleep 9", node="node-1", requests={"cpu": "2500m"}))["phase"]
        == "Running"
    )


def test_the_number_of_pods_is_limited_and_what_ends_makes_room():
    bench = Bench()
    for number in range(4):
        bench.add(make_pod(f"p{number}", "sleep 10"))
    assert bench.add(make_pod("p4"))["message"].endswith("pods, requested: 1, used: 4, capacity: 4")
    bench.until(10)
    assert bench.add(make_pod("p5"), 11)["phase"] == "Running"


def test_a_pod_that_ends_gracefully_holds_its_room_until_its_end():
    bench = Bench(stop=10.0)
    bench.add(make_pod("old", requests={"nvidia.com/gpu": 8}))
    bench.delete("old", 5)
    assert bench.add(make_pod("early", requests={"nvidia.com/gpu": 8}), 6)["phase"] == "Failed"
    bench.until(15)
    assert bench.add(make_pod("late", requests={"nvidia.com/gpu": 8}), 16)["phase"] == "Running"


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        ({"affinity": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}, True),
        ({"affinity": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"affinity": [{"key": "zone", "operator": "Exists"}]}, True),
        ({"affinity": [{"key": "zone", "operator": "DoesNotExist"}]}, False),
        ({"affinity": [{"key": "rank", "operator": "Gt", "values": ["5"]}]}, True),
        ({"affinity": [{"key": "rank", "operator": "Lt", "values": ["5"]}]}, False),
    ],
)
def test_a_node_that_does_not_match_rejects(spec, fits):
    if "affinity" in spec:
        term = {"matchExpressions": spec["affinity"]}
        spec = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}
    bench = Bench(parse_nodes("1x8,label:zone=a,label:rank=7"))
    status = bench.add(make_pod(spec=spec))
    assert (status["phase"] == "Running") is fits
    if not fits:
        assert status["reason"] == "NodeAffinity"
        assert status["message"] == (
            "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        )


def test_only_a_no_execute_taint_makes_a_kubelet_reject():
    bench = Bench(parse_nodes("1x8,taint:soft=x:NoSchedule", "hard=1x8,taint:hard=x:NoExecute"))
    assert bench.add(make_pod("a"))["phase"] == "Running"
    assert bench.add(make_pod("b", node="hard-0"))["reason"] == "TaintToleration"
    tolerates = {"tolerations": [{"key": "hard", "operator": "Exists"}]}
    assert bench.add(make_pod("c", node="hard-0", spec=tolerates))["phase"] == "Running"


def test_addresses_are_unique_and_those_of_the_host_for_its_network():
    bench = Bench(parse_nodes("1x8,pods=500"))
    addresses = {bench.add(make_pod(f"p{number}"))["podIP"] for number in range(300)}
    assert len(addresses) == 300
    assert bench.add(make_pod("host", spec={"hostNetwork": True}))["podIP"] == "10.0.0.1"
    bench.restart()
    assert bench.add(make_pod("more"))["podIP"] not in addresses


@pytest.mark.parametrize("moment", range(0, 40, 3))
def test_a_kubelet_that_starts_again_goes_on_as_if_nothing_had_happened(moment):
    def world() -> Bench:
        bench = Bench()
        bench.add(make_pod("plain", "sleep 20"))
        bench.add(make_pod("again", "sleep 3; exit 1", spec={"restartPolicy": "OnFailure"}))
        bench.add(make_pod("steps", "sleep 5", spec={"initContainers": [init("one", "sleep 4")]}))
        bench.add(make_pod("deadline", "sleep 99", spec={"activeDeadlineSeconds": 25}))
        return bench

    whole, broken = world(), world()
    whole.until(120)
    broken.until(moment)
    broken.restart(moment)
    broken.until(120)
    assert broken.pods == whole.pods
    assert broken.writes == whole.writes


def test_a_kubelet_that_was_away_writes_the_true_times_of_what_it_missed():
    bench = Bench()
    bench.add(make_pod(script="sleep 20"))
    bench.restart(500)
    assert bench.phases() == ["Running", "Succeeded"]
    assert bench.container()["state"]["terminated"]["finishedAt"] == "2026-05-01T12:00:20Z"


def test_after_a_restart_admitted_pods_keep_their_room():
    bench = Bench()
    bench.add(make_pod("old", requests={"nvidia.com/gpu": 8}))
    bench.restart(10)
    assert bench.status("old")["phase"] == "Running"
    assert bench.add(make_pod("new", requests={"nvidia.com/gpu": 1}), 11)["phase"] == "Failed"


def test_a_silent_node_writes_nothing_and_catches_up_when_it_is_back():
    bench = Bench()
    bench.add(make_pod("on-it", "sleep 20"))
    bench.add(make_pod("elsewhere", "sleep 20", node="node-1"))
    bench.roster.stop_node("node-0")
    bench.add(make_pod("bound-meanwhile", "sleep 5"), 10)
    gone = make_pod("gone-meanwhile", "sleep 5")
    bench.add(gone, 10)
    bench.roster.drop(bench.pods.pop("gone-meanwhile"))
    bench.until(100)
    assert bench.phases("on-it") == ["Running"]
    assert bench.phases("elsewhere") == ["Running", "Succeeded"]
    assert bench.phases("bound-meanwhile") == []
    bench.roster.start_node("node-0", at(200))
    bench.flush()
    bench.until(300)
    assert bench.phases("on-it") == ["Running", "Succeeded"]
    assert bench.container("on-it")["state"]["terminated"]["finishedAt"] == "2026-05-01T12:00:20Z"
    assert bench.phases("bound-meanwhile") == ["Running", "Succeeded"]
    assert set(bench.roster.pods) == {"uid-on-it", "uid-elsewhere", "uid-bound-meanwhile"}


def test_a_container_that_cannot_start_says_why():
    bench = Bench()
    bench.add(make_pod(script="sleep 1", annotations={"pumice.dev/sim-run-seconds": "soon"}))
    ended = bench.container()["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "soon" in ended["message"]


def test_the_log_is_what_was_printed_by_now():
    bench = Bench()
    bench.add(make_pod(script="echo start; sleep 5; echo end", spec={"restartPolicy": "Always"}))
    pod = bench.pods["p"]
    assert container_log(pod, "main", at(1)) == [(at(0), "start")]
    assert container_log(pod, "main", at(5)) == [(at(0), "start"), (at(5), "end")]
    bench.until(6)
    assert container_log(pod, "main", at(6)) == [(at(5), "start")]
    assert container_log(pod, "main", at(6), previous=True) == [(at(0), "start"), (at(5), "end")]
    assert container_log(make_pod(script="echo x"), "main", at(6)) == []
    with pytest.raises(KeyError):
        container_log(pod, "nobody", at(6))
