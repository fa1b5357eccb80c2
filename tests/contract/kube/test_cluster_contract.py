"""What the ``Cluster`` port promises, on the simulator and on a real API server alike."""

from __future__ import annotations

import asyncio

import pytest

from shared.api.resources import CONFIGMAPS, JOBS, NAMESPACES, PODGROUPS, PODS
from shared.clock import SystemClock
from shared.errors import AlreadyExists, Conflict, Gone, NotFound, Refused
from shared.kube.client import HttpCluster
from shared.kube.informer import Informer
from shared.kube.port import JSON, Patch
from tests.fixtures.kube import until_gone
from tests.fixtures.platform import gang
from tests.fixtures.waiting import eventually


def config_map(name: str, **data: str) -> JSON:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, **spec) -> JSON:
    containers = [{"name": "main", "image": "busybox"}, {"name": "second", "image": "busybox"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": containers, **spec},
    }


async def test_a_name_is_taken_once_and_what_is_not_there_is_not_found(cluster, namespace):
    await cluster.create(CONFIGMAPS, namespace, config_map("a"))
    with pytest.raises(AlreadyExists):
        await cluster.create(CONFIGMAPS, namespace, config_map("a"))
    with pytest.raises(NotFound):
        await cluster.get(CONFIGMAPS, namespace, "b")
    with pytest.raises(NotFound):
        await cluster.patch(CONFIGMAPS, namespace, "b", {"data": {"k": "v"}})
    with pytest.raises(NotFound):
        await cluster.delete(CONFIGMAPS, namespace, "b")


async def test_an_object_that_breaks_a_rule_is_refused_with_the_field(cluster, namespace):
    with pytest.raises(Refused, match=r"metadata\.name") as refused:
        await cluster.create(CONFIGMAPS, namespace, config_map("Not A Name"))
    assert refused.value.status == 422
    job = gang("broken")
    job["spec"]["minAvailable"] = "three"
    with pytest.raises(Refused, match=r"spec\.minAvailable"):
        await cluster.create(JOBS, namespace, job)


async def test_a_dry_run_says_what_would_be_stored_and_stores_nothing(cluster, namespace):
    said = await cluster.create(PODS, namespace, pod("trial"), dry_run=True)
    assert said["spec"]["terminationGracePeriodSeconds"] == 30, "defaults are filled in"
    with pytest.raises(NotFound):
        await cluster.get(PODS, namespace, "trial")
    with pytest.raises(Refused, match=r"metadata\.name"):
        await cluster.create(PODS, namespace, pod("Not A Name"), dry_run=True)


async def test_a_replacement_of_an_old_version_is_a_conflict(cluster, namespace):
    made = await cluster.create(CONFIGMAPS, namespace, config_map("a", x="1"))
    changed = await cluster.replace(CONFIGMAPS, namespace, {**made, "data": {"x": "2"}})
    with pytest.raises(Conflict):
        await cluster.replace(CONFIGMAPS, namespace, {**made, "data": {"x": "3"}})
    assert (await cluster.get(CONFIGMAPS, namespace, "a")) == changed


async def test_a_merge_patch_sets_and_takes_away(cluster, namespace):
    await cluster.create(CONFIGMAPS, namespace, config_map("a", x="1", y="1"))
    changed = await cluster.patch(CONFIGMAPS, namespace, "a", {"data": {"x": None, "z": "1"}})
    assert changed["data"] == {"y": "1", "z": "1"}


async def test_a_json_patch_tests_and_changes_or_does_nothing(cluster, namespace):
    await cluster.create(CONFIGMAPS, namespace, config_map("a", x="1"))
    change = [{"op": "replace", "path": "/data/x", "value": "2"}]
    fits = [{"op": "test", "path": "/data/x", "value": "1"}, *change]
    assert (await cluster.patch(CONFIGMAPS, namespace, "a", fits, kind=Patch.JSON))["data"] == {"x": "2"}
    with pytest.raises(Refused):
        await cluster.patch(CONFIGMAPS, namespace, "a", fits, kind=Patch.JSON)


async def test_a_strategic_patch_merges_lists_by_their_key(cluster, namespace):
    await cluster.create(PODS, namespace, pod("p"))
    body = {"spec": {"containers": [{"name": "second", "image": "other"}]}}
    changed = await cluster.patch(PODS, namespace, "p", body, kind=Patch.STRATEGIC)
    images = {one["name"]: one["image"] for one in changed["spec"]["containers"]}
    assert images == {"main": "busybox", "second": "other"}


async def test_what_one_applied_another_may_only_take_by_force(cluster, namespace):
    applied = {"kind": Patch.APPLY, "params": {"fieldManager": "one"}}
    await cluster.patch(CONFIGMAPS, namespace, "a", config_map("a", x="1"), **applied)
    other = {"kind": Patch.APPLY, "params": {"fieldManager": "two"}}
    with pytest.raises(Conflict):
        await cluster.patch(CONFIGMAPS, namespace, "a", config_map("a", x="2"), **other)
    other["params"]["force"] = "true"
    changed = await cluster.patch(CONFIGMAPS, namespace, "a", config_map("a", x="2"), **other)
    assert changed["data"] == {"x": "2"}


async def test_status_is_written_through_its_subresource_only(cluster, namespace):
    made = await cluster.create(JOBS, namespace, gang("train"))
    status = {"status": {"state": {"phase": "Running"}}}
    assert "status" not in await cluster.patch(JOBS, namespace, "train", status)
    changed = await cluster.patch(
        JOBS, namespace, "train", {**status, "spec": {"minAvailable": 1}}, subresource="status"
    )
    assert changed["status"]["state"] == {"phase": "Running"}
    assert changed["spec"]["minAvailable"] == 4
    assert changed["metadata"]["generation"] == made["metadata"]["generation"]


async def test_a_pod_is_bound_once_and_only_the_one_that_was_meant(cluster, namespace):
    made = await cluster.create(PODS, namespace, pod("p"))
    with pytest.raises(Conflict):
        await cluster.bind(namespace, "p", "node-0", uid="another")
    await cluster.bind(namespace, "p", "node-0", uid=made["metadata"]["uid"])
    with pytest.raises(Conflict):
        await cluster.bind(namespace, "p", "node-1")
    with pytest.raises(NotFound):
        await cluster.bind(namespace, "nobody", "node-1")
    bound = await cluster.get(PODS, namespace, "p")
    assert bound["spec"]["nodeName"] == "node-0"
    assert [(one["type"], one["status"]) for one in bound["status"]["conditions"]] == [
        ("PodScheduled", "True")
    ]


async def test_an_eviction_ends_the_pod_that_was_meant(cluster, namespace):
    made = await cluster.create(PODS, namespace, pod("p"))
    with pytest.raises(Conflict):
        await cluster.evict(namespace, "p", uid="another")
    await cluster.evict(namespace, "p", uid=made["metadata"]["uid"])
    await until_gone(cluster, PODS, namespace, "p")
    with pytest.raises(NotFound):
        await cluster.evict(namespace, "p")


async def test_a_bound_pod_ends_gracefully_and_a_grace_of_zero_ends_it_at_once(cluster, namespace):
    made = await cluster.create(PODS, namespace, pod("p", nodeName="node-0"))
    with pytest.raises(Conflict):
        await cluster.delete(PODS, namespace, "p", uid="another")
    await cluster.delete(PODS, namespace, "p", grace_seconds=20)
    ending = await cluster.get(PODS, namespace, "p")
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 20
    assert "deletionTimestamp" in ending["metadata"]
    await cluster.delete(PODS, namespace, "p", uid=made["metadata"]["uid"], grace_seconds=0)
    with pytest.raises(NotFound):
        await cluster.get(PODS, namespace, "p")


async def test_a_finalizer_holds_a_deleted_object_until_it_is_taken_off(cluster, namespace):
    body = config_map("a")
    body["metadata"]["finalizers"] = ["pumice.dev/hold"]
    await cluster.create(CONFIGMAPS, namespace, body)
    await cluster.delete(CONFIGMAPS, namespace, "a")
    assert "deletionTimestamp" in (await cluster.get(CONFIGMAPS, namespace, "a"))["metadata"]
    await cluster.patch(CONFIGMAPS, namespace, "a", {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await cluster.get(CONFIGMAPS, namespace, "a")


async def test_what_an_object_owns_goes_with_it(cluster, namespace):
    job = await cluster.create(JOBS, namespace, gang("train"))
    owner = {key: job[key] for key in ("apiVersion", "kind")}
    owner |= {key: job["metadata"][key] for key in ("name", "uid")}
    owned = config_map("owned")
    owned["metadata"]["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    await cluster.create(CONFIGMAPS, namespace, owned)
    await cluster.create(CONFIGMAPS, namespace, config_map("free"))
    await cluster.delete(JOBS, namespace, "train")
    await until_gone(cluster, CONFIGMAPS, namespace, "owned")
    assert await cluster.get(CONFIGMAPS, namespace, "free")


async def test_a_deleted_namespace_takes_all_that_is_in_it(cluster: HttpCluster):
    name = "contract-short-lived"
    await cluster.create(NAMESPACES, None, {"metadata": {"name": name}})
    await cluster.create(CONFIGMAPS, name, config_map("a"))
    group = {"apiVersion": PODGROUPS.api_version, "kind": "PodGroup", "spec": {"minMember": 1}}
    await cluster.create(PODGROUPS, name, {**group, "metadata": {"name": "g"}})
    await cluster.delete(NAMESPACES, None, name)
    await until_gone(cluster, NAMESPACES, None, name)
    with pytest.raises(NotFound):
        await cluster.get(PODGROUPS, name, "g")


async def test_a_list_in_pages_is_the_whole_list_with_kinds(cluster, namespace):
    names = [f"c{number:02}" for number in range(25)]
    for name in names:
        await cluster.create(CONFIGMAPS, namespace, config_map(name))
    listing = await cluster.list(CONFIGMAPS, namespace, page=7)
    found = [one["metadata"]["name"] for one in listing.items]
    assert [name for name in found if name in names] == names
    assert {(one["apiVersion"], one["kind"]) for one in listing.items} == {("v1", "ConfigMap")}


async def test_selectors_choose_by_labels_and_fields(cluster, namespace):
    for name, labels in {"a": {"team": "x"}, "b": {"team": "y"}, "c": {}}.items():
        body = pod(name)
        body["metadata"]["labels"] = labels
        await cluster.create(PODS, namespace, body)
    await cluster.bind(namespace, "b", "node-0")

    async def chosen(**selectors: str) -> list[str]:
        listing = await cluster.list(PODS, namespace, **selectors)
        return [one["metadata"]["name"] for one in listing.items]

    assert await chosen(labels="team in (x,y)") == ["a", "b"]
    assert await chosen(labels="!team") == ["c"]
    assert await chosen(fields="spec.nodeName=node-0") == ["b"]
    assert await chosen(fields="spec.nodeName=,metadata.name!=c") == ["a"]


async def test_a_watch_goes_on_from_the_version_of_a_list_or_of_its_last_event(cluster, namespace):
    start = (await cluster.list(CONFIGMAPS, namespace)).resource_version
    for name in ("a", "b", "c"):
        await cluster.create(CONFIGMAPS, namespace, config_map(name))
    await cluster.delete(CONFIGMAPS, namespace, "b")

    async def seen(version: str, count: int) -> list[tuple[str, str, str]]:
        events = []
        async with asyncio.timeout(20):
            async for event in cluster.watch(CONFIGMAPS, namespace, resource_version=version):
                if event.type != "BOOKMARK":
                    metadata = event.object["metadata"]
                    events.append((event.type, metadata["name"], metadata["resourceVersion"]))
                if len(events) == count:
                    return events
        raise AssertionError(events)

    everything = await seen(start, 4)
    assert [event[:2] for event in everything] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("ADDED", "c"),
        ("DELETED", "b"),
    ]
    assert await seen(everything[1][2], 2) == everything[2:]


async def test_a_watch_from_a_version_that_is_forgotten_is_gone(cluster, namespace):
    group = {"apiVersion": PODGROUPS.api_version, "kind": "PodGroup", "spec": {"minMember": 1}}
    for number in range(60):
        await cluster.create(PODGROUPS, namespace, {**group, "metadata": {"name": f"g{number}"}})

    async def watch_from_the_beginning() -> None:
        async for _ in cluster.watch(PODGROUPS, namespace, resource_version="1"):
            pass

    with pytest.raises(Gone):
        await asyncio.wait_for(watch_from_the_beginning(), 20)


async def test_an_informer_follows_every_change(cluster, namespace):
    names: list[tuple[str, str]] = []

    def note(old: JSON | None, new: JSON | None) -> None:
        word = "new" if old is None else "gone" if new is None else "changed"
        names.append((word, (new or old or {})["metadata"]["name"]))

    informer = Informer(cluster, JOBS, clock=SystemClock(), namespace=namespace, on_change=note)
    running = asyncio.create_task(informer.run())
    await informer.synced()
    informer.upsert(await cluster.create(JOBS, namespace, gang("a")))
    await cluster.patch(JOBS, namespace, "a", {"metadata": {"labels": {"k": "v"}}})
    await cluster.delete(JOBS, namespace, "a")
    await cluster.create(JOBS, namespace, gang("b"))
    await eventually(lambda: len(names) == 4)
    assert names == [("new", "a"), ("changed", "a"), ("gone", "a"), ("new", "b")]
    assert list(informer.store) == [(namespace, "b")]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
