"""Where pods may go for their volumes: from where these are reached, how many a node takes, and who mounts what."""

from __future__ import annotations

import pytest

from shared.events import contracts as c
from tests.scenarios.scenario import (
    Scenario,
    adds,
    ends,
    finishes,
    job,
    joins,
    node,
    other,
    placed,
    submits,
    task,
    waits,
)


def mount(name: str = "", *, driver: str = "csi", free: str = "", exclusive: bool = False) -> c.Mount:
    """A volume that a pod mounts; without a name each pod has its own."""
    return c.Mount(volume=name and f"ns/{name}", driver=driver, free=free, exclusive=exclusive)


def mounting(*mounts: c.Mount) -> c.Volumes:
    return c.Volumes(mounts=mounts)


def reaching(*labels: tuple[str, str]) -> c.Volumes:
    """Volumes of which each is reached from nodes with its label."""
    needs = [c.Requirement(key=key, operator="In", values=(value,)) for key, value in labels]
    return c.Volumes(reach=tuple((c.NodeTerm(expressions=(one,)),) for one in needs))


def zoned(name: str, zone: str, rack: str = "r1") -> c.NodeState:
    return node(name, gpu=8, labels={"zone": zone, "rack": rack})


WAITS_FOR = c.Volumes(waits_for="claim ns/data is not there")
DATA = mounting(mount("data"))

SCENARIOS = [
    Scenario(
        "a gang goes where its volume is reached from, though another node is fuller",
        nodes=[zoned("a1", "a"), zoned("b1", "b")],
        pods=[other("x", "a1", gpu=4)],
        jobs=[job("train", gang=4, gpu=1, volumes=reaching(("zone", "b")))],
        expect={"train": placed(b1=4)},
    ),
    Scenario(
        "each of a pod's volumes must be reached",
        nodes=[zoned("a1", "a"), zoned("a2", "a", "r2"), zoned("b2", "b", "r2")],
        jobs=[job("train", gang=2, gpu=1, volumes=reaching(("zone", "a"), ("rack", "r2")))],
        expect={"train": placed(a2=2)},
    ),
    Scenario(
        "where no node reaches a volume the reason says so",
        nodes=[zoned("a1", "a"), zoned("a2", "a")],
        jobs=[job("train", gang=1, gpu=1, volumes=reaching(("zone", "c")))],
        expect={"train": waits("no-node-reaches", "of 2 nodes, 2 do not reach its volumes")},
    ),
    Scenario(
        "a gang whose claim is in no state to be placed by waits, and names it",
        nodes=[zoned("a1", "a")],
        jobs=[job("train", gang=1, gpu=1, volumes=WAITS_FOR), job("later", gang=8, gpu=1, at=1)],
        expect={"train": waits("waits-for-claim", "claim ns/data is not there"), "later": placed(a1=8)},
    ),
    Scenario(
        "it starts when its claim is there",
        nodes=[zoned("a1", "a"), zoned("b1", "b")],
        jobs=[job("train", gang=2, gpu=1, volumes=WAITS_FOR)],
        then=[submits(job("train", gang=2, gpu=1, volumes=reaching(("zone", "b"))))],
        expect={"train": placed(b1=2)},
    ),
    Scenario(
        "members beyond the minimum wait alone for a claim of their own task",
        nodes=[zoned("a1", "a")],
        jobs=[job("train", task("ps", 1, gpu=1), task("w", 2, 0, gpu=1, volumes=WAITS_FOR), gang=1)],
        expect={"train": placed(a1=1)},
    ),
    Scenario(
        "a node takes no more volumes of a driver than it says",
        nodes=[node("n1", gpu=8, drivers={"csi": 2}), node("n2", gpu=8, drivers={"csi": 1})],
        jobs=[job(f"j{i}", gang=1, gpu=1, volumes=mounting(mount(f"v{i}"))) for i in range(3)],
        expect={f"j{i}": placed(1) for i in range(3)},
    ),
    Scenario(
        "one more volume than all nodes take waits for a volume's end",
        nodes=[node("n1", gpu=8, drivers={"csi": 1})],
        jobs=[job(f"j{i}", gang=1, gpu=1, at=i, volumes=mounting(mount(f"v{i}"))) for i in range(2)],
        expect={"j0": placed(n1=1), "j1": waits("no-room", "0 of 1 nodes have place for its volumes")},
    ),
    Scenario(
        "and starts when one has ended",
        nodes=[node("n1", gpu=8, drivers={"csi": 1})],
        jobs=[job(f"j{i}", gang=1, gpu=1, at=i, volumes=mounting(mount(f"v{i}"))) for i in range(2)],
        then=[finishes("j0")],
        expect={"j1": placed(n1=1)},
    ),
    Scenario(
        "a volume that many pods of a node mount counts once",
        nodes=[node("n1", gpu=8, drivers={"csi": 1})],
        jobs=[job("train", gang=8, gpu=1, volumes=DATA)],
        expect={"train": placed(n1=8)},
    ),
    Scenario(
        "and pods of another gang join it on a node that takes no other",
        nodes=[node("n1", gpu=8, drivers={"csi": 1}), node("n2", gpu=8, drivers={"csi": 0})],
        jobs=[
            job("a", gang=2, gpu=1, volumes=DATA),
            job("b", gang=2, gpu=2, at=1, volumes=DATA),
            job("c", gang=1, gpu=1, at=2, volumes=mounting(mount("other"))),
        ],
        expect={"a": placed(n1=2), "b": placed(n1=2), "c": waits("no-room")},
    ),
    Scenario(
        "it is given back with its last pod",
        nodes=[node("n1", gpu=8, drivers={"csi": 1})],
        jobs=[
            job("a", gang=2, gpu=1, volumes=DATA),
            job("b", gang=1, gpu=1, at=1, volumes=mounting(mount("other"))),
        ],
        then=[ends("a-worker-0")],
        expect={"b": waits("no-room")},
    ),
    Scenario(
        "a volume that each pod has for itself counts for each",
        nodes=[node("n1", gpu=8, drivers={"csi": 3}), node("n2", gpu=8, drivers={"csi": 1})],
        jobs=[job("train", gang=4, gpu=1, volumes=mounting(mount()))],
        expect={"train": placed(n1=3, n2=1)},
    ),
    Scenario(
        "volumes of pods that are not ours take places, too",
        nodes=[node("n1", gpu=8, drivers={"csi": 1}), node("n2", gpu=8, drivers={"csi": 1})],
        pods=[other("x", "n1", volumes=mounting(mount("x")))],
        jobs=[job("train", gang=1, gpu=1, volumes=DATA)],
        expect={"train": placed(n2=1)},
    ),
    Scenario(
        "a node that holds more volumes than it says takes pods without any",
        nodes=[node("n1", gpu=8, drivers={"csi": 1})],
        pods=[other(name, "n1", volumes=mounting(mount(name))) for name in "xy"],
        jobs=[job("train", gang=1, gpu=1), job("more", gang=1, gpu=1, at=1, volumes=DATA)],
        expect={"train": placed(n1=1), "more": waits("no-room")},
    ),
    Scenario(
        "a node that names no limit of a driver takes any number",
        nodes=[node("n1", gpu=8)],
        jobs=[job("train", gang=8, gpu=1, volumes=mounting(mount()))],
        expect={"train": placed(n1=8)},
    ),
    Scenario(
        "claims on local volumes go to nodes that have free ones, one to each",
        nodes=[node("n1", gpu=8, free={"disk": 1}), node("n2", gpu=8), node("n3", gpu=8, free={"disk": 1})],
        jobs=[
            job(
                "db",
                *(
                    task(f"t{i}", 1, gpu=1, volumes=mounting(mount(f"d{i}", driver="", free="disk")))
                    for i in (0, 1)
                ),
            )
        ],
        expect={"db": placed(n1=1, n3=1)},
    ),
    Scenario(
        "a gang that needs more local volumes than there are waits until there are more",
        nodes=[node("n1", gpu=8, free={"disk": 1})],
        jobs=[job("db", gang=2, gpu=1, volumes=mounting(mount(driver="", free="disk")))],
        expect={"db": waits("no-room", "1 of 1 nodes have place for its volumes")},
    ),
    Scenario(
        "and starts then",
        nodes=[node("n1", gpu=8, free={"disk": 1})],
        jobs=[job("db", gang=2, gpu=1, volumes=mounting(mount(driver="", free="disk")))],
        then=[adds(node("n1", gpu=8, free={"disk": 2}))],
        expect={"db": placed(n1=2)},
    ),
    Scenario(
        "a claim for one pod alone keeps all others off, wherever they would be",
        nodes=[node("n1", gpu=8), node("n2", gpu=8)],
        jobs=[
            job(name, gang=1, gpu=1, at=at, volumes=mounting(mount("one", exclusive=True)))
            for at, name in enumerate("ab")
        ],
        expect={"a": placed(1), "b": waits("claim-in-use", "claim ns/one is ReadWriteOncePod")},
    ),
    Scenario(
        "until it ends",
        nodes=[node("n1", gpu=8), node("n2", gpu=8)],
        jobs=[
            job(name, gang=1, gpu=1, at=at, volumes=mounting(mount("one", exclusive=True)))
            for at, name in enumerate("ab")
        ],
        then=[finishes("a")],
        expect={"b": placed(1)},
    ),
    Scenario(
        "a gang of several pods that share such a claim is told that it never starts",
        nodes=[node("n1", gpu=8)],
        jobs=[job("train", gang=2, gpu=1, volumes=mounting(mount("one", exclusive=True)))],
        expect={"train": waits("claim-in-use", "2 are to start together")},
    ),
    Scenario(
        "a pod of somebody else that takes the last place sends a gang elsewhere",
        nodes=[node("n1", gpu=8, drivers={"csi": 1}), node("n2", gpu=8, drivers={"csi": 1})],
        then=[
            joins(other("x", "n1", gpu=1, volumes=mounting(mount("x")))),
            submits(job("train", gang=2, gpu=1, volumes=DATA)),
        ],
        expect={"train": placed(n2=2)},
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_volumes(scenario: Scenario) -> None:
    scenario.run()
