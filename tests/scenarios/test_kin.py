"""What pods ask of other pods: affinity, anti-affinity, spread; and host ports."""

from __future__ import annotations

from typing import Any

import pytest

from shared.events import contracts as c
from tests.scenarios.scenario import (
    Scenario,
    finishes,
    job,
    joins,
    node,
    placed,
    shape,
    submits,
    task,
    waits,
)
from tests.scenarios.world import START

HOST, ZONE = "kubernetes.io/hostname", "zone"


def nodes(**zones: str) -> list[c.NodeState]:
    """A node of 8 GPUs for each name, in its zone."""
    return [node(name, gpu=8, labels={HOST: name, ZONE: zone}) for name, zone in zones.items()]


def term(app: str, key: str = HOST, **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def likes(kind: str, one: dict[str, Any], weight: int = 10) -> dict[str, Any]:
    wish = {"weight": weight, "podAffinityTerm": one}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}


def spread(
    app: str, key: str = ZONE, skew: int = 1, unless: str = "DoNotSchedule", **more: Any
) -> dict[str, Any]:
    one = {**term(app, key), "maxSkew": skew, "whenUnsatisfiable": unless, **more}
    return {"topologySpreadConstraints": [one]}


def other(name: str, on: str, app: str, namespace: str = "ns", **extras: Any) -> c.PodState:
    """A pod of somebody else that runs."""
    return c.PodState(
        namespace=namespace,
        name=name,
        uid=f"uid-{name}",
        node=on,
        phase="Running",
        ours=False,
        shape=shape(pod_labels={"app": app}, extras=extras),
        created_at=START,
    )


def app(
    name: str, gang: int = 1, *, label: str = "", asks: dict[str, Any] | None = None, **more: Any
) -> c.Gang:
    """A gang of pods with a label, which ask for something."""
    labels = {"app": label} if label else {}
    return job(name, gang=gang, pod_labels=labels, extras=asks or {}, **more)


THREE = nodes(a1="a", a2="a", b1="b")

SCENARIOS = [
    # ------------------------------------------------------------------ affinity to each other
    Scenario(
        "pods that are to be near each other go where there is room for all, not where one is liked most",
        nodes=[node("n1", gpu=2, labels={HOST: "n1"}), node("n2", gpu=1, labels={HOST: "n2"})],
        jobs=[app("g", 2, label="x", asks=near(term("x")), gpu=1)],
        expect={"g": placed(n1=2)},
    ),
    Scenario(
        "by zone they may be on several of its nodes",
        nodes=nodes(a1="a", b1="b", b2="b"),
        jobs=[app("g", 12, label="x", asks=near(term("x", ZONE)), gpu=1)],
        expect={"g": placed(b1=8, b2=4)},
    ),
    Scenario(
        "and where others of them are already they go there",
        nodes=nodes(a1="a", b1="b", b2="b"),
        pods=[other("o", "a1", "x")],
        jobs=[
            app("g", 2, label="x", asks=near(term("x", ZONE)), gpu=1),
            app("h", 12, label="x", asks=near(term("x", ZONE)), gpu=1, at=1),
        ],
        expect={"g": placed(a1=2), "h": waits("no-room-among-pods")},
    ),
    # ------------------------------------------------------------------ anti-affinity
    Scenario(
        "pods that keep apart from each other are on a node each",
        nodes=THREE,
        jobs=[app("g", 3, label="x", asks=apart(term("x")))],
        expect={"g": placed(a1=1, a2=1, b1=1)},
    ),
    Scenario(
        "and wait as a gang when there are too few nodes",
        nodes=THREE,
        jobs=[app("g", 4, label="x", asks=apart(term("x")))],
        expect={"g": waits("no-room-among-pods", "3 of 4")},
    ),
    Scenario(
        "by zone there is one in each",
        nodes=THREE,
        jobs=[app("g", 2, label="x", asks=apart(term("x", ZONE)))],
        expect={"g": placed(a1=1, b1=1)},
    ),
    Scenario(
        "a pod keeps away from pods of others that run",
        nodes=THREE,
        pods=[other("o", "a1", "noisy")],
        jobs=[app("g", asks=apart(term("noisy", ZONE)))],
        expect={"g": placed(b1=1)},
    ),
    Scenario(
        "and others keep it away, though it asks for nothing",
        nodes=THREE,
        pods=[other("o", "a1", "shy", **apart(term("noisy", ZONE)))],
        jobs=[app("g", label="noisy")],
        expect={"g": placed(b1=1)},
    ),
    Scenario(
        "pods of other namespaces are not meant, unless a term names them",
        nodes=nodes(a1="a"),
        pods=[other("o", "a1", "noisy", namespace="far")],
        jobs=[
            app("g", asks=apart(term("noisy"))),
            app("h", asks=apart(term("noisy", namespaces=["far"])), at=1),
            app("i", asks=apart(term("noisy", namespaceSelector={})), at=2),
        ],
        expect={"g": placed(a1=1), "h": waits("no-room-among-pods"), "i": waits("no-room-among-pods")},
    ),
    Scenario(
        "a node without the label is no domain: nothing is near there",
        nodes=[node("n", gpu=8)],
        pods=[other("o", "n", "noisy")],
        jobs=[app("g", asks=apart(term("noisy", ZONE)))],
        expect={"g": placed(n=1)},
    ),
    Scenario(
        "when the pod in the way goes, the gang that keeps away starts",
        nodes=nodes(a1="a"),
        jobs=[app("first", label="x"), app("g", label="x", asks=apart(term("x")), at=1)],
        then=[finishes("first")],
        expect={"g": placed(a1=1)},
    ),
    Scenario(
        "surplus members keep apart, too",
        nodes=THREE,
        jobs=[app("g", 1, replicas=5, label="x", asks=apart(term("x")))],
        expect={"g": placed(3)},
    ),
    # ------------------------------------------------------------------ affinity
    Scenario(
        "a pod goes where those are that it asks for",
        nodes=THREE,
        pods=[other("o", "b1", "data")],
        jobs=[app("g", 2, asks=near(term("data")))],
        expect={"g": placed(b1=2)},
    ),
    Scenario(
        "and waits as long as there are none",
        nodes=THREE,
        jobs=[app("g", asks=near(term("data")))],
        expect={"g": waits("no-room-among-pods")},
    ),
    Scenario(
        "until one comes",
        nodes=THREE,
        jobs=[app("g", asks=near(term("data", ZONE)))],
        then=[joins(other("o", "b1", "data"))],
        expect={"g": placed(b1=1)},
    ),
    Scenario(
        "the first of those that ask for each other may be anywhere, the others follow it",
        nodes=THREE,
        jobs=[app("g", 10, label="x", gpu=1, asks=near(term("x", ZONE)))],
        expect={"g": placed(a1=8, a2=2)},
    ),
    Scenario(
        "tasks of a gang that ask for another task come after it",
        nodes=THREE,
        jobs=[
            job(
                "g",
                task("a", 2, gpu=4, extras=near(term("ps"))),
                task("ps", 1, gpu=0, pod_labels={"app": "ps"}),
            )
        ],
        expect={"g": placed(3)},
    ),
    Scenario(
        "a whole gang waits when what follows finds no room beside what it asks for",
        nodes=THREE,
        jobs=[
            job(
                "g",
                task("a", 3, gpu=4, extras=near(term("ps"))),
                task("ps", 1, gpu=0, pod_labels={"app": "ps"}),
            )
        ],
        expect={"g": waits("no-room-among-pods")},
    ),
    # ------------------------------------------------------------------ wishes
    Scenario(
        "preferred affinity chooses among nodes that fit",
        nodes=THREE,
        pods=[other("o", "b1", "data")],
        jobs=[app("g", asks=likes("podAffinity", term("data")))],
        expect={"g": placed(b1=1)},
    ),
    Scenario(
        "preferred anti-affinity as well, and yields where there is no other",
        nodes=nodes(a1="a", b1="b"),
        pods=[other("o", "a1", "noisy")],
        jobs=[
            app("g", gpu=8, asks=likes("podAntiAffinity", term("noisy"))),
            app("h", gpu=8, asks=likes("podAntiAffinity", term("noisy")), at=1),
        ],
        expect={"g": placed(b1=1), "h": placed(a1=1)},
    ),
    # ------------------------------------------------------------------ spread
    Scenario(
        "a spread constraint keeps zones even",
        nodes=nodes(a1="a", a2="a", b1="b"),
        jobs=[app("g", 4, label="x", gpu=1, asks=spread("x"))],
        expect={"g": placed(a1=2, b1=2)},
    ),
    Scenario(
        "what one zone cannot take the others may not either",
        nodes=[*nodes(a1="a"), node("b1", gpu=1, labels={HOST: "b1", ZONE: "b"})],
        jobs=[app("g", 4, label="x", gpu=1, asks=spread("x"))],
        expect={"g": waits("no-room-among-pods", "3 of 4")},
    ),
    Scenario(
        "a larger skew allows more",
        nodes=[*nodes(a1="a"), node("b1", gpu=1, labels={HOST: "b1", ZONE: "b"})],
        jobs=[app("g", 4, label="x", gpu=1, asks=spread("x", skew=2))],
        expect={"g": placed(a1=3, b1=1)},
    ),
    Scenario(
        "zones that the pods cannot use do not count",
        nodes=[*nodes(a1="a"), node("b1", gpu=8, labels={HOST: "b1", ZONE: "b"}, taints=["x:NoSchedule"])],
        jobs=[app("g", 3, label="x", gpu=1, asks=spread("x", nodeTaintsPolicy="Honor"))],
        expect={"g": placed(a1=3)},
    ),
    Scenario(
        "with too few domains the smallest counts as empty",
        nodes=nodes(a1="a", b1="b"),
        jobs=[app("g", 3, label="x", gpu=1, asks=spread("x", minDomains=3))],
        expect={"g": waits("no-room-among-pods", "2 of 3")},
    ),
    Scenario(
        "spread that is only wished for chooses the emptiest zone, and yields",
        nodes=nodes(a1="a", b1="b"),
        pods=[other("o", "a1", "x"), other("p", "a1", "x")],
        jobs=[app("g", 10, label="x", gpu=1, asks=spread("x", unless="ScheduleAnyway"))],
        expect={"g": placed(10)},
    ),
    Scenario(
        "an empty selector of a spread constraint counts nobody but the pod itself",
        nodes=nodes(a1="a"),
        pods=[other("o", "a1", "x")],
        jobs=[app("g", 2, label="x", gpu=1, asks=spread("x", labelSelector={}, minDomains=2))],
        expect={"g": placed(a1=2)},
    ),
    # ------------------------------------------------------------------ ports
    Scenario(
        "a host port is once on a node",
        nodes=THREE,
        jobs=[
            app("g", 3, asks={"hostPorts": [["TCP", "0.0.0.0", 80]]}),
            app("h", asks={"hostPorts": [["TCP", "0.0.0.0", 80]]}, at=1),
        ],
        expect={"g": placed(a1=1, a2=1, b1=1), "h": waits("no-room", "host port TCP 80")},
    ),
    Scenario(
        "the same number of another protocol is another port",
        nodes=nodes(a1="a"),
        jobs=[
            app("g", asks={"hostPorts": [["TCP", "0.0.0.0", 80]]}),
            app("h", asks={"hostPorts": [["UDP", "0.0.0.0", 80]]}),
        ],
        expect={"g": placed(a1=1), "h": placed(a1=1)},
    ),
    Scenario(
        "on different addresses of a node a port is twice, on all addresses once",
        nodes=nodes(a1="a"),
        jobs=[
            app("g", asks={"hostPorts": [["TCP", "10.0.0.1", 80]]}),
            app("h", asks={"hostPorts": [["TCP", "10.0.0.2", 80]]}, at=1),
            app("i", asks={"hostPorts": [["TCP", "10.0.0.2", 80]]}, at=2),
            app("j", asks={"hostPorts": [["TCP", "0.0.0.0", 80]]}, at=3),
        ],
        then=[submits()],
        expect={"g": placed(a1=1), "h": placed(a1=1), "i": waits("no-room"), "j": waits("no-room")},
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_kin(scenario: Scenario) -> None:
    scenario.run()
