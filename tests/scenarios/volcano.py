"""Volcano's cases: small worlds of Kubernetes objects, and what its scheduler decided in one session.

The objects go through the controller's own reading of them to the real core, which decides until nothing
is left to be decided at once. ``data/volcano/README.md`` says where they come from.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from services.controller.core.claiming import Claims, completed
from services.controller.core.deviceclaims import NOTHING, Held, claimed, kinds_of
from services.controller.core.facts import (
    hypernode_state,
    node_state,
    pod_state,
    podgroup_state,
    priority_class_state,
    queue_state,
)
from services.controller.core.kin import asked_keys, chosen
from services.controller.core.members import MemberPod
from services.controller.core.model import Priorities
from services.controller.core.plaingangs import plain_gang, read_plain_group
from services.controller.core.podclaims import claims_in
from services.controller.core.podview import read_pod
from services.controller.core.shapes import shape_of
from services.scheduler.core.configuration import Code, configure
from services.scheduler.core.configuration.reader import PLUGINS
from services.scheduler.core.cycle import decide
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Policy
from shared.api.pods import PodSpec
from shared.events import contracts as c
from tests.scenarios.world import START

JSON = dict[str, Any]
_TOLD = (Code.ALWAYS, Code.REFUSED, Code.UNKNOWN, Code.CONFLICT)
"""Problems that these files may have: they switch off what we always do, and name what we have not."""
CASES = Path(__file__).parent / "data" / "volcano"
GROUP = "scheduling.k8s.io/group-name"


@dataclass
class Case:
    """One case."""

    id: str
    policy: Policy
    actions: tuple[str, ...]
    objects: list[JSON]
    expect: JSON

    def of(self, kind: str) -> list[JSON]:
        return [one for one in self.objects if one["kind"] == kind]


@dataclass
class Outcome:
    """What our core decided, in Volcano's words."""

    binds: dict[str, str] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    pipelined: dict[str, list[str]] = field(default_factory=dict)


def load() -> list[Case]:
    """Read all cases, in order of their names."""
    return [_case(json.loads(path.read_text(encoding="utf-8"))) for path in sorted(CASES.glob("*.json"))]


def _case(raw: JSON) -> Case:
    actions = tuple(name.strip() for name in raw["policy"]["actions"].split(","))
    return Case(
        raw["id"],
        _policy(raw["policy"]),
        actions,
        [_completed(one) for one in _renamed(raw["objects"])],
        raw["expect"],
    )


def _renamed(objects: list[JSON]) -> list[JSON]:
    """Tell hypernodes of one name apart: Volcano's tests know them by a key that begins their nodes' names."""
    groups = [one for one in objects if one["kind"] == "HyperNode"]
    counts = Counter(one["metadata"]["name"] for one in groups)
    for one in groups:
        first = one["spec"]["members"][0]
        if counts[one["metadata"]["name"]] > 1 and first["type"] == "Node":
            one["metadata"]["name"] = first["selector"]["exactMatch"]["name"].partition("-")[0]
    return objects


def _policy(raw: JSON) -> Policy:
    """Read a case's configuration. In these files a switch that is not named is off, unlike in others."""
    tiers = [{"plugins": [_switched(one) for one in tier["plugins"]]} for tier in raw["tiers"]]
    found = configure(yaml.safe_dump({**raw, "tiers": tiers}), Policy())
    wrong = [one for one in found.problems if one.code not in _TOLD]
    assert not wrong, wrong
    return found.policy


def _switched(plugin: JSON) -> JSON:
    known = PLUGINS.get(plugin["name"])
    return {**dict.fromkeys(known.votes if known else (), False), **plugin}


def _completed(raw: JSON) -> JSON:
    """Add what an API server or a kubelet would: the cases leave it out."""
    meta = {"creationTimestamp": START.isoformat(), "uid": raw["metadata"]["name"], **raw["metadata"]}
    status = dict(raw.get("status") or {})
    if raw["kind"] == "Node":
        status.setdefault("conditions", [{"type": "Ready", "status": "True"}])
    return {**raw, "metadata": meta, "status": status}


def run(case: Case) -> Outcome:
    """Tell a new model of everything, and let it decide."""
    model, outcome = Model(policy=case.policy), Outcome()
    _tell(model, case, outcome)
    unfinished = True
    while unfinished:
        decided = decide(model, START)
        unfinished = decided.unfinished
        for one in decided.decisions:
            outcome.binds |= {f"{one.namespace}/{pod}": node for pod, _, node, _ in one.rows}
            outcome.evicted += [f"{victim.namespace}/{victim.pod}" for victim in one.evictions]
            if one.reservations:
                name = f"{one.namespace}/{one.name}"
                outcome.pipelined[name] = sorted({kept.node for kept in one.reservations})
            if one.enqueue:
                outcome.phases[f"{one.namespace}/{one.name}"] = "Inqueue"
    return outcome


def _tell(model: Model, case: Case, outcome: Outcome) -> None:
    priorities = Priorities({one["metadata"]["name"]: one["value"] for one in case.of("PriorityClass")})

    claims = _Claims(case)
    specs = [PodSpec.model_validate(raw["spec"]) for raw in case.of("Pod")]
    keys = frozenset(key for spec in specs for key in asked_keys(shape_of(spec, {}, priorities).extras))

    def shape(pod: JSON) -> c.Shape:
        meta = pod["metadata"]
        annotations = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
        told = shape_of(PodSpec.model_validate(pod["spec"]), annotations, priorities)
        labels = chosen(meta.get("labels") or {}, keys)
        asked = claims_in(told.extras)
        devices = claimed(meta["namespace"], asked, claims, Held(claims), pod) if asked else NOTHING
        return completed(told, labels, Claims(devices=devices))

    for raw in case.of("Node"):
        model.apply_node(node_state(raw, claimable=claims.everywhere))
    for raw in case.of("Queue"):
        model.apply_queue(queue_state(raw))
    for raw in case.of("PriorityClass"):
        model.apply_priority_class(priority_class_state(raw))
    for raw in case.of("HyperNode"):
        model.apply_hypernode(hypernode_state(raw))
    groups = {_key(raw): read_plain_group(raw) for raw in case.of("PodGroup")}
    members: dict[tuple[str, str], list[MemberPod]] = {key: [] for key in groups}
    for raw in case.of("Pod"):
        meta = raw["metadata"]
        key = (meta["namespace"], (meta.get("annotations") or {}).get(GROUP, ""))
        group = groups.get(key)
        if group is not None:
            members[key].append(MemberPod(read_pod(raw), raw))
        ours = frozenset({raw["spec"].get("schedulerName")})
        model.apply_pod(pod_state(raw, shape(raw), ours, (key[1], group.queue) if group else None))
    for raw in case.of("PodGroup"):
        key = _key(raw)
        gang = plain_gang(groups[key], members[key], priorities, shape)
        state = podgroup_state(raw, gang, {})
        outcome.phases["/".join(key)] = state.phase
        model.apply_podgroup(state)


class _Claims:
    """The claims of a case. Of devices and their classes it says nothing: Volcano's plugin only counts claims."""

    def __init__(self, case: Case) -> None:
        self._claims = {_key(raw): raw for raw in case.of("ResourceClaim")}
        asked = {kind for raw in self._claims.values() for kind in kinds_of(raw["spec"])}
        self.everywhere = {kind.resource: 1000 for kind in asked}

    def device_class(self, name: str) -> JSON | None:
        return {"metadata": {"name": name}}

    def device_claim(self, namespace: str, name: str) -> JSON | None:
        return self._claims.get((namespace, name))

    def claim_template(self, namespace: str, name: str) -> JSON | None:
        return None

    def avoided(self, namespace: str, name: str) -> tuple[str, ...]:
        return ()


def _key(raw: JSON) -> tuple[str, str]:
    return raw["metadata"]["namespace"], raw["metadata"]["name"]


def check(case: Case, outcome: Outcome) -> None:
    """Compare with what Volcano did. A policy that does not allocate only lets gangs in."""
    expect = case.expect
    if {"allocate", "backfill"} & set(case.actions):
        if expect["binds"] is None:
            assert len(outcome.binds) == expect["binds_count"], outcome.binds
        else:
            assert outcome.binds == expect["binds"]
    assert sorted(outcome.evicted) == sorted(expect["evicted"])
    if {"allocate", "backfill"} & set(case.actions):
        pipelined = {name: sorted(set(nodes)) for name, nodes in expect["pipelined"].items()}
        assert outcome.pipelined == pipelined
    for name, phase in expect["podgroup_phase"].items():
        assert outcome.phases[name] == phase, name
