"""``pumice simulate`` at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from pumice.cli.app import app
from services.simulation.adapters import files
from shared.plugins import Floats, NodesView, Plugin, PodShape
from tests.unit.simulation.worlds import job, node, queue


def _simulate(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["simulate", *words], input=stdin)


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    path = tmp_path / "world.yaml"
    path.write_text(yaml.safe_dump_all([node("a"), job("j", run_for="1m")]))
    return str(path)


def test_json_has_exactly_the_documented_fields(manifests: str) -> None:
    result = _simulate(manifests, "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert list(found) == ["bindings", "evicted", "gangs", "queues", "events"]
    fields = ["phase", "reason", "queued_at", "estimated_start", "started_at", "finished_at"]
    assert list(found["gangs"]["default/j"]) == fields
    assert set(found["queues"]["default"]) == {"allocated", "deserved", "share"}
    assert all({"at", "event", "object"} <= set(event) for event in found["events"])


def test_a_table_says_what_became_of_each_gang(manifests: str) -> None:
    lines = _simulate(manifests).stdout.splitlines()
    assert lines[0].split() == ["GANG", "QUEUE", "PHASE", "QUEUED", "STARTED", "FINISHED", "WAITED", "REASON"]
    assert lines[1].split() == ["default/j", "default", "Completed", "0s", "0s", "60s", "0s", "-"]


def test_manifests_come_from_several_files_and_from_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.write_text(json.dumps(node("a")))
    result = _simulate(str(path), "-", "-o", "json", stdin=yaml.safe_dump(job("j")))
    assert json.loads(result.stdout)["bindings"] == {"default/j-w-0": "a"}


def test_events_are_told_when_asked_for(manifests: str) -> None:
    assert "Pod default/j-w-0" not in _simulate(manifests).stdout
    assert "Pod default/j-w-0" in _simulate(manifests, "--events").stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name a file"),
        (("missing.yaml",), "missing.yaml: No such file"),
        (("-", "--until", "x"), "--until 'x' is not a duration"),
        (("-", "--until", "-5s"), "--until -5s is before the beginning"),
        (("-", "--policy", "missing.conf"), "missing.conf: No such file"),
        (("-", "--trace", "x.csv"), "--trace excludes manifests"),
        (("-", "--report", "x"), "--report is for a trace"),
        (("-",), "standard input: document 1 (Node a): metadata.annotations[pumice.dev/at]"),
    ],
)
def test_wrong_use_is_a_line_and_2(words: tuple[str, ...], says: str) -> None:
    result = _simulate(*words, stdin=yaml.safe_dump(node("a", at="soon")))
    assert result.exit_code == 2
    assert says in result.stderr
    assert all(line.startswith("pumice simulate: ") for line in result.stderr.splitlines())


def test_what_is_wrong_is_left_out_and_the_rest_runs(tmp_path: Path) -> None:
    path = tmp_path / "world.yaml"
    wrong = [queue("q", spec={"parent": "nobody"}), job("lost", spec={"queue": "q"})]
    path.write_text(yaml.safe_dump_all([node("a"), *wrong, job("fine")]), encoding="utf-8")
    result = _simulate(str(path), "-o", "json")
    assert result.exit_code == 2
    gangs = json.loads(result.stdout)["gangs"]
    assert {name: one["phase"] for name, one in gangs.items()} == {"default/fine": "Running"}
    assert [line.partition(": spec.")[2] for line in result.stderr.splitlines()] == [
        'parent: there is no queue "nobody"',
        'queue: there is no queue "q": use one of "default"',
    ]


def test_a_file_that_is_no_text_is_a_line_and_2(tmp_path: Path) -> None:
    path = tmp_path / "world.yaml"
    path.write_bytes(b"a\xff")
    for words in ((str(path),), ("-", "--policy", str(path)), ("--trace", str(path))):
        result = _simulate(*words, stdin="")
        assert result.exit_code == 2
        assert result.stderr == f"pumice simulate: {path}: is no text in UTF-8: byte 1 is wrong\n"


def test_a_cluster_of_a_trace_has_at_most_a_million_gpus() -> None:
    assert _simulate("--trace", "-", "--gpus", "1000001", stdin="").exit_code == 2


def test_a_table_as_spreadsheets_write_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("\ufeffarrival_s,duration_s,gpus\r\n0,10,8\r\n", encoding="utf-8")
    result = _simulate("--trace", str(path), "--gpus", "8", "-o", "json")
    assert json.loads(result.stdout)["jobs"] == 1


class _Wrong(Plugin):
    def scores(self, shape: PodShape, nodes: NodesView) -> Floats:
        return np.ones(len(nodes) + 1)


def _asking_wrong_plugin(monkeypatch: pytest.MonkeyPatch, where: Path, on_error: str) -> str:
    monkeypatch.setattr(files, "installed", lambda: {"wrong": lambda _: _Wrong()})
    path = where / "policy.conf"
    path.write_text(
        f"actions: allocate\ntiers: [{{plugins: [{{name: gang}}, {{name: wrong, onError: {on_error}}}]}}]"
    )
    return str(path)


def test_a_wrong_answer_of_a_plugin_is_told_and_skipped(
    manifests: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = _asking_wrong_plugin(monkeypatch, tmp_path, "skip")
    result = _simulate(manifests, "--policy", chosen)
    assert result.exit_code == 0
    assert "plugin wrong: scores: answered with shape (2,), asked about 1 (skipped" in result.stderr
    assert "Completed" in result.stdout


def test_a_wrong_answer_that_is_not_to_be_skipped_is_a_line_and_2(
    manifests: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = _asking_wrong_plugin(monkeypatch, tmp_path, "fatal")
    result = _simulate(manifests, "--policy", chosen)
    assert result.exit_code == 2
    assert result.stderr == (
        "pumice simulate: plugin wrong: scores: answered with shape (2,), asked about 1\n"
    )


def test_a_policy_that_is_wrong_is_told_with_its_place(manifests: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.conf"
    path.write_text('actions: "allocate, dance"\n')
    result = _simulate(manifests, "--policy", str(path))
    assert result.exit_code == 2
    assert "dance" in result.stderr
