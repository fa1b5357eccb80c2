"""What a job may reach beyond its pods."""

from __future__ import annotations

import pytest

from services.admission.core.defaults import Defaults
from services.admission.core.judging import judge_new_job
from tests.unit.admission.worlds import VIEW, spoiled, violations

EXPOSE = "metadata.annotations[pumice.dev/expose]"
HOST = "spec.tasks[0].template.spec.volumes[0].hostPath.path"


def exposing(text):
    return spoiled(("metadata/annotations", {"pumice.dev/expose": text}))


def mounting(path):
    return spoiled(("spec/tasks/0/template/spec/volumes", [{"name": "host", "hostPath": {"path": path}}]))


@pytest.mark.parametrize("text", ["", "jupyter:8888", "jupyter:8888, 6006"])
def test_ports_in_the_right_form_are_admitted(text):
    assert violations(exposing(text)) == []


@pytest.mark.parametrize("text", ["jupyter", "a:1,a:2", "a:1@nobody", "a:1@worker/100"])
def test_ports_in_a_wrong_form_or_of_pods_that_are_not_there_are_refused(text):
    assert violations(exposing(text)) == [("invalid-expose", EXPOSE)]


def test_a_change_of_the_annotation_is_judged_too():
    assert violations(exposing("what?"), exposing("jupyter:8888")) == [("invalid-expose", EXPOSE)]
    assert violations(exposing("jupyter:8888"), exposing("what?")) == []


@pytest.mark.parametrize(
    ("path", "allowed", "admitted"),
    [
        ("/data", (), False),
        ("/data", ("/data",), True),
        ("/data/a/b", ("/data/",), True),
        ("/data", ("/",), True),
        ("/database", ("/data",), False),
        ("//data", ("/data",), True),
        ("/etc", ("/data", "/scratch"), False),
    ],
)
def test_paths_of_nodes_are_mounted_only_where_the_administrator_allows_it(path, allowed, admitted):
    found = judge_new_job(mounting(path), VIEW, Defaults(host_paths=allowed)).violations
    expected = [] if admitted else [("host-path-not-allowed", HOST)]
    assert [(one.code, one.path) for one in found] == expected


def test_the_way_out_of_an_allowed_path_is_closed():
    found = judge_new_job(mounting("/data/../etc"), VIEW, Defaults(host_paths=("/data",))).violations
    assert {one.path for one in found} == {HOST}
