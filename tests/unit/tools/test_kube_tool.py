"""The script that runs a control plane: what it says when something is missing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tools.kube import Missing, build_program
from tools.kube.program import CONTROL_PLANE, VCCTL, GoProgram, program_path

ROOT = Path(__file__).parents[3]


def test_a_port_in_use_is_one_line():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        ran = _run("up", "--port", str(port))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"kube: port {port} is in use\n"


@pytest.mark.parametrize(("words", "program"), [(("build",), CONTROL_PLANE), (("build", "vcctl"), VCCTL)])
def test_missing_go_is_one_line_that_names_it_and_the_cache(
    words: tuple[str, ...], program: GoProgram, tmp_path: Path
):
    ran = _run(*words, PATH="", PUMICE_CACHE=str(tmp_path))
    path = tmp_path / program_path(program).name
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        f"kube: go is missing (version 1.26 or newer), and {program.title} is not in {path}\n"
    )


def test_a_go_that_is_too_old_is_one_line(tmp_path: Path):
    go = _fake_go(tmp_path, 'echo "go1.19.8"')
    ran = _run("build", PATH=f"{tmp_path}:/bin", PUMICE_CACHE=str(tmp_path / "cache"))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"kube: Go 1.26 or newer is missing ({go} is go1.19.8)\n"


def test_a_program_in_the_cache_needs_no_go(tmp_path: Path):
    program = tmp_path / program_path().name
    program.touch()
    ran = _run("build", PATH="", PUMICE_CACHE=str(tmp_path))
    assert (ran.returncode, ran.stdout) == (0, f"{program}\n")


def test_a_failed_build_says_why_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _fake_go(tmp_path, '[ "$1" = env ] && echo go1.26.1 || { echo "go: no such module"; exit 1; }')
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setenv("PUMICE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(Missing, match="go: no such module"):
        build_program(lambda _: None)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_of_two_who_build_one_builds_and_the_other_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # The program that is "built" is the output of a go that takes its time and counts its runs.
    script = 'echo run >>"$0.runs"; while [ "$1" != -o ]; do shift; done; sleep 0.3; echo built >"$2"'
    go = _fake_go(tmp_path, f'[ "$1" = env ] && echo go1.26.1 || {{ {script}; }}')
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("PUMICE_CACHE", str(tmp_path / "cache"))
    built: list[Path] = []
    said: list[str] = []
    both = [threading.Thread(target=lambda: built.append(build_program(said.append))) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert built == [program_path(), program_path()]
    assert program_path().read_text() == "built\n"
    assert Path(f"{go}.runs").read_text() == "run\n"
    assert "waiting for another process that builds the control plane" in said


@pytest.mark.parametrize(("program", "name"), [(CONTROL_PLANE, "kube"), (VCCTL, "vcctl")])
def test_a_program_is_named_after_what_it_is_built_from(program: GoProgram, name: str):
    begin, version, digest = program_path(program).name.split("-")
    assert (begin, version, len(digest)) == (name, program.version, 12)


def _fake_go(folder: Path, script: str) -> Path:
    go = folder / "go"
    go.write_text(f"#!/bin/sh\n{script}\n")
    go.chmod(0o755)
    return go


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.kube", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
