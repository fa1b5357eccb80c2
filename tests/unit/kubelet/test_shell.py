"""The little shell: what it understands it does as /bin/sh does, what it does not runs until it is stopped."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.kubelet.core.program import EXIT_CODE, RUN_SECONDS, environment, expand, program_of
from simulator.kubelet.core.shell import Program, run_command, run_script


def summary(program: Program):
    return program.seconds, program.exit_code, [line for _, line in program.output]


@pytest.mark.parametrize(
    ("script", "seconds", "code", "lines"),
    [
        ("sleep 10", 10, 0, []),
        ("sleep 1.5; exit 3", 1.5, 3, []),
        ("sleep 2m; sleep 1h; sleep 10s", 3730, 0, []),
        ("sleep 1m 30s", 90, 0, []),
        ("sleep infinity", None, 0, []),
        ("sleep abc; exit $?", 0, 1, ["sleep: invalid time interval 'abc'"]),
        ("echo hi && sleep 2 && echo done", 2, 0, ["hi", "done"]),
        ("false && echo no || echo yes", 0, 0, ["yes"]),
        ("false; true", 0, 0, []),
        ("true; false", 0, 1, []),
        ("exit 300", 0, 44, []),
        ("set -e; false; echo no", 0, 1, []),
        ("set -e; false || true; echo yes", 0, 0, ["yes"]),
        ("set -ex\nfalse && true\necho yes", 0, 0, ["yes"]),
        ("exec sleep 5; echo no", 5, 0, []),
        ("# only a comment\necho a # and one more\n\necho 'b;c' \"d e\"", 0, 0, ["a", "b;c d e"]),
        ("A=1; export B=2; echo $A${B}\\$C '$A' \"$A\"", 0, 0, ["12$C $A 1"]),
        ('[ "$TASK_INDEX" = 1 ] && exit 3; sleep 5', 0, 3, []),
        ('[ "$TASK_INDEX" -eq 2 ] && exit 3; sleep 5', 5, 0, []),
        ("/bin/sleep 3 && /bin/echo x", 3, 0, ["x"]),
        ("", 0, 0, []),
    ],
)
def test_a_script_that_is_understood(script, seconds, code, lines):
    assert summary(run_script(script, {"TASK_INDEX": "1"})) == (seconds, code, lines)


@pytest.mark.parametrize(
    "script",
    [
        "python train.py",
        "echo a | cat",
        "while true; do sleep 1; done",
        "echo $(hostname)",
        "echo `hostname`",
        "sleep 1 &",
        "echo x > /tmp/file",
        "(exit 3)",
        "echo 'not closed",
    ],
)
def test_anything_else_runs_until_it_is_stopped(script):
    assert run_script(script, {}).seconds is None


def test_what_comes_before_an_unknown_command_is_done():
    program = run_script("echo start; sleep 3; python train.py; echo never", {})
    assert program == Program(None, 0, ((0.0, "start"),))


def test_output_has_the_second_when_it_was_written():
    program = run_script("echo a; sleep 2; echo b; sleep 0.5; echo c", {})
    assert program.output == ((0.0, "a"), (2.0, "b"), (2.5, "c"))


def test_without_a_shell_words_are_words():
    assert summary(run_command(["echo", "$HOME", "a;b"])) == (0, 0, ["$HOME a;b"])
    assert summary(run_command(["sleep", "10"])) == (10, 0, [])
    assert run_command(["nginx", "-g", "daemon off;"]).seconds is None


word = st.sampled_from(["a", "'b c'", '"d  e"', "$X", '"$X"', "${X}y", "\\$X", "'$X'", '"q\\"q"', "$?", "''"])
command = st.one_of(
    st.sampled_from(
        ["true", "false", ":", "X=2", "export X='3 4'", "[ $? = 0 ]", '[ "$X" != 2 ]', "test -n '$X'"]
    ),
    st.integers(0, 300).map(lambda code: f"exit {code}"),
    st.lists(word, max_size=4).map(lambda words: " ".join(["echo", *words])),
    st.just("set -e"),
)
operator = st.sampled_from(["; ", " && ", " || ", "\n", " &&\n", "  # note\n"])
scripts = st.lists(st.tuples(command, operator), min_size=1, max_size=7).map(
    lambda parts: "".join(one + joined for one, joined in parts[:-1]) + parts[-1][0]
)


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs /bin/sh")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scripts)
def test_a_script_ends_and_prints_as_under_the_real_shell(script):
    real = subprocess.run(
        ["sh", "-c", script], env={"X": "1"}, capture_output=True, text=True, check=False, timeout=10
    )
    program = run_script(script, {"X": "1"})
    assert program.seconds == 0
    assert program.exit_code == real.returncode
    assert [line for _, line in program.output] == real.stdout.split("\n")[:-1]


def pod(container: dict, annotations: dict | None = None, **spec) -> dict:
    return {
        "metadata": {
            "name": "train-worker-1",
            "namespace": "ml",
            "uid": "u",
            "labels": {"task": "worker"},
            "annotations": annotations or {},
        },
        "spec": {"containers": [{"name": "main", **container}], "nodeName": "n1", **spec},
    }


def program(container: dict, annotations: dict | None = None) -> Program:
    one = pod(container, annotations)
    return program_of(one, one["spec"]["containers"][0])


@pytest.mark.parametrize(
    "container",
    [
        {"command": ["sh", "-c", "sleep 7; exit 2"]},
        {"command": ["/bin/bash", "-lc", "sleep 7; exit 2"]},
        {"command": ["bash"], "args": ["-c", "sleep 7; exit 2", "ignored"]},
        {"args": ["sh", "-e", "-c", "sleep 7; exit 2"]},
        {"command": ["sh", "-ec", "sleep 7; [ a = b ] || exit 2; echo no"], "args": []},
    ],
)
def test_every_way_to_start_a_shell(container):
    assert summary(program(container)) == (7, 2, [])


def test_a_container_without_a_command_runs_until_it_is_stopped():
    assert program({"image": "nginx"}) == Program()
    assert program({"command": ["bash"]}) == Program()


def test_variables_come_from_literal_values_and_fields_of_the_pod():
    env = [
        {"name": "A", "value": "one"},
        {"name": "B", "value": "$(A)-two $(NOPE) $$(A)"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "TASK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['task']"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    one = pod({"env": env})
    assert environment(one, one["spec"]["containers"][0]) == {
        "HOSTNAME": "train-worker-1",
        "A": "one",
        "B": "one-two $(NOPE) $(A)",
        "POD": "train-worker-1",
        "TASK": "worker",
        "SECRET": "",
    }
    script = {
        "command": ["sh", "-c", "echo $(POD) $TASK; sleep $(SECONDS)"],
        "env": [*env, {"name": "SECONDS", "value": "4"}],
    }
    assert summary(program(script)) == (4, 0, ["train-worker-1 worker"])
    assert expand("no reference", {}) == "no reference"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({RUN_SECONDS: "30"}, Program(30.0, 0)),
        ({RUN_SECONDS: "0.5", EXIT_CODE: "3"}, Program(0.5, 3)),
        ({EXIT_CODE: "3"}, Program(9.0, 3, ((0.0, "hi"),))),
        ({RUN_SECONDS + ".main": "2", RUN_SECONDS: "30"}, Program(2.0, 0, ((0.0, "hi"),))),
        ({RUN_SECONDS + ".other": "2"}, Program(9.0, 0, ((0.0, "hi"),))),
    ],
)
def test_annotations_say_it_outright(annotations, expected):
    found = program({"command": ["sh", "-c", "echo hi; sleep 9"]}, annotations)
    assert (found.seconds, found.exit_code) == (expected.seconds, expected.exit_code)


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf"])
def test_a_wrong_annotation_is_a_container_that_cannot_start(value):
    one = program({"command": ["sleep", "1"]}, {RUN_SECONDS: value})
    assert one.exit_code == 128
    assert one.failure == f"wrong annotation: {RUN_SECONDS}={value!r}"
