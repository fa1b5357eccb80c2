"""The client, the informer and the kubelets against the simulated API server, over HTTP."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from shared.api.resources import CONFIGMAPS, NODES, PODS
from shared.clock import SystemClock
from shared.errors import AlreadyExists, Conflict, NotFound, Refused
from shared.kube.client import HttpCluster, connect
from shared.kube.informer import Informer
from shared.kube.pace import Backoff
from shared.kube.port import JSON, Patch
from simulator.kubelet import Kubelets, parse_nodes
from simulator.server import Simulator

CLOCK = SystemClock()


def new_simulator(port: int = 0, **options) -> Simulator:
    numbers = itertools.count(1)
    return Simulator(CLOCK, lambda: f"00000000-0000-4000-8000-{next(numbers):012}", port=port, **options)


@asynccontextmanager
async def api_server(port: int = 0, **options) -> AsyncIterator[Simulator]:
    simulator = new_simulator(port, **options)
    await simulator.start()
    try:
        yield simulator
    finally:
        await simulator.stop()


@asynccontextmanager
async def client_of(simulator: Simulator) -> AsyncIterator[HttpCluster]:
    client = connect(simulator.kubeconfig(), clock=CLOCK)
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
async def cluster() -> AsyncIterator[HttpCluster]:
    async with api_server() as simulator, client_of(simulator) as client:
        yield client


@asynccontextmanager
async def task_of(*coroutines) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(one) for one in coroutines]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, asyncio.CancelledError), result


async def until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await CLOCK.sleep(0.01)


def config_map(name: str, **data: str) -> JSON:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, script: str, *, node: str | None = "node-0", gpus: int = 0, policy: str = "Never") -> JSON:
    container: JSON = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    spec: JSON = {"restartPolicy": policy, "containers": [container]}
    if node is not None:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def test_objects_are_written_read_and_refused_as_the_port_says(cluster):
    await cluster.ping()
    made = await cluster.create(CONFIGMAPS, "default", config_map("a", x="1"))
    with pytest.raises(AlreadyExists):
        await cluster.create(CONFIGMAPS, "default", config_map("a"))
    changed = await cluster.patch(CONFIGMAPS, "default", "a", {"data": {"y": "2"}})
    assert changed["data"] == {"x": "1", "y": "2"}
    with pytest.raises(Conflict):
        await cluster.replace(CONFIGMAPS, "default", {**made, "data": {}})
    operations = [{"op": "remove", "path": "/data/x"}]
    changed = await cluster.patch(CONFIGMAPS, "default", "a", operations, kind=Patch.JSON)
    assert changed["data"] == {"y": "2"}
    with pytest.raises(Conflict):
        await cluster.delete(CONFIGMAPS, "default", "a", uid="another")
    await cluster.delete(CONFIGMAPS, "default", "a", uid=made["metadata"]["uid"])
    with pytest.raises(NotFound):
        await cluster.get(CONFIGMAPS, "default", "a")
    with pytest.raises(Refused) as refused:
        await cluster.create(CONFIGMAPS, "default", config_map("Not A Name"))
    assert refused.value.status == 422


async def test_a_list_in_pages_is_the_whole_list(cluster):
    for number in range(25):
        await cluster.create(CONFIGMAPS, "default", config_map(f"c{number:02}"))
    listing = await cluster.list(CONFIGMAPS, "default", page=7)
    names = [item["metadata"]["name"] for item in listing.items]
    assert [name for name in names if name.startswith("c")] == [f"c{number:02}" for number in range(25)]
    assert {item["kind"] for item in listing.items} == {"ConfigMap"}


async def test_a_pod_is_bound_once(cluster):
    await cluster.create(PODS, "default", pod("p", "sleep 1", node=None))
    await cluster.bind("default", "p", "node-0")
    with pytest.raises(Conflict):
        await cluster.bind("default", "p", "node-1")
    with pytest.raises(NotFound):
        await cluster.bind("default", "nobody", "node-1")


async def test_an_informer_follows_every_change(cluster):
    names: list[tuple[str, str]] = []

    def note(old: JSON | None, new: JSON | None) -> None:
        word = "new" if old is None else "gone" if new is None else "changed"
        names.append((word, (new or old or {})["metadata"]["name"]))

    informer = Informer(cluster, CONFIGMAPS, clock=CLOCK, namespace="default", on_change=note)
    async with task_of(informer.run()):
        await informer.synced()
        names.clear()
        made = await cluster.create(CONFIGMAPS, "default", config_map("a"))
        informer.upsert(made)
        assert informer.store["default", "a"] == made
        await cluster.patch(CONFIGMAPS, "default", "a", {"data": {"k": "v"}})
        await cluster.delete(CONFIGMAPS, "default", "a")
        await until(lambda: len(names) == 3)
        assert names == [("new", "a"), ("changed", "a"), ("gone", "a")]
        informer.upsert(made)
        assert ("default", "a") not in informer.store


async def test_an_informer_outlives_its_server_and_takes_over_a_fresh_history():
    async with api_server() as first, client_of(first) as client:
        backoff = Backoff(first=0.05, longest=0.2)
        informer = Informer(client, CONFIGMAPS, clock=CLOCK, namespace="default", backoff=backoff)
        async with task_of(informer.run()):
            await informer.synced()
            for number in range(20):
                await client.create(CONFIGMAPS, "default", config_map(f"old-{number}"))
            await until(lambda: ("default", "old-19") in informer.store)
            await first.stop()
            await until(lambda: not informer.healthy)
            async with api_server(first._port):
                await client.create(CONFIGMAPS, "default", config_map("young"))
                await until(lambda: informer.healthy)
                await client.create(CONFIGMAPS, "default", config_map("younger"))
                await until(lambda: ("default", "young") in informer.store)
                assert not [name for _, name in informer.store if name.startswith("old")]
                assert informer.healthy


async def test_an_informer_that_was_cut_off_for_too_long_lists_again():
    async with api_server(history=50) as simulator, client_of(simulator) as client:
        await client.create(CONFIGMAPS, "default", config_map("doomed"))
        version = (await client.list(CONFIGMAPS)).resource_version
        gone: list[str] = []

        class Paused:
            """The client, whose first watch begins only after a long silence."""

            def __getattr__(self, name: str):
                return getattr(client, name)

            async def watch(self, *arguments, **options):
                if not gone and options["resource_version"] == version:
                    await client.delete(CONFIGMAPS, "default", "doomed")
                    for number in range(100):
                        await client.create(CONFIGMAPS, "default", config_map(f"c{number}"))
                async for event in client.watch(*arguments, **options):
                    yield event

        informer = Informer(
            Paused(),
            CONFIGMAPS,
            clock=CLOCK,
            on_change=lambda old, new: gone.append(old["metadata"]["name"]) if new is None else None,
        )
        async with task_of(informer.run()):
            await until(lambda: ("default", "c99") in informer.store)
        assert gone == ["doomed"]


@asynccontextmanager
async def kubelets_on(cluster: HttpCluster, *lines: str) -> AsyncIterator[Kubelets]:
    numbers = itertools.count()
    kubelets = Kubelets(cluster, CLOCK, lambda: str(next(numbers)), parse_nodes(*lines))
    async with task_of(kubelets.run()):
        async with asyncio.timeout(20):
            await kubelets.ready()
        yield kubelets


async def phase(cluster: HttpCluster, name: str) -> str:
    return (await cluster.get(PODS, "default", name))["status"]["phase"]


async def reaches(cluster: HttpCluster, name: str, wanted: str, seconds: float = 10.0) -> JSON:
    async with asyncio.timeout(seconds):
        while await phase(cluster, name) != wanted:
            await CLOCK.sleep(0.02)
    return (await cluster.get(PODS, "default", name))["status"]


async def test_pods_run_to_their_end_on_simulated_nodes(cluster):
    async with kubelets_on(cluster, "2x8", "cpu=1x0,label:zone=a"):
        nodes = {node["metadata"]["name"]: node for node in (await cluster.list(NODES)).items}
        assert nodes.keys() == {"node-0", "node-1", "cpu-0"}
        assert nodes["cpu-0"]["metadata"]["labels"]["zone"] == "a"
        assert nodes["node-1"]["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert not nodes["node-1"].get("spec", {}).get("taints")
        await cluster.create(PODS, "default", pod("created-bound", "sleep 0.3; exit 3"))
        await cluster.create(PODS, "default", pod("bound-later", "sleep 0.3", node=None))
        await asyncio.sleep(0.1)
        assert await phase(cluster, "bound-later") == "Pending"
        await cluster.bind("default", "bound-later", "node-1")
        status = await reaches(cluster, "created-bound", "Failed")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        status = await reaches(cluster, "bound-later", "Succeeded")
        kinds = [condition["type"] for condition in status["conditions"]]
        assert sorted(kinds) == sorted(set(kinds))
        assert next(c for c in status["conditions"] if c["type"] == "PodScheduled")["status"] == "True"


async def test_a_node_that_is_full_shows_it_and_a_deletion_makes_room(cluster):
    async with kubelets_on(cluster, "1x8"):
        await cluster.create(PODS, "default", pod("first", "sleep 600", gpus=8))
        await reaches(cluster, "first", "Running")
        await cluster.create(PODS, "default", pod("second", "sleep 600", gpus=1))
        status = await reaches(cluster, "second", "Failed")
        assert status["reason"] == "OutOfnvidia.com/gpu"
        assert status["message"].startswith(
            "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu"
        )
        ended = asyncio.Event()
        codes: list[int] = []

        def note(old: JSON | None, new: JSON | None) -> None:
            if new is None and old is not None:
                statuses = old["status"]["containerStatuses"]
                codes.extend(one["state"]["terminated"]["exitCode"] for one in statuses)
                ended.set()

        informer = Informer(cluster, PODS, clock=CLOCK, fields="metadata.name=first", on_change=note)
        async with task_of(informer.run()), asyncio.timeout(10):
            await informer.synced()
            await cluster.delete(PODS, "default", "first")
            await ended.wait()
        assert codes == [143]
        await cluster.create(PODS, "default", pod("third", "sleep 600", gpus=8))
        await reaches(cluster, "third", "Running")


async def test_kubelets_that_start_again_go_on(cluster):
    async with kubelets_on(cluster, "1x8"):
        await cluster.create(PODS, "default", pod("p", "sleep 2"))
        before = await reaches(cluster, "p", "Running")
    async with kubelets_on(cluster, "1x8"):
        after = await reaches(cluster, "p", "Succeeded")
    run = after["containerStatuses"][0]
    assert (
        run["state"]["terminated"]["startedAt"]
        == before["containerStatuses"][0]["state"]["running"]["startedAt"]
    )
    assert after["podIP"] == before["podIP"]
    assert run["restartCount"] == 0


async def test_a_hundred_pods_cost_two_status_writes_each(cluster):
    async with kubelets_on(cluster, "10x8"):
        for number in range(100):
            await cluster.create(PODS, "default", pod(f"p{number}", "sleep 1", node=f"node-{number % 10}"))
        versions: list[str] = []

        def note(old: JSON | None, new: JSON | None) -> None:
            if old is not None and new is not None:
                versions.append(new["metadata"]["resourceVersion"])

        informer = Informer(cluster, PODS, clock=CLOCK, on_change=note)
        async with task_of(informer.run()):
            await informer.synced()
            await until(
                lambda: all(one["status"]["phase"] == "Succeeded" for one in informer.store.values()), 30
            )
            assert len(versions) <= 200
            addresses = {one["status"]["podIP"] for one in informer.store.values()}
            assert len(addresses) == 100
