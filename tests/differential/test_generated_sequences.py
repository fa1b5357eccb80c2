"""Generated sequences: whatever is asked of a few kinds, in whatever order, both servers answer alike.

``PUMICE_DIFFERENTIAL_EXAMPLES=500`` plays so many random sequences; without it a few, always the same.
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.differential.comparing import Pair, Side, told
from tests.differential.differences import DIFFERENCES
from tests.differential.servers import Answer

JSON = dict[str, Any]

EXAMPLES: Final = int(os.environ.get("PUMICE_DIFFERENTIAL_EXAMPLES", "0"))
END: Final = "zz-end"
SECONDS: Final = 10.0
"""How long collection of garbage may take until both sides have the same objects."""

BODIES: Final[dict[str, JSON]] = {
    "pods": {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}},
    "configmaps": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}},
    "jobs": {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "spec": {
            "minAvailable": 1,
            "queue": "default",
            "tasks": [{"name": "t", "replicas": 1, "template": {}}],
        },
    },
    "podgroups": {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "spec": {"minMember": 1, "queue": "default"},
    },
    "queues": {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "spec": {"weight": 1}},
}
NAMESPACED: Final = tuple(resource for resource in BODIES if resource != "queues")
RESOURCES: Final = st.sampled_from(list(BODIES))
NAMES: Final = st.sampled_from(["a", "b", "c"])
LABELS: Final = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2)
FINALIZERS: Final = st.sampled_from([[], [], [], ["a.b/c"], ["a.b/c", "d.e/f"]])
SPECS: Final[dict[str, tuple[JSON, ...]]] = {
    "pods": ({"spec": {"activeDeadlineSeconds": 9}}, {"spec": {"hostname": "h"}}, {"spec": {"priority": 5}}),
    "configmaps": ({"data": {"k": "w"}}, {"data": {"k": None, "l": "m"}}, {"data": None}, {"data": {"k": 1}}),
    "jobs": ({"spec": {"minAvailable": 2}}, {"spec": {"minAvailable": "x"}}, {"spec": {"tasks": []}}),
    "podgroups": (
        {"spec": {"minMember": 3}},
        {"spec": {"minMember": None}},
        {"status": {"phase": "Running"}},
    ),
    "queues": ({"spec": {"weight": 4}}, {"spec": {"weight": -1}}, {"spec": {"capability": {"cpu": "2"}}}),
}
META: Final[tuple[JSON, ...]] = (
    {"metadata": {"labels": {"x": "2"}}},
    {"metadata": {"labels": {"x": None, "y": "1"}}},
    {"metadata": {"annotations": {"n": "o"}}},
    {"metadata": {"finalizers": None}},
    {"metadata": {"finalizers": ["a.b/c"]}},
    {"metadata": {"labels": {"x": "b c"}}},
    {"metadata": {"resourceVersion": "1"}},
    {"metadata": {"name": "other"}},
    {},
)
OPERATIONS: Final[tuple[list[JSON], ...]] = (
    [{"op": "add", "path": "/metadata/labels", "value": {"x": "1"}}],
    [{"op": "add", "path": "/metadata/labels/y", "value": "2"}],
    [{"op": "remove", "path": "/metadata/labels/x"}],
    [
        {"op": "test", "path": "/metadata/name", "value": "a"},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
    ],
    [{"op": "remove", "path": "/metadata/finalizers"}],
    [{"op": "replace", "path": "/kind", "value": "Other"}],
)
STATUSES: Final[dict[str, tuple[JSON, ...]]] = {
    "pods": (
        {"phase": "Running", "podIP": "10.0.0.1"},
        {"phase": "Succeeded"},
        {"conditions": [{"type": "Ready", "status": "True"}]},
    ),
    "jobs": ({"state": {"phase": "Running"}}, {"running": 2, "version": 1}, {"running": "many"}),
    "queues": ({"state": "Open"}, {"running": 1}),
}
DELETIONS: Final = st.fixed_dictionaries(
    {},
    optional={
        "propagationPolicy": st.sampled_from(["Background", "Foreground", "Orphan"]),
        "gracePeriodSeconds": st.sampled_from([0, 5]),
        "preconditions": st.sampled_from([{"uid": "other"}, {"resourceVersion": "1"}]),
    },
)
LISTS: Final = st.sampled_from(
    ["", "labelSelector=x", "labelSelector=x%3D1,!y", "fieldSelector=metadata.name%3Da", "limit=1", "limit=2"]
)
FORMS: Final = st.sampled_from([None, None, "table", "metadata list"])


class Requests(RuleBasedStateMachine):
    """Sends the same requests to both servers; ``pair`` is set by the test."""

    pair: Pair

    def __init__(self) -> None:
        super().__init__()
        self.sides = self.pair.sides()
        self.made: set[tuple[str, str]] = set()
        self.pages: set[str] = set()
        self.seen: set[str] = set()
        self.generated: set[str] = set()
        self.owned = False
        self.failed = False

    def play(self, step: JSON) -> None:
        note(f"{step}")
        differing = self.pair.play(self.sides, [step])
        self._check(differing)

    def _check(self, differing: list[str]) -> None:
        self.failed = bool(differing)
        assert not differing, "\n\n".join(differing)

    @initialize()
    def begin(self) -> None:
        self.play({"GET": "namespaces/$ns", "keep": {"start": "metadata.resourceVersion"}})

    @rule(resource=RESOURCES, name=NAMES, labels=LABELS, finalizers=FINALIZERS)
    def create(self, resource: str, name: str, labels: JSON, finalizers: list[str]) -> None:
        meta: JSON = {"name": _name(resource, name), "labels": labels, "finalizers": finalizers}
        self._create(resource, name, meta)

    @rule(resource=st.sampled_from(["configmaps", "pods"]), name=NAMES, owner=NAMES, blocks=st.booleans())
    def create_dependent(self, resource: str, name: str, owner: str, blocks: bool) -> None:
        if ("podgroups", owner) not in self.made:
            return
        group = {"apiVersion": BODIES["podgroups"]["apiVersion"], "kind": "PodGroup", "name": owner}
        reference = group | {"uid": f"$podgroups_{owner}_uid", "blockOwnerDeletion": blocks}
        self.owned = True
        self._create(resource, name, {"name": name, "ownerReferences": [reference]})
        self._settle()

    def _create(self, resource: str, name: str, meta: JSON) -> None:
        mark = f"{resource}_{name}"
        keep = {mark: ".", f"{mark}_old": ".", f"{mark}_uid": "metadata.uid"}
        self.play({"POST": resource, "body": BODIES[resource] | {"metadata": meta}, "keep": keep})
        self.made.add((resource, name))
        self.seen.add(resource)

    @rule(resource=RESOURCES, prefix=st.sampled_from(["gen-", "Bad_"]))
    def create_generated(self, resource: str, prefix: str) -> None:
        # Names of queues are shared by all namespaces; two generated names of a kind come in any order.
        if resource == "queues" or resource in self.generated:
            return
        self.play({"POST": resource, "body": BODIES[resource] | {"metadata": {"generateName": prefix}}})
        if prefix == "gen-":
            self.generated.add(resource)
            self.seen.add(resource)

    @precondition(lambda self: self.made)
    @rule(data=st.data(), old=st.booleans())
    def replace(self, data: st.DataObject, old: bool) -> None:
        resource, name = self._one(data)
        mark = f"{resource}_{name}"
        change = data.draw(st.sampled_from([*SPECS[resource], *META]))
        path = f"{resource}/{_name(resource, name)}"
        self.play({"PUT": path, "from": f"{mark}_old" if old else mark, "body": change, "keep": {mark: "."}})
        self._settle()

    @rule(
        data=st.data(), resource=RESOURCES, name=NAMES, kind=st.sampled_from(["merge", "strategic", "json"])
    )
    def patch(self, data: st.DataObject, resource: str, name: str, kind: str) -> None:
        changes = OPERATIONS if kind == "json" else (*SPECS[resource], *META)
        step: JSON = {
            "PATCH": f"{resource}/{_name(resource, name)}",
            kind: data.draw(st.sampled_from(changes)),
        }
        self.play(step | {"keep": {f"{resource}_{name}": "."}})
        self._settle()

    @rule(data=st.data(), name=NAMES, manager=st.sampled_from(["m1", "m2"]), force=st.booleans())
    def apply(self, data: st.DataObject, name: str, manager: str, force: bool) -> None:
        values = data.draw(
            st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["1", "2"]), min_size=1)
        )
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": values}
        forced = "&force=true" if force else ""
        mark = f"configmaps_{name}"
        keep = {mark: ".", f"{mark}_old": ".", f"{mark}_uid": "metadata.uid"}
        self.play({"PATCH": f"configmaps/{name}?fieldManager={manager}{forced}", "apply": body, "keep": keep})
        self.made.add(("configmaps", name))
        self.seen.add("configmaps")

    @rule(data=st.data(), resource=st.sampled_from(list(STATUSES)), name=NAMES)
    def status(self, data: st.DataObject, resource: str, name: str) -> None:
        body = {"status": data.draw(st.sampled_from(STATUSES[resource]))}
        path = f"{resource}/{_name(resource, name)}/status"
        self.play({"PATCH": path, "merge": body, "keep": {f"{resource}_{name}": "."}})

    @rule(name=NAMES, node=st.sampled_from(["n1", ""]))
    def bind(self, name: str, node: str) -> None:
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self.play({"POST": f"pods/{name}/binding", "body": body})

    @rule(name=NAMES)
    def evict(self, name: str) -> None:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        self.play({"POST": f"pods/{name}/eviction", "body": body})
        self._settle()

    @rule(resource=RESOURCES, name=NAMES, options=DELETIONS, dry=st.sampled_from(["", "", "?dryRun=All"]))
    def delete(self, resource: str, name: str, options: JSON, dry: str) -> None:
        self.play({"DELETE": f"{resource}/{_name(resource, name)}{dry}", "body": options})
        self._settle()

    @rule(
        resource=st.sampled_from(NAMESPACED),
        selector=st.sampled_from(["labelSelector=x%3D1", "fieldSelector=metadata.name%3Db"]),
    )
    def delete_collection(self, resource: str, selector: str) -> None:
        self.play({"DELETE": f"{resource}?{selector}"})
        self._settle()

    @rule(resource=RESOURCES, name=NAMES)
    def get(self, resource: str, name: str) -> None:
        self.play({"GET": f"{resource}/{_name(resource, name)}"})

    @rule(resource=st.sampled_from(NAMESPACED), query=LISTS, form=FORMS)
    def list(self, resource: str, query: str, form: str | None) -> None:
        step: JSON = {"GET": f"{resource}?{query}", "keep": {f"{resource}_more": "metadata.continue"}}
        self.play(step | ({"accept": form} if form else {}))
        more = self.sides[0].player.kept.get(f"{resource}_more")
        (self.pages.add if more else self.pages.discard)(resource)

    @precondition(lambda self: self.pages)
    @rule(data=st.data())
    def next_page(self, data: st.DataObject) -> None:
        resource = data.draw(st.sampled_from(sorted(self.pages)))
        self.play({"GET": f"{resource}?limit=2&continue=${resource}_more"})

    def teardown(self) -> None:
        if not self.failed:
            for resource in sorted(self.seen & set(NAMESPACED)):
                self._compare_watches(resource)
        for side in self.sides:
            side.player.server.send("DELETE", f"/api/v1/namespaces/{side.player.namespace}")

    def _one(self, data: st.DataObject) -> tuple[str, str]:
        return data.draw(st.sampled_from(sorted(self.made)))

    def _compare_watches(self, resource: str) -> None:
        """Compare every event since the beginning, up to one that is made for the purpose."""
        body = BODIES[resource] | {"metadata": {"name": END}}
        step: JSON = {"watch": f"{resource}?watch=true&resourceVersion=$start"}
        answers = []
        for side in self.sides:
            side.player.play({"POST": resource, "body": body})
            events = side.player.server.events(side.player.path(step["watch"]), END)
            if self.owned:  # the collector works on several objects at once
                events.sort(key=lambda event: event["object"]["metadata"]["name"])
            answers.append(side.comparable(Answer(200, events), step, DIFFERENCES))
        self._check([told(step, *answers)] if answers[0] != answers[1] else [])

    def _settle(self) -> None:
        """Wait until the collectors of both sides have come to the same objects."""
        if not self.owned:
            return
        deadline = time.monotonic() + SECONDS
        real, simulated = (_objects(side) for side in self.sides)
        while real != simulated and time.monotonic() < deadline:
            time.sleep(0.02)
            real, simulated = (_objects(side) for side in self.sides)
        self._check([f"after collection of garbage: {real} / {simulated}"] if real != simulated else [])


def _name(resource: str, name: str) -> str:
    return f"$ns-{name}" if resource == "queues" else name


def _objects(side: Side) -> list[tuple[Any, ...]]:
    found = []
    for resource in NAMESPACED:
        for item in side.player.server.request("GET", side.player.path(resource)).body["items"]:
            meta = item["metadata"]
            going = "deletionTimestamp" in meta
            found.append((resource, meta["name"], going, tuple(meta.get("finalizers", ()))))
    return [one for one in found if "gen-" not in one[1]]


@pytest.mark.timeout(3600 if EXAMPLES else 300)
def test_any_sequence_is_answered_alike(pair: Pair) -> None:
    machine = type("Machine", (Requests,), {"pair": pair})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES or 20,
            stateful_step_count=20,
            derandomize=not EXAMPLES,
            phases=[Phase.generate, *([Phase.shrink] if EXAMPLES else [])],  # shrinking takes minutes
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
