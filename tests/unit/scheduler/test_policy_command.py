"""``pumice policy check`` says what a configuration means, and everything that is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.scheduler.command import policy
from tests.unit.scheduler.volcano_files import BUILT_IN, HELM


def run(file: Path, *flags: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(policy, ["check", str(file), *flags])
    return result.exit_code, result.stdout, result.stderr


def test_a_right_file_is_said_to_mean_what_it_means(tmp_path: Path) -> None:
    file = tmp_path / "conf"
    file.write_text(HELM)
    code, out, err = run(file)
    assert (code, err) == (0, "")
    assert [line.split()[:3] for line in out.splitlines() if line.startswith(" gang ")] == [
        ["gang", "always", "on"]
    ]
    [line] = [line.split() for line in out.splitlines() if "scores.binpack_weight" in line]
    assert line == ["scores.binpack_weight", "1"]


def test_every_problem_is_a_line_on_standard_error_and_the_exit_code_is_2(tmp_path: Path) -> None:
    file = tmp_path / "conf"
    file.write_text(HELM.replace("binpack", "binpak").replace("enqueue", "enqeue"))
    code, out, err = run(file)
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "error: actions[0]: unknown action 'enqeue'; did you mean enqueue?",
        "error: tiers[1].plugins[5].name: unknown plugin 'binpak'; did you mean binpack?",
    ]


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    code, out, err = run(tmp_path / "none")
    assert (code, out) == (2, "")
    assert err == f"pumice policy check: policy file {tmp_path / 'none'}: No such file or directory\n"


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "conf"
    file.write_bytes(b"\xff")
    code, out, err = run(file)
    assert (code, out) == (2, "")
    assert err == f"pumice policy check: policy file {file}: is no text in UTF-8: byte 0 is wrong\n"


@pytest.mark.parametrize("text", [BUILT_IN, HELM, "actions: [", ""])
def test_all_of_it_is_json_too(tmp_path: Path, text: str) -> None:
    file = tmp_path / "conf"
    file.write_text(text)
    code, out, _ = run(file, "-o", "json")
    content = json.loads(out)
    assert code == (2 if content["problems"] else 0)
    assert set(content) == {"digest", "words", "policy", "notes", "problems"}
    assert all(set(one) == {"path", "kind", "message"} for one in content["problems"])
