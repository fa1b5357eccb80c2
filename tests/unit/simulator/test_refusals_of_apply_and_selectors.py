"""What server-side apply and label selectors refuse, and how a pod's end is seen."""

from __future__ import annotations

import json

import pytest
from simulated_world import CRDS, WIDGETS, Cluster, pod, refusal

from simulator.core.label_syntax import Term, terms

APPLY = "application/apply-patch+yaml"


def _apply(cluster: Cluster, resource: str, body: dict) -> dict:
    name = body["metadata"]["name"]
    return refusal(cluster.patch, resource, name, APPLY, json.dumps(body).encode(), fieldManager="m")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"foo": 1}, ".spec.foo: field not declared in schema"),
        ({"containers": "x"}, ".spec.containers: expected list, got &{x}"),
        (
            {"containers": [{"image": "i"}]},
            'element 0: associative list with keys has an element that omits key field "name"',
        ),
        ({"containers": [{"name": "c"}, {"name": "c"}]}, 'duplicate entries for key [name="c"]'),
        ({"containers": [{"name": "c", "image": 1}]}, '.spec.containers[name="c"].image: expected string'),
    ],
)
def test_apply_refuses_what_a_built_in_kind_does_not_declare(spec: dict, words: str):
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    status = _apply(Cluster(), "pods", body)
    assert status["code"] == 500
    assert words in status["message"]


def test_apply_refuses_what_a_custom_kind_does_not_declare():
    cluster = Cluster()
    cluster.create(CRDS, WIDGETS, namespace="")
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": {"size": "x"},
    }
    status = _apply(cluster, "widgets.example.com", body | {"more": 1})
    assert status["message"].splitlines()[1:] == [
        "  .spec.size: expected numeric (int or float), got string",
        "  .more: field not declared in schema",
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a", [Term("a", "exists")]),
        ("!a, b=c", [Term("a", "absent"), Term("b", "in", ("c",))]),
        ("a in (c,b,),d!=", [Term("a", "in", ("", "b", "c")), Term("d", "notin", ("",))]),
        ("a in ()", [Term("a", "in", ("",))]),
        ("a>1", [Term("a", "gt", ("1",))]),
        ("", []),
    ],
)
def test_label_selectors_are_read(text: str, found: list[Term]):
    assert list(terms(text)) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a,", "found '', expected: identifier after ','"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
    ],
)
def test_label_selectors_that_cannot_be_read_say_what_was_expected(text: str, words: str):
    assert refusal(lambda: list(terms(text)))["message"] == words


def test_watchers_see_the_last_version_of_a_pod_before_it_goes():
    cluster = Cluster()
    cluster.create("pods", pod("a"))
    start = cluster.world.store.rv
    cluster.delete("pods", "a")
    seen = cluster.world.store.collection("pods").events_after(start)
    assert [event.type for event in seen] == ["MODIFIED", "DELETED"]
    assert all(event.entry.obj["metadata"]["deletionGracePeriodSeconds"] == 0 for event in seen)
