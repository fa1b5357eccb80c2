"""Selectors: what they select and what they refuse."""

from __future__ import annotations

import pytest

from simulator.core.errors import StatusError
from simulator.core.selectors import from_object, parse_fields, parse_labels


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a!=b", {}, True),
        ("a in (b, c),d", {"a": "c", "d": ""}, True),
        ("a notin (b)", {"a": "b"}, False),
        ("!a", {"a": ""}, False),
        ("!a,b", {"b": "1"}, True),
        ("volcano.sh/job-name=x", {"volcano.sh/job-name": "x"}, True),
        ("a>3", {"a": "4"}, True),
        ("a<3", {"a": "x"}, False),
        ("a=", {"a": ""}, True),
    ],
)
def test_label_selectors(text: str, labels: dict[str, str], selected: bool):
    assert parse_labels(text).holds(labels) is selected


@pytest.mark.parametrize("text", ["a in", "-a", "a=-b", "a in (b", "(a)"])
def test_unreadable_label_selectors_are_a_bad_request(text: str):
    with pytest.raises(StatusError) as refused:
        parse_labels(text)
    assert refused.value.code == 400


def test_a_selector_object_joins_labels_and_expressions():
    selector = from_object(
        {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]}
    )
    assert selector.holds({"a": "b"})
    assert not selector.holds({"a": "b", "c": ""})
    assert from_object(None).holds({})


def test_field_selectors_read_missing_fields_as_their_zero():
    pod = {"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Running"}}
    assert parse_fields("spec.nodeName=", "pods").holds(pod)
    assert parse_fields("spec.nodeName!=,status.phase=Running", "pods").holds(pod) is False
    node = {"metadata": {"name": "n"}, "spec": {"unschedulable": True}}
    assert parse_fields("spec.unschedulable=true", "nodes").holds(node)


def test_an_unknown_field_is_a_bad_request():
    with pytest.raises(StatusError, match=r"field label not supported: spec\.color"):
        parse_fields("spec.color=red", "pods")
