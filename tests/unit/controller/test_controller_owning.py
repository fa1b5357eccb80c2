"""One log tells of one cluster: a controller of another does not start on it, unless it is told to."""

from __future__ import annotations

import pytest

from services.controller.adapters.owning import KEY, Ownership
from shared.api import resources as r
from shared.errors import StartupError
from shared.events import topics

pytestmark = pytest.mark.looptime


def owner(w, uid: str, *, replace: bool = False) -> Ownership:
    """A controller's ownership, of the cluster with this UID."""
    w.cluster.objects.setdefault(r.NAMESPACES, {}).clear()
    if uid:
        w.cluster.put(r.NAMESPACES, {"metadata": {"name": "kube-system"}})
        w.cluster.objects[r.NAMESPACES]["", "kube-system"]["metadata"]["uid"] = uid
    return Ownership(w.log, w.cluster, w.clock, where="kafka://k:9092", replace=replace)


async def holder(w) -> str | None:
    fact = (await w.state()).get(KEY.decode())
    return None if fact is None else fact.uid


async def test_the_first_cluster_has_the_log_and_a_restart_writes_nothing(world):
    async with world(started=False) as w:
        await owner(w, "one").claim()
        assert await holder(w) == "one"
        await owner(w, "one").claim()
        assert len(await w.events(topics.CLUSTER_STATE)) == 1


async def test_another_cluster_is_refused_in_one_line_that_says_what_to_do(world):
    async with world(started=False) as w:
        await owner(w, "one").claim()
        with pytest.raises(StartupError) as refusal:
            await owner(w, "two").claim()
        line = str(refusal.value)
        assert "\n" not in line
        for words in ("kafka://k:9092", "one", "two", "PUMICE_REPLACE_CLUSTER=true"):
            assert words in line
        assert await holder(w) == "one"


async def test_a_cluster_made_anew_takes_the_log_over_when_told_to(world):
    async with world(started=False) as w:
        await owner(w, "one").claim()
        await owner(w, "two", replace=True).claim()
        assert await holder(w) == "two"
        with pytest.raises(StartupError):
            await owner(w, "one").claim()


async def test_a_cluster_that_ends_with_its_process_leaves_the_log_to_the_next(world):
    async with world(started=False) as w:
        first = owner(w, "one")
        await first.claim()
        await first.release()
        await owner(w, "two").claim()
        assert await holder(w) == "two"


async def test_who_was_refused_takes_nothing_from_the_holder_when_it_ends(world):
    async with world(started=False) as w:
        await owner(w, "one").claim()
        second = owner(w, "two")
        with pytest.raises(StartupError):
            await second.claim()
        await second.release()
        assert await holder(w) == "one"


async def test_a_cluster_that_does_not_tell_which_it_is_claims_nothing(world):
    async with world(started=False) as w:
        await owner(w, "").claim()
        assert await holder(w) is None
        await owner(w, "one").claim()
        silent = owner(w, "")
        await silent.claim()
        await silent.release()
        assert await holder(w) == "one"


async def test_a_controller_of_another_cluster_does_not_start_and_tells_nothing_of_it(world):
    async with world(started=False) as w:
        await owner(w, "one").claim()
        owner(w, "two")
        await w.start()
        with pytest.raises(ExceptionGroup) as refusal:
            await w.task
        w.task = None
        assert refusal.group_contains(StartupError)
        assert list(await w.state()) == [KEY.decode()]
        assert w.cluster.log == []
