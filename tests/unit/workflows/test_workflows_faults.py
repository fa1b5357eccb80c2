"""An API server that fails now and then, before or after it did what it was asked: nothing is lost or doubled."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from shared.api import resources as r
from shared.errors import Conflict, Unavailable

pytestmark = pytest.mark.looptime
TEMPLATE = {"spec": {"tasks": [{"name": "main", "replicas": 1, "template": {"spec": {"containers": []}}}]}}


def make_unreliable(w, seed: int, share: float = 0.4) -> Counter:
    """Let a share of writes fail, half of them after they happened; count the jobs that were made."""
    chance, made = random.Random(seed), Counter()

    async def before(verb, _resource, _name):
        if chance.random() < share / 2:
            raise Conflict("not now") if verb == "patch" and chance.random() < 0.5 else Unavailable("not now")

    async def after(verb, resource, name):
        if verb == "create" and resource is r.JOBS:
            made[name] += 1
        if chance.random() < share / 2:
            raise Unavailable("the answer was lost")

    w.cluster.before, w.cluster.after = before, after
    return made


@pytest.mark.parametrize("seed", range(5))
async def test_a_flow_comes_to_its_end_with_each_job_made_once(world, seed):
    w = world()
    made = make_unreliable(w, seed)
    for name in ("a", "b", "c", "d"):
        w.template(name)
    w.flow("f", "a", "b<a", "c<a", "d<b,c")
    await w.start()
    ended: set[str] = set()

    def play() -> bool:
        for name in set(w.jobs()) - ended:
            ended.add(name)
            w.phase(name, "Completed")
        return w.flow_phase("f") == "Succeed"

    await w.until(play, seconds=300)
    assert made == Counter({f"f-{name}": 1 for name in "abcd"})
    assert w.status(r.JOBFLOWS, "f")["completedJobs"] == ["f-a", "f-b", "f-c", "f-d"]


@pytest.mark.parametrize("seed", range(5))
async def test_each_minute_has_one_job(world, seed):
    w = world()
    made = make_unreliable(w, seed)
    w.put(r.CRONJOBS, "c", spec={"schedule": "* * * * *", "jobTemplate": TEMPLATE})
    await w.start()
    await w.pass_time(20 * 60 + 50)
    assert len(made) == 20
    assert set(made.values()) == {1}
    await w.until(lambda: len(w.status(r.CRONJOBS, "c").get("active", ())) == 20, seconds=60)


@pytest.mark.parametrize("seed", range(3))
async def test_replacing_leaves_one_job_that_is_noted(world, seed):
    w = world()
    make_unreliable(w, seed)
    w.put(
        r.CRONJOBS,
        "c",
        spec={"schedule": "* * * * *", "concurrencyPolicy": "Replace", "jobTemplate": TEMPLATE},
    )
    await w.start()
    await w.pass_time(10 * 60 + 50)
    await w.until(
        lambda: [one["name"] for one in w.status(r.CRONJOBS, "c").get("active", ())] == w.jobs(), seconds=60
    )
    assert len(w.jobs()) == 1
