"""Labels and taints compared as Kubernetes compares them."""

from __future__ import annotations

import pytest

from shared.api.matching import requirement


@pytest.mark.parametrize(
    ("operator", "values", "held", "matches"),
    [
        ("In", ("a", "b"), "b", True),
        ("In", ("a",), None, False),
        ("NotIn", ("a",), "a", False),
        ("NotIn", ("a",), None, True),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "a", False),
        ("Gt", ("3",), "4", True),
        ("Gt", ("3",), "٤", False),
        ("Lt", ("3",), "-4", True),
        ("Lt", ("3", "4"), "1", False),
        ("Like", ("a",), "a", False),
    ],
)
def test_an_expression_of_a_selector_is_compared_as_kubernetes_does(operator, values, held, matches):
    assert requirement(operator, values)(held) is matches
