"""The command line, as its user sees it: what it prints, and its exit codes."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from pumice.cli.app import app
from pumice.cli.exits import Exit

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec: {minAvailable: 4}
"""
SHORT = ["--name", "train", "--image", "busybox"]
WAITING = {
    "phase": "Pending",
    "queue": "research",
    "replicas": 4,
    "minAvailable": 4,
    "createdAt": "2026-01-02T03:04:05Z",
    "position": 2,
    "waiting": {
        "reason": {
            "code": "gang-does-not-fit",
            "message": "3 of 4 pods fit: 32 nvidia.com/gpu needed, 24 free",
            "numbers": {"needed": 32, "free": 24},
            "nextStep": "wait for 8 GPUs, or lower minAvailable to 3",
        },
        "details": [{"code": "taint", "message": "1 node has a taint that is not tolerated"}],
        "position": 2,
        "queueLength": 5,
        "waitingSince": "2026-01-02T03:04:05Z",
        "asOf": "2026-01-02T03:04:06Z",
    },
}


@pytest.fixture
def pumice(gateway):
    """Runs the command line against the gateway and gives (exit code, standard output, standard error)."""

    def run(*args: str, stdin: str | None = None, server: bool = True) -> tuple[int, str, str]:
        flags = ["--server", gateway.url] if server else []
        result = CliRunner().invoke(app, [*flags, *args], input=stdin, catch_exceptions=False)
        return result.exit_code, result.stdout, result.stderr

    return run


def test_a_manifest_from_a_file_and_from_standard_input_is_submitted(pumice, gateway, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    assert pumice("submit", "-f", str(file)) == (0, "job default/train: Pending\n", "")
    code, out, _ = pumice("submit", "-f", "-", "-n", "team", stdin=JOB)
    assert (code, out) == (0, "job team/train: Pending\n")
    assert [job["metadata"]["namespace"] for job in gateway.submitted] == ["default", "team"]


def test_each_document_of_a_file_is_submitted_and_reported(pumice, gateway):
    gateway.put("b", phase="Running")
    documents = "\n---\n".join(JOB.replace("train", name) for name in "abc")
    code, out, err = pumice("submit", "-f", "-", stdin=documents)
    assert code == Exit.REJECTED
    assert out == "job default/a: Pending\njob default/c: Pending\n"
    assert err == "error: b: job default/b exists\n"


def test_the_short_form_is_made_of_flags_and_what_follows_the_dashes(pumice, gateway):
    code, _, _ = pumice(
        "submit", *SHORT, "--gpus", "8", "--workers", "4", "--queue", "research", "--min", "3",
        "--expose", "web:8080", "--env", "A=b=c", "--master", "--", "python", "train.py", "--epochs", "3",
    )  # fmt: skip
    assert code == 0
    assert gateway.submitted == [
        {
            "namespace": "default",
            "name": "train",
            "image": "busybox",
            "gpus": 8,
            "workers": 4,
            "queue": "research",
            "minimum": 3,
            "expose": ["web:8080"],
            "env": {"A": "b=c"},
            "master": True,
            "command": ["python", "train.py", "--epochs", "3"],
        }
    ]


def test_a_rejection_lists_every_violation_on_its_line(pumice, gateway):
    gateway.violations = [
        {"code": "required", "path": "spec.tasks", "message": "must not be empty"},
        {"code": "not-found", "path": "spec.queue", "message": "no queue 'x'"},
    ]
    code, out, err = pumice("submit", "-f", "-", stdin=JOB)
    assert (code, out) == (Exit.REJECTED, "")
    assert err.splitlines() == [
        "error: train: rejected, 2 violations:",
        "  spec.tasks: must not be empty [required]",
        "  spec.queue: no queue 'x' [not-found]",
    ]


@pytest.mark.parametrize(
    ("args", "stdin", "says"),
    [
        (["submit"], None, "-f FILE, or the short form"),
        (["submit", "--gpus", "8"], None, "needs --name and --image"),
        (["submit", *SHORT, "--env", "A"], None, "'A' is not NAME=VALUE"),
        (["delete", "x", "--timeout", "5"], None, "--timeout goes with --wait"),
        (["queue", "close", "x", "--timeout", "5"], None, "--timeout goes with --wait"),
        (["submit", "-f", "no-such-file.yaml"], None, "no-such-file.yaml: No such file"),
        (["submit", "-f", "-"], "a: [1\nb: 2", "-:2:2: "),
        (["submit", "-f", "-"], "- 1\n", "document 1 is a list"),
        (["submit", "-f", "-"], "", "no job in it"),
        (["submit", "-f", "-", "--name", "x"], JOB, "exclude each other"),
        (["submit", *SHORT, "--timeout", "soon"], None, "'soon' is not a time"),
        (["submit", *SHORT, "--min", "-1"], None, "--min"),
        (["submit", "--no-such-flag"], None, "--no-such-flag"),
        (["get", "pods"], None, "pods"),
        (["get", "queues", "-A"], None, "for jobs"),
        (["describe", "a/"], None, "'a/' is not a job's name"),
        (["--server", "ftp://x", "get", "jobs"], None, "ftp://x"),
        (["--server", "http://x:port", "get", "jobs"], None, "http://x:port"),
        (["no-such-command"], None, "no-such-command"),
    ],
)
def test_wrong_use_is_exit_code_2_and_says_what(pumice, args, stdin, says):
    code, out, err = pumice(*args, stdin=stdin)
    assert (code, out) == (Exit.USAGE, "")
    assert says in err


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, Exit.USAGE),
        (403, Exit.REJECTED),
        (409, Exit.REJECTED),
        (413, Exit.REJECTED),
        (404, Exit.NOT_FOUND),
        (500, Exit.FAILED),
    ],
)
def test_each_answer_has_its_exit_code_and_one_line(pumice, gateway, status, code):
    gateway.faults.append(status)
    found, out, err = pumice("get", "jobs")
    assert (found, out) == (code, "")
    assert err.count("\n") == 1
    assert err.startswith("error: ")


def test_a_server_that_is_not_there_is_exit_code_5(pumice):
    code, _, err = pumice("--server", "http://127.0.0.1:1", "get", "jobs")
    assert code == Exit.UNREACHABLE
    assert err.startswith("error: cannot reach http://127.0.0.1:1")


def test_with_debug_the_error_itself_comes_out(gateway):
    result = CliRunner().invoke(app, ["--debug", "--server", gateway.url, "describe", "nothing"])
    assert type(result.exception).__name__ == "NotFound"


def test_waiting_too_long_is_exit_code_6(pumice):
    code, out, err = pumice("submit", "--wait", "running", "--timeout", "0.3s", "-f", "-", stdin=JOB)
    assert code == Exit.TIMEOUT
    assert "Pending  train" in out
    assert "it goes on" in err


def test_a_job_that_failed_while_it_was_waited_for_is_exit_code_1(pumice, gateway):
    gateway.on_submit = {"phase": "Failed", "message": "pod train-0 exited with 3"}
    code, _, err = pumice("run", *SHORT)
    assert code == Exit.FAILED
    assert err == "error: job default/train ended Failed: pod train-0 exited with 3\n"


def test_run_prints_a_line_for_each_change_and_ends_with_the_job(pumice, gateway):
    def live() -> None:
        with gateway.changed:
            gateway.changed.wait_for(lambda: gateway.jobs, 10)
        for fields in (
            {"phase": "Running", "pods": {"running": 4}},
            {"phase": "Completed", "pods": {"succeeded": 4}},
        ):
            time.sleep(0.2)
            gateway.put("train", replicas=4, **fields)

    thread = threading.Thread(target=live)
    thread.start()
    code, out, _ = pumice("run", *SHORT)
    thread.join()
    assert code == 0
    assert [line.split("  ", 1)[1] for line in out.splitlines()] == [
        "Pending  train  0/0 pods",
        "Running  train  4/4 pods",
        "Completed  train  4/4 pods",
    ]


def test_jobs_are_listed_in_columns(pumice, gateway):
    gateway.put("waits", **WAITING)
    gateway.put("b", "team", phase="Running", replicas=2, pods={"running": 2})
    _, out, _ = pumice("get", "jobs")
    assert out.splitlines()[0].split() == ["NAME", "QUEUE", "PHASE", "PODS", "MIN", "POS", "AGE"]
    assert out.splitlines()[1].split()[:6] == ["waits", "research", "Pending", "0/4", "4", "2"]
    _, out, _ = pumice("get", "jobs", "-A", "-o", "wide")
    assert out.splitlines()[2].split()[:5] == ["team", "b", "default", "Running", "2/2"]
    assert out.splitlines()[1].endswith("3 of 4 pods fit: 32 nvidia.com/gpu needed, 24 free")
    assert pumice("get", "jobs", "-A", "-q", "research", "-o", "name")[1] == "job/waits\n"
    assert pumice("get", "jobs", "-n", "nobody") == (0, "", "no jobs\n")


def test_json_and_yaml_have_all_that_the_server_sent(pumice, gateway):
    gateway.put("train", **WAITING, colour="blue")
    one = json.loads(pumice("get", "job", "train", "-o", "json")[1])
    many = yaml.safe_load(pumice("get", "jobs", "-o", "yaml")[1])
    assert one["colour"] == "blue"
    assert one["waiting"]["reason"]["numbers"] == {"needed": 32, "free": 24}
    assert many["items"] == [one]


def test_queues_and_nodes_are_listed(pumice, gateway):
    gateway.queues = [
        {
            "name": "research",
            "state": "Open",
            "weight": 2,
            "jobs": {"Running": 3},
            "allocated": {"nvidia.com/gpu": 16},
        }
    ]
    gateway.nodes = [
        {
            "name": "node-1",
            "ready": True,
            "allocatable": {"cpu": 64000, "memory": 1 << 38, "nvidia.com/gpu": 8},
            "allocated": {"cpu": 1500, "memory": 1 << 30, "nvidia.com/gpu": 4},
        }
    ]
    assert pumice("get", "queues")[1].splitlines()[1].split() == [
        "research",
        "-",
        "Open",
        "2",
        "0",
        "3",
        "0",
        "nvidia.com/gpu=16",
    ]
    assert pumice("get", "nodes")[1].splitlines()[1].split() == [
        "node-1",
        "Ready",
        "gpu=4/8",
        "1.5/64",
        "1Gi/256Gi",
        "0",
    ]
    assert pumice("get", "node", "node-2") == (Exit.NOT_FOUND, "", "error: node node-2 not found\n")


TRIAL = {"namespace": "default", "name": "train", "waiting": None, "evicted": [], "later": 0, "place": []}


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            {"outcome": "starts", "place": [{"pod": "train-0", "node": "n1"}], "later": 2},
            [
                "job default/train would start",
                "on n1: train-0",
                "2 pods more take what room there is then",
            ],
        ),
        (
            {
                "outcome": "evicts",
                "place": [{"pod": "train-0", "node": "n1"}],
                "evicted": [{"namespace": "a", "pod": "b-0", "reason": "preempted by default/train"}],
            },
            [
                "job default/train would start once these pods have left:",
                "  a/b-0: preempted by default/train",
                "on n1: train-0",
            ],
        ),
        (
            {
                "outcome": "waits",
                "waiting": {
                    "reason": {"code": "no-room", "message": "no room"},
                    "position": 1,
                    "queueLength": 1,
                    "estimatedStart": "2001-01-01T00:00:00Z",
                    "outlook": "when a/b ends",
                },
            },
            [
                "job default/train would wait",
                "why:       no room",
                "code:      no-room",
                "position:  1 of 1 in its queue",
                "may start: 2001-01-01 00:00:00Z (in 0s), when a/b ends",
            ],
        ),
    ],
)
def test_a_dry_run_says_what_would_become_of_a_job_and_submits_nothing(pumice, gateway, found, lines):
    gateway.trial = {**TRIAL, **found}
    code, out, err = pumice("submit", *SHORT, "--dry-run")
    assert (code, out.splitlines(), err) == (0, lines, "")
    code, out, _ = pumice("submit", *SHORT, "--dry-run", "-o", "json")
    assert (code, json.loads(out)) == (0, gateway.trial)
    assert gateway.submitted == []


def test_a_dry_run_that_nobody_answers_is_one_line_and_exit_code_6(pumice, gateway):
    code, out, err = pumice("submit", *SHORT, "--dry-run")
    assert (code, out) == (6, "")
    assert err.splitlines() == ["error: train: the scheduler did not answer within 10 s: does it run?"]
    assert sum(path.startswith("/v1/trials") for _, path, _ in gateway.seen) == 1


def test_a_dry_run_of_a_job_that_breaks_rules_tells_all_of_them(pumice, gateway):
    gateway.violations = [
        {"code": "c1", "path": "spec.queue", "message": "is not there"},
        {"code": "c2", "path": "spec.minAvailable", "message": "is too large"},
    ]
    code, _, err = pumice("submit", *SHORT, "--dry-run")
    assert code == 3
    assert "spec.queue: is not there" in err
    assert "spec.minAvailable: is too large" in err


def test_explain_says_why_a_job_waits_with_numbers_place_and_next_step(pumice, gateway):
    gateway.put("train", **WAITING)
    lines = pumice("explain", "train")[1].splitlines()
    assert lines[0].startswith("job default/train waits in queue research for ")
    assert lines[1:] == [
        "why:       3 of 4 pods fit: 32 nvidia.com/gpu needed, 24 free",
        "code:      gang-does-not-fit",
        "numbers:   needed=32 free=24",
        "also:      1 node has a taint that is not tolerated",
        "position:  2 of 5 in its queue",
        "next:      wait for 8 GPUs, or lower minAvailable to 3",
    ]


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({"outlook": "nobody can say when"}, "may start: nobody can say when"),
        (
            {
                "estimatedStart": "2001-01-01T00:00:00Z",
                "estimatedStartP90": "2001-01-01T01:00:00Z",
                "outlook": "when a/b ends on n1",
            },
            "may start: 2001-01-01 00:00:00Z (in 0s, p90 2001-01-01 01:00:00Z), when a/b ends on n1",
        ),
        (
            {"estimatedStart": "2001-01-01T00:00:00Z", "estimatedStartP90": "2001-01-01T00:00:00Z"},
            "may start: 2001-01-01 00:00:00Z (in 0s)",
        ),
    ],
)
def test_explain_says_when_a_job_may_start_or_that_nobody_can_say(pumice, gateway, told, line):
    gateway.put("train", **{**WAITING, "waiting": {**WAITING["waiting"], **told}})
    assert line in pumice("explain", "train")[1].splitlines()


def test_explain_says_where_a_running_job_is(pumice, gateway):
    place = [{"pod": f"train-worker-{index}", "node": f"node-{index % 2}"} for index in range(3)]
    gateway.put("train", phase="Running", replicas=3, minAvailable=3, pods={"running": 3}, place=place)
    assert pumice("explain", "default/train")[1].splitlines() == [
        "job default/train runs in queue default: 3/3 pods, minimum 3",
        "on node-0: train-worker-0, train-worker-2",
        "on node-1: train-worker-1",
    ]


def test_describe_has_the_facts_the_place_and_the_explanation(pumice, gateway):
    gateway.put("train", **WAITING, submittedBy="ada", place=[{"pod": "train-worker-0"}])
    out = pumice("describe", "train")[1]
    assert "Queue:       research" in out
    assert "  train-worker-0  -  -" in out
    assert "  why:       3 of 4 pods fit" in out


def test_events_are_lines_or_json_lines(pumice, gateway):
    gateway.put("train", phase="Pending")
    gateway.put("train", phase="Completed", message="all done")
    _, out, _ = pumice("events", "train", "--follow")
    assert out.splitlines() == ["03:04:05.500  phase  Pending", "03:04:05.500  phase  Completed  all done"]
    _, out, _ = pumice("events", "train")
    assert [line.split() for line in out.splitlines()] == [
        ["03:04:05.500", "phase", "Pending"],
        ["03:04:05.500", "+0s", "phase", "Completed", "all", "done"],
    ]
    _, out, _ = pumice("events", "train", "-o", "json")
    assert [json.loads(line)["data"]["phase"] for line in out.splitlines()] == ["Pending", "Completed"]


def test_a_trace_is_a_line_for_each_span_below_its_parent(pumice, gateway):
    gateway.put("train", phase="Completed")
    gateway.traces["default", "train"] = {
        "traceId": "f" * 32,
        "spans": [
            {"spanId": "c", "parentId": "a", "name": "run", "service": "controller", "start": "2026-01-01T00:00:02Z", "end": "2026-01-01T00:01:02Z"},
            {"spanId": "b", "parentId": "a", "name": "admit", "service": "admission", "start": "2026-01-01T00:00:00.5Z", "end": "2026-01-01T00:00:00.510Z"},
            {"spanId": "a", "name": "job", "service": "controller", "start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:01:02Z"},
        ],
    }  # fmt: skip
    assert [line.split() for line in pumice("trace", "train")[1].splitlines()] == [
        ["+0.000s", "1m2s", "job", "controller"],
        ["+0.500s", "10.0ms", "admit", "admission"],
        ["+2.000s", "1m", "run", "controller"],
    ]
    assert json.loads(pumice("trace", "train", "-o", "json")[1])["traceId"] == "f" * 32


@pytest.mark.parametrize(
    ("verb", "done"), [("suspend", "suspended"), ("resume", "resumed"), ("delete", "deleted")]
)
def test_commands_take_many_names_and_go_on_after_one_that_is_not_there(pumice, gateway, verb, done):
    gateway.put("a", phase="Running")
    gateway.put("c", "team", phase="Running")
    code, out, err = pumice(verb, "a", "b", "team/c")
    assert code == Exit.NOT_FOUND
    assert out == f"job default/a: {verb} requested\njob team/c: {verb} requested\n"
    assert err == "error: default/b: job default/b not found\n"
    gateway.put("d", phase="Running")
    assert pumice(verb, "d", "--wait") == (0, f"job default/d: {done}\n", "")


@pytest.mark.parametrize("verb", ["open", "close"])
def test_a_queue_is_opened_and_closed_by_name(pumice, gateway, verb):
    gateway.queues = [{"name": "team", "state": "Open", "weight": 1, "priority": 0, "reclaimable": True}]
    assert pumice("queue", verb, "team") == (0, f"queue team: {verb} requested\n", "")
    assert gateway.commands == [(verb, "", "team")]
    state = {"open": "open", "close": "closing"}[verb]
    assert pumice("queue", verb, "team", "--wait") == (0, f"queue team: {state}\n", "")
    code, _, err = pumice("queue", verb, "other")
    assert (code, err) == (Exit.NOT_FOUND, "error: there is no queue other\n")


def test_gangs_of_a_node_pool_are_asked_to_move(pumice, gateway):
    said = "pool default: defragment requested; who moves, and who then starts, is told of the jobs\n"
    assert pumice("defragment") == (0, said, "")
    assert gateway.commands == [("defragment", "", "default")]
    code, _, err = pumice("defragment", "--pool", "other")
    assert (code, err) == (Exit.NOT_FOUND, "error: there is no node pool other\n")


def test_the_server_is_the_flag_then_the_environment_then_the_file(pumice, gateway, monkeypatch, tmp_path):
    file = tmp_path / "pumice.yaml"
    file.write_text(f"server: {gateway.url}\nnamespace: from-file\n")
    monkeypatch.setenv("PUMICE_CLIENT_CONFIG", str(file))
    gateway.put("a", "from-file", phase="Running")
    gateway.put("b", "from-environment", phase="Running")
    gateway.put("c", "from-flag", phase="Running")
    assert pumice("get", "jobs", "-o", "name", server=False)[1] == "job/a\n"
    monkeypatch.setenv("PUMICE_NAMESPACE", "from-environment")
    assert pumice("get", "jobs", "-o", "name", server=False)[1] == "job/b\n"
    assert pumice("get", "jobs", "-o", "name", "-n", "from-flag", server=False)[1] == "job/c\n"
    assert pumice("-n", "from-flag", "get", "jobs", "-o", "name", server=False)[1] == "job/c\n"
    monkeypatch.setenv("PUMICE_SERVER", "http://127.0.0.1:1")
    assert pumice("get", "jobs", server=False)[0] == Exit.UNREACHABLE


def test_a_wrong_key_in_the_configuration_file_is_named(pumice, monkeypatch, tmp_path):
    file = tmp_path / "pumice.yaml"
    file.write_text("sever: http://x\n")
    monkeypatch.setenv("PUMICE_CLIENT_CONFIG", str(file))
    code, _, err = pumice("get", "jobs", server=False)
    assert code == Exit.USAGE
    assert "unknown key 'sever'" in err


README = Path(__file__).parents[3] / "clients" / "python" / "README.md"


def test_every_exit_code_is_in_the_help_and_the_readme(pumice):
    help_text, readme = pumice("--help", server=False)[1], README.read_text()
    for code in Exit:
        assert f"\n    {code.value} " in help_text
        assert f"\n| {code.value} | " in readme


def test_every_command_is_in_the_readme_and_says_what_it_does(pumice):
    readme = README.read_text()
    listed = pumice("--help", server=False)[1].partition("Commands:\n")[2].splitlines()
    commands = [line.split()[0] for line in listed]
    assert {"submit", "run", "get", "describe", "explain", "events", "trace", "up", "version"} <= set(
        commands
    )
    for line, command in zip(listed, commands, strict=True):
        assert len(line.split()) > 3
        assert command in readme
