"""Custom resources: defaults, pruning, validation, status, rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_world import CRDS, WIDGETS, Cluster, refusal

from simulator.core import custom, rules, structural

WIDGET = "widgets.example.com"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.create(CRDS, WIDGETS)
    return made


def _widget(name: str, **spec: object) -> dict:
    return {"metadata": {"name": name}, "spec": spec}


def test_defaults_are_filled_and_unknown_fields_pruned(cluster: Cluster):
    made = cluster.create(WIDGET, _widget("w", size=2, unknown=1, free={"any": {"thing": 1}}))
    assert made["spec"] == {"size": 2, "color": "red", "free": {"any": {"thing": 1}}}
    assert cluster.warnings == ['unknown field "spec.unknown"']


def test_violations_have_the_servers_words(cluster: Cluster):
    causes = refusal(cluster.create, WIDGET, _widget("w", size=30, color="green"))["details"]["causes"]
    assert [c["message"] for c in causes][:2] == [
        "Invalid value: 30: spec.size in body should be less than or equal to 10",
        'Unsupported value: "green": supported values: "red", "blue"',
    ]
    assert (
        refusal(cluster.create, WIDGET, _widget("w"))["details"]["causes"][0]["message"] == "Required value"
    )
    wrong = refusal(cluster.create, WIDGET, _widget("w", size="x"))["details"]["causes"][0]
    assert wrong["reason"] == "FieldValueTypeInvalid"


def test_a_status_is_written_through_its_subresource_alone(cluster: Cluster):
    made = cluster.create(WIDGET, _widget("w", size=2) | {"status": {"phase": "Open"}})
    assert "status" not in made
    changed = cluster.update(WIDGET, made | {"status": {"phase": "Open"}, "spec": {"size": 9}}, "status")
    assert (changed["status"], changed["spec"]["size"], changed["metadata"]["generation"]) == (
        {"phase": "Open"},
        2,
        1,
    )
    again = cluster.update(WIDGET, changed | {"spec": {"size": 3}, "status": {}})
    assert (again["status"], again["metadata"]["generation"]) == ({"phase": "Open"}, 2)


def test_an_update_must_name_the_version_it_changes(cluster: Cluster):
    made = cluster.create(WIDGET, _widget("w", size=2))
    bare = made | {"metadata": {"name": "w", "namespace": "default"}}
    assert "must be specified for an update" in refusal(cluster.update, WIDGET, bare)["message"]


def test_a_transition_rule_holds_for_updates(cluster: Cluster):
    made = cluster.create(WIDGET, _widget("w", size=2, imm="a"))
    changed = made | {"spec": made["spec"] | {"imm": "b"}}
    assert (
        refusal(cluster.update, WIDGET, changed)["details"]["causes"][0]["message"]
        == 'Invalid value: "b": imm is immutable'
    )


@pytest.mark.parametrize(
    ("rule", "value", "holds"),
    [
        ("self.a <= self.b", {"a": 1, "b": 2}, True),
        ("!has(self.a) || self.b > 1", {"a": 1, "b": 1}, False),
        ("size(self.l) == 2 && self.s != 'x'", {"l": [1, 2], "s": "y"}, True),
        ("(self.a == 1 || self.a == 2) && !(self.a == 2)", {"a": 2}, False),
    ],
)
def test_simple_rules_are_evaluated(rule: str, value: dict, holds: bool):
    causes: list = []
    rules.check({"x-kubernetes-validations": [{"rule": rule}]}, value, None, "spec", causes)
    assert (not causes) is holds


@pytest.mark.parametrize(
    "rule", ["self.all(x, x > 1)", "self.matches('a')", "self.a.exists(b, b)", "a ? b : c"]
)
def test_rules_beyond_the_subset_are_known_to_be_skipped(rule: str):
    assert not rules.supported(rule)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=10,
)
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "object", "properties": {"b": {"type": "integer", "default": 7}}},
        "c": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "string"}}}},
    },
}


@given(st.dictionaries(st.sampled_from("abcd"), JSON_VALUES))
def test_pruning_is_idempotent_and_leaves_its_input(value: dict):
    before = repr(value)
    once = structural.prune(SCHEMA, value, "", [])
    unknown: list[str] = []
    assert structural.prune(SCHEMA, once, "", unknown) == once
    assert unknown == []
    assert repr(value) == before


def _checked(spec: dict, new: object, old: object) -> list[str]:
    """Return which paths are refused when ``spec`` goes from ``old`` to ``new`` under a schema for it."""
    version = WIDGETS["spec"]["versions"][0]
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    served = version | {"schema": {"openAPIV3Schema": schema}}
    crd = WIDGETS | {"spec": WIDGETS["spec"] | {"versions": [served]}}
    kind = custom.kinds(crd, dict)[0]
    return [cause.field for cause in kind.validate_schema({"spec": new, "status": {}}, {"spec": old})]


def test_what_a_change_leaves_as_it_was_is_not_refused():
    at_most_5 = {"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}}}
    assert _checked(at_most_5, {"size": 9}, {"size": 9}) == []
    assert _checked(at_most_5, {"size": 8}, {"size": 9}) == ["spec.size"]


def test_a_rule_about_a_transition_may_refuse_that_nothing_changes():
    grows = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > oldSelf"}]}
    assert _checked(grows, 2, 2) == ["spec"]
    assert _checked(grows, 3, 2) == []
