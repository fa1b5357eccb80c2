"""The rules for queues and their hierarchy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.admission.core.queues import QueueLimits, validate_queue, validate_queue_deletion
from services.admission.core.view import FixedView, QueueInfo
from shared.api.scheduling import Queue

GI = 2**30
VIEW = FixedView(
    (
        QueueInfo("root"),
        QueueInfo("default", allocated_pods=2),
        QueueInfo("empty"),
        QueueInfo("busy", allocated_pods=3),
        QueueInfo(
            "dept",
            capability={"cpu": 10_000, "memory": 64 * GI},
            deserved={"cpu": 8000},
            guarantee={"cpu": 4000},
        ),
        QueueInfo(
            "team-a", parent="dept", capability={"cpu": 6000}, deserved={"cpu": 4000}, guarantee={"cpu": 2000}
        ),
        QueueInfo("a1", parent="team-a", capability={"memory": 16 * GI}),
        QueueInfo("l1"),
        QueueInfo("l2", parent="l1"),
        QueueInfo("l3", parent="l2"),
        QueueInfo("l4", parent="l3"),
        QueueInfo("l5", parent="l4"),
        QueueInfo("sci", hierarchy="root/sci/dev"),
    )
)


def queue(
    name: str = "q", state: str | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> Queue:
    obj: dict[str, Any] = {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec}
    if state:
        obj["status"] = {"state": state}
    return Queue.model_validate(obj)


def found(new: Queue, old: Queue | None = None, **limits: Any) -> list[tuple[str, str]]:
    return [(v.code, v.path) for v in validate_queue(new, VIEW, QueueLimits(**limits), old)]


def hierarchy(path: str, weights: str) -> dict[str, str]:
    return {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}


WEIGHTS = "metadata.annotations[volcano.sh/hierarchy-weights]"
PATH = "metadata.annotations[volcano.sh/hierarchy]"

CASES: list[tuple[Queue, list[tuple[str, str]]]] = [
    (queue(), []),
    (queue(capability={"cpu": "much"}), [("invalid-quantity", "spec.capability[cpu]")]),
    (queue(deserved={"cpu": "-1"}), [("invalid", "spec.deserved[cpu]")]),
    (queue(capability={"nvidia.com/gpu": "1.5"}), [("invalid", "spec.capability[nvidia.com/gpu]")]),
    (queue(guarantee={"resource": {"cpu": "1"}}), [("deserved-below-guarantee", "spec.deserved[cpu]")]),
    (queue(guarantee={"resource": {"cpu": "2"}}, deserved={"cpu": "1500m"}),
     [("deserved-below-guarantee", "spec.deserved[cpu]")]),
    (queue(deserved={"cpu": "2"}, capability={"cpu": "1"}), [("deserved-above-capability", "spec.deserved[cpu]")]),
    (queue(deserved={"cpu": "2"}, capability={"memory": "1Gi"}), []),
    (queue(guarantee={"resource": {"cpu": "1"}}, deserved={"cpu": "1"}, capability={"cpu": "1000m"}), []),
    (queue(state="Closing"), [("unsupported-queue-state", "status.state")]),
    (queue(state="Unknown"), [("unsupported-queue-state", "status.state")]),
    (queue(state="Closed"), []),
    (queue(annotations=hierarchy("root/a/b", "1/2")), [("hierarchy-length-mismatch", WEIGHTS)]),
    (queue(annotations=hierarchy("root/a", "1/x")), [("invalid-hierarchy-weight", WEIGHTS)]),
    (queue(annotations=hierarchy("root/a", "1/0")), [("invalid-hierarchy-weight", WEIGHTS)]),
    (queue(annotations=hierarchy("root/a", "1/nan")), [("invalid-hierarchy-weight", WEIGHTS)]),
    (queue(annotations=hierarchy("root/sci", "1/2")), [("hierarchy-conflict", PATH)]),
    (queue(annotations=hierarchy("root/scidev", "1/2.5")), []),
    (queue("sci", annotations=hierarchy("root/sci", "1/2")), []),
    (queue(parent="q"), [("queue-is-own-parent", "spec.parent")]),
    (queue(parent="dpt"), [("parent-not-found", "spec.parent")]),
    (queue(parent="busy"), [("parent-has-pods", "spec.parent")]),
    (queue(parent="empty"), []),
    (queue(parent="root"), []),
    (queue(parent="l4"), []),
    (queue(parent="l5"), [("queue-too-deep", "spec.parent")]),
    (queue("l1", parent="l3"), [("cyclic-queues", "spec.parent")]),
    (queue(parent="dept", capability={"cpu": "11"}), [("capability-above-ancestor", "spec.capability[cpu]")]),
    (queue(parent="a1", capability={"memory": "17Gi"}), [("capability-above-ancestor", "spec.capability[memory]")]),
    (queue(parent="a1", capability={"cpu": "7"}), [("capability-above-ancestor", "spec.capability[cpu]")]),
    (queue(parent="a1", capability={"cpu": "6", "memory": "16Gi"}), []),
    (queue(parent="dept", deserved={"cpu": "4"}, guarantee={"resource": {"cpu": "2"}}), []),
    (queue(parent="dept", deserved={"cpu": "4001m"}), [("deserved-above-parent", "spec.deserved[cpu]")]),
    (queue(parent="dept", deserved={"cpu": "3"}, guarantee={"resource": {"cpu": "2500m"}}),
     [("guarantee-above-parent", "spec.guarantee.resource[cpu]")]),
    (queue(parent="empty", deserved={"cpu": "1"}), [("deserved-above-parent", "spec.deserved[cpu]")]),
    (queue("dept", capability={"cpu": "5"}, deserved={"cpu": "4"}, guarantee={"resource": {"cpu": "2"}}),
     [("capability-below-descendant", "spec.capability[cpu]")]),
    (queue("dept", capability={"memory": "8Gi"}, deserved={"cpu": "4"}, guarantee={"resource": {"cpu": "2"}}),
     [("capability-below-descendant", "spec.capability[memory]")]),
    (queue("dept", deserved={"cpu": "3"}, guarantee={"resource": {"cpu": "2"}}),
     [("deserved-above-parent", "spec.deserved[cpu]")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("new", "expected"), CASES, ids=[f"{i} {case[1][:1]}" for i, case in enumerate(CASES)]
)
def test_a_new_queue_is_judged(new, expected):
    assert found(new) == expected


def test_every_mistake_is_reported_at_once():
    new = queue(
        state="Closing", annotations=hierarchy("root/a", "0/x"), parent="nowhere", deserved={"cpu": "x"}
    )
    assert found(new) == [
        ("invalid-quantity", "spec.deserved[cpu]"),
        ("unsupported-queue-state", "status.state"),
        ("invalid-hierarchy-weight", WEIGHTS),
        ("invalid-hierarchy-weight", WEIGHTS),
        ("parent-not-found", "spec.parent"),
    ]


def test_the_depth_is_a_setting():
    assert found(queue(parent="l2"), max_depth=2) == [("queue-too-deep", "spec.parent")]
    assert found(queue(parent="l5"), max_depth=6) == []


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (queue("a1", parent="team-a", weight=5), queue("a1", parent="team-a"), []),
        (queue("a1", parent="gone"), queue("a1", parent="team-a"), [("parent-not-found", "spec.parent")]),
        (queue("a1", parent="gone"), queue("a1", parent="gone"), []),
        (queue("team-a", parent="dept", capability={"cpu": "11"}), queue("team-a", parent="dept", capability={"cpu": "6"}),
         [("capability-above-ancestor", "spec.capability[cpu]")]),
        (queue("team-a", parent="dept", capability={"cpu": "11"}), queue("team-a", parent="dept", capability={"cpu": "11000m"}), []),
        (queue("root", capability={"cpu": "1"}), queue("root"), [("root-queue-protected", "spec.capability[cpu]")]),
        (queue("root", weight=3), queue("root"), []),
    ],
)  # fmt: skip
def test_a_changed_queue_is_judged_where_it_changed(new, old, expected):
    assert found(new, old) == expected


def test_the_root_may_be_left_unprotected():
    assert found(queue("root", capability={"cpu": "1"}), queue("root"), protect_root=False) == []


@pytest.mark.parametrize(
    ("name", "limits", "expected"),
    [
        ("empty", QueueLimits(), []),
        ("busy", QueueLimits(), []),
        ("nowhere", QueueLimits(), []),
        ("default", QueueLimits(), ["queue-protected"]),
        ("root", QueueLimits(), ["queue-protected"]),
        ("dept", QueueLimits(), ["queue-has-children"]),
        ("busy", QueueLimits(check_allocated_pods=True), ["queue-has-pods"]),
        ("default", QueueLimits(check_allocated_pods=True), ["queue-protected", "queue-has-pods"]),
    ],
)
def test_some_queues_cannot_be_deleted(name, limits, expected):
    assert [violation.code for violation in validate_queue_deletion(name, VIEW, limits)] == expected


texts = st.sampled_from(["", "root", "dept", "team-a", "a1", "q", "nowhere"])
amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "x"]), st.sampled_from(["1", "-1", "x", "1Gi", 3, 0.5])
)


@given(
    name=texts,
    parent=texts,
    capability=amounts,
    deserved=amounts,
    guarantee=amounts,
    links=st.lists(st.tuples(texts, texts), max_size=6, unique_by=lambda link: link[0]),
)
def test_any_queue_in_any_hierarchy_circles_included_is_judged(
    name, parent, capability, deserved, guarantee, links
):
    view = FixedView(tuple(QueueInfo(child, above, capability={"cpu": 0}) for child, above in links))
    new = queue(
        name, parent=parent, capability=capability, deserved=deserved, guarantee={"resource": guarantee}
    )
    for old in (None, queue(name)):
        assert isinstance(validate_queue(new, view, QueueLimits(), old), list)
