"""The shell of the kubelets against a small API server in memory, in virtual time."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections import Counter
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from shared.api.resources import NODES
from shared.clock import LoopClock
from shared.errors import AlreadyExists, Conflict, NotFound, Unavailable
from shared.kube.port import JSON, Listing, Patch, WatchEvent
from simulator.kubelet import KubeletOptions, Kubelets, parse_nodes
from simulator.kubelet.core.nodes import is_ready

pytestmark = pytest.mark.looptime
EPOCH = datetime(2026, 5, 1, 12, tzinfo=UTC)


class SmallServer:
    """Nodes and pods in memory, and watches of them; as much of the Cluster port as kubelets use."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], JSON] = {}
        self.calls: Counter[str] = Counter()
        self.version = 0
        self.events: list[tuple[str, WatchEvent]] = []
        self.changed = asyncio.Event()
        self.away = False
        self.busy = self.most_busy = 0

    async def _call(self, name: str) -> None:
        self.busy += 1
        self.most_busy = max(self.busy, self.most_busy)
        await asyncio.sleep(0.001)
        self.busy -= 1
        if self.away:
            raise Unavailable("connection refused")
        self.calls[name] += 1

    def _publish(self, kind: str, plural: str, obj: JSON) -> JSON:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        if plural in ("pods", "nodes"):
            self.events.append((plural, WatchEvent(kind, copy.deepcopy(obj))))
            self.changed.set()
            self.changed = asyncio.Event()
        return copy.deepcopy(obj)

    def _find(self, resource, namespace, name, uid=None) -> JSON:
        obj = self.objects.get((resource.plural, namespace or "", name))
        if obj is None:
            raise NotFound(name)
        if uid is not None and obj["metadata"]["uid"] != uid:
            raise Conflict(name)
        return obj

    async def create(self, resource, namespace, body):
        await self._call(f"create {resource.plural}")
        key = (resource.plural, namespace or "", body["metadata"]["name"])
        if key in self.objects:
            raise AlreadyExists(key[2])
        obj = copy.deepcopy(body)
        obj["metadata"] |= {"uid": f"{key[2]}-{self.version}", "namespace": namespace or ""}
        obj["metadata"].setdefault("creationTimestamp", f"{self.version:05}")
        self.objects[key] = obj
        return self._publish("ADDED", resource.plural, obj)

    async def get(self, resource, namespace, name):
        await self._call(f"get {resource.plural}")
        return copy.deepcopy(self._find(resource, namespace, name))

    async def list(self, resource, namespace=None, *, labels="", fields="", page=500):
        await self._call(f"list {resource.plural}")
        items = [obj for (plural, *_), obj in self.objects.items() if plural == resource.plural]
        return Listing(copy.deepcopy(items), str(self.version))

    async def watch(self, resource, namespace=None, *, resource_version, labels="", fields=""):
        await self._call("watch")
        assert fields == ("spec.nodeName!=" if resource.plural == "pods" else "")
        yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": resource_version}})
        seen = 0
        while not self.away:
            for plural, event in self.events[seen:]:
                seen += 1
                if plural == resource.plural and int(event.object["metadata"]["resourceVersion"]) > int(
                    resource_version
                ):
                    yield copy.deepcopy(event)
            await self.changed.wait()

    async def patch(
        self, resource, namespace, name, body, *, kind=Patch.MERGE, subresource=None, params=None
    ):
        await self._call(f"patch {resource.plural} {subresource or ''}".strip())
        obj = self._find(resource, namespace, name, body.get("metadata", {}).get("uid"))
        obj.setdefault("status", {}).update(copy.deepcopy(body.get("status", {})))
        obj.setdefault("spec", {}).update(copy.deepcopy(body.get("spec", {})))
        return self._publish("MODIFIED", resource.plural, obj)

    async def delete(
        self, resource, namespace, name, *, uid=None, propagation="Background", grace_seconds=None
    ):
        await self._call(f"delete {resource.plural}")
        obj = self._find(resource, namespace, name, uid)
        if grace_seconds == 0:
            del self.objects[resource.plural, namespace or "", name]
            self._publish("DELETED", resource.plural, obj)
        else:
            obj["metadata"] |= {"deletionTimestamp": "now", "deletionGracePeriodSeconds": 30}
            self._publish("MODIFIED", resource.plural, obj)

    async def add(self, name: str, script: str, node: str = "node-0", **spec) -> None:
        container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script], **spec}
        body = {
            "metadata": {"name": name},
            "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [container]},
        }
        from shared.api.resources import PODS

        await self.create(PODS, "ns", body)

    def pod(self, name: str) -> JSON:
        return self.objects["pods", "ns", name]

    def phases(self) -> Counter[str]:
        pods = [obj for (plural, *_), obj in self.objects.items() if plural == "pods"]
        return Counter(pod["status"]["phase"] for pod in pods)


def make(server: SmallServer, *lines: str, **options) -> Kubelets:
    ids = map(str, itertools.count())
    return Kubelets(
        server,
        LoopClock(EPOCH),
        lambda: next(ids),
        parse_nodes(*lines or ("2x8",)),
        options=KubeletOptions(**options),
    )


@asynccontextmanager
async def running(kubelets: Kubelets):
    task = asyncio.create_task(kubelets.run())
    try:
        await kubelets.ready()
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left


async def test_nodes_are_created_ready_and_not_again_by_a_second_run():
    server = SmallServer()
    for _ in range(2):
        async with running(make(server, "30x8")):
            assert len([key for key in server.objects if key[0] == "nodes"]) == 30
    assert server.calls["create nodes"] == 30
    assert server.calls["patch nodes status"] == 0
    async with running(make(server, "30x4")):
        assert server.objects["nodes", "", "node-7"]["status"]["allocatable"]["nvidia.com/gpu"] == "4"


async def test_pods_run_to_their_end_with_two_writes_each():
    server = SmallServer()
    async with running(make(server, "10x8,pods=100")):
        for number in range(200):
            await server.add(
                f"p{number}", f"sleep {5 + number % 7}; exit {number % 2}", f"node-{number % 10}"
            )
        await asyncio.sleep(1)
        assert server.phases() == {"Running": 200}
        await asyncio.sleep(60)
        assert server.phases() == {"Succeeded": 100, "Failed": 100}
    assert server.calls["patch pods status"] == 400
    assert len({pod["status"]["podIP"] for key, pod in server.objects.items() if key[0] == "pods"}) == 200


async def test_pods_of_other_nodes_are_left_alone():
    server = SmallServer()
    async with running(make(server)):
        await server.add("mine", "sleep 1")
        await server.add("other", "sleep 1", "real-node")
        await asyncio.sleep(60)
    assert "status" not in server.pod("other")
    assert server.pod("mine")["status"]["phase"] == "Succeeded"


async def test_a_deleted_pod_is_ended_and_removed_once():
    from shared.api.resources import PODS

    server = SmallServer()
    async with running(make(server)):
        await server.add("p", "sleep 1000")
        await asyncio.sleep(5)
        await server.delete(PODS, "ns", "p")
        await asyncio.sleep(60)
        assert ("pods", "ns", "p") not in server.objects
        ended = [e.object for _, e in server.events if e.object.get("status", {}).get("phase") == "Failed"]
        assert ended[0]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    assert server.calls["patch pods status"] == 2
    assert server.calls["delete pods"] == 2  # ours and the user's


async def test_writes_wait_while_the_server_is_away_and_tell_the_true_times_after():
    server = SmallServer()
    async with running(make(server)):
        await server.add("p", "sleep 20")
        await asyncio.sleep(5)
        server.away = True
        server.changed.set()
        await asyncio.sleep(100)
        assert server.pod("p")["status"]["phase"] == "Running"
        server.away = False
        await asyncio.sleep(30)
        ended = server.pod("p")["status"]["containerStatuses"][0]["state"]["terminated"]
        assert ended["finishedAt"] == "2026-05-01T12:00:20Z"


async def test_the_nodes_wait_for_a_server_that_comes_later():
    server = SmallServer()
    server.away = True
    kubelets = make(server)
    task = asyncio.create_task(kubelets.run())
    await asyncio.sleep(30)
    assert not server.objects
    server.away = False
    await kubelets.ready()
    assert len(server.objects) == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_second_run_goes_on_with_what_the_first_began():
    server = SmallServer()
    async with running(make(server)):
        await server.add("p", "sleep 100")
        await server.add("full", "sleep 100", resources={"requests": {"nvidia.com/gpu": "8"}})
        await asyncio.sleep(30)
    await server.add("late", "sleep 1", resources={"requests": {"nvidia.com/gpu": "1"}})
    await asyncio.sleep(30)
    writes = server.calls["patch pods status"]
    async with running(make(server)):
        await asyncio.sleep(10)
        assert server.pod("late")["status"]["reason"] == "OutOfnvidia.com/gpu"
        assert server.calls["patch pods status"] == writes + 1
        await asyncio.sleep(60)
    state = server.pod("p")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["startedAt"][-9:], state["finishedAt"][-9:]) == ("12:00:00Z", "12:01:40Z")


async def test_a_stopped_node_is_not_ready_and_its_pods_stay_as_they_are():
    server = SmallServer()
    kubelets = make(server)
    async with running(kubelets):
        await server.add("p", "sleep 20")
        await asyncio.sleep(5)
        await kubelets.stop_node("node-0")
        node = server.objects["nodes", "", "node-0"]
        assert {c["status"] for c in node["status"]["conditions"]} == {"Unknown"}
        assert {taint["effect"] for taint in node["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
        await asyncio.sleep(100)
        assert server.pod("p")["status"]["phase"] == "Running"
        await kubelets.start_node("node-0")
        await asyncio.sleep(1)
        assert server.pod("p")["status"]["phase"] == "Succeeded"
        assert node["spec"]["taints"] == []
        assert "True" in {c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"}
        with pytest.raises(KeyError):
            await kubelets.stop_node("nobody")


async def test_a_pod_that_vanishes_while_it_is_written_does_no_harm():
    from shared.api.resources import PODS

    server = SmallServer()
    async with running(make(server)):
        await server.add("p", "sleep 1")
        await server.delete(PODS, "ns", "p", grace_seconds=0)
        await server.add("p", "sleep 5")
        await asyncio.sleep(60)
        assert server.pod("p")["status"]["phase"] == "Succeeded"


async def test_starts_can_be_delayed_and_spread():
    server = SmallServer()
    async with running(make(server, "1x8,pods=300", start_seconds=3.0, start_jitter_seconds=4.0)):
        for number in range(100):
            await server.add(f"p{number}", "sleep 1000")
        await asyncio.sleep(1)
        assert server.phases() == {"Pending": 100}
        await asyncio.sleep(4)
        assert 20 < server.phases()["Running"] < 90
        await asyncio.sleep(10)
        assert server.phases() == {"Running": 100}


async def test_writes_in_flight_are_bounded():
    server = SmallServer()
    for number in range(100):
        await server.add(f"p{number}", "sleep 1")
    async with running(make(server, "1x8,pods=200", writers=7)):
        await asyncio.sleep(60)
    assert server.phases() == {"Succeeded": 100}
    assert server.most_busy <= 8  # the watch is one


async def test_leases_are_renewed_when_asked_for():
    server = SmallServer()
    async with running(make(server, "4x8", lease_seconds=10.0)):
        await asyncio.sleep(100)
    assert server.calls["create leases"] == 4
    assert 30 <= server.calls["patch leases"] <= 44
    lease = server.objects["leases", "kube-node-lease", "node-3"]
    assert lease["spec"]["holderIdentity"] == "node-3"


async def test_a_node_that_was_taken_for_lost_says_again_that_it_is_ready():
    server = SmallServer()
    async with running(make(server, "2x8", lease_seconds=10.0)):
        await asyncio.sleep(5)
        unknown = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        await server.patch(NODES, None, "node-1", unknown, subresource="status")
        await asyncio.sleep(1)
    assert is_ready(server.objects["nodes", "", "node-1"])


async def test_a_node_that_was_removed_is_silent():
    server = SmallServer()
    async with running(make(server, "2x8", lease_seconds=10.0)):
        await server.add("p", "sleep 20")
        await server.add("q", "sleep 20", node="node-1")
        await asyncio.sleep(5)
        await server.delete(NODES, None, "node-0", grace_seconds=0)
        await asyncio.sleep(60)
        assert server.pod("p")["status"]["phase"] == "Running"
        assert server.pod("q")["status"]["phase"] == "Succeeded"
        renewed = server.calls["patch leases"]
        await asyncio.sleep(100)
        assert server.calls["patch leases"] - renewed in (9, 10, 11)  # those of one node


async def test_a_stopped_node_lets_its_lease_run_out_and_is_not_called_ready():
    server = SmallServer()
    kubelets = make(server, "2x8", lease_seconds=10.0)
    async with running(kubelets):
        await asyncio.sleep(30)
        await kubelets.stop_node("node-0")
        await asyncio.sleep(60)
        leases = [
            server.objects["leases", "kube-node-lease", f"node-{n}"]["spec"]["renewTime"] for n in (0, 1)
        ]
        assert leases[0] < leases[1]
        assert not is_ready(server.objects["nodes", "", "node-0"])
