"""The command line as a process, against a whole platform: what a newcomer would type."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from services.standalone.options import Options
from tests.fixtures.platform import a_platform, gang

Shell = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest_asyncio.fixture
async def pumice(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shell]:
    """Runs the command line and gives (exit code, standard output, standard error)."""
    async with a_platform(Options(nodes=("4x8",), port=0)) as platform:
        environment = {
            **os.environ,
            "PUMICE_SERVER": platform.ready.gateway,
            "XDG_CONFIG_HOME": str(tmp_path),
            "PYTHONPYCACHEPREFIX": str(tmp_path_factory.getbasetemp() / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
        }

        async def run(*words: str, stdin: object = None) -> tuple[int, str, str]:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "pumice", *words),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
            )
            out, err = await process.communicate(yaml.safe_dump(stdin).encode() if stdin else None)
            assert process.returncode is not None
            return process.returncode, out.decode(), err.decode()

        yield run


async def test_a_gang_goes_from_submission_to_its_end_and_leaves_its_timeline_and_trace(
    pumice: Shell,
) -> None:
    code, out, err = await pumice(
        "submit", "-f", "-", "--wait", "finished", "--timeout", "60", stdin=gang("train")
    )
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("job default/train: Completed")
    _, out, _ = await pumice("get", "jobs", "train", "-o", "json")
    assert json.loads(out)["pods"]["succeeded"] == 4
    _, out, _ = await pumice("events", "train")
    assert "decision  4 bindings" in out
    _, out, _ = await pumice("trace", "train")
    assert [line.split()[2] for line in out.splitlines()[:3]] == ["job", "submit", "admit"]


async def test_the_short_form_runs_and_its_failure_is_the_exit_code(pumice: Shell) -> None:
    flags = ["--image", "busybox", "--timeout", "60", "--retries", "0"]
    assert (await pumice("run", "--name", "good", *flags, "--", "sh", "-c", "exit 0"))[0] == 0
    code, out, err = await pumice("run", "--name", "bad", *flags, "--", "sh", "-c", "exit 3")
    assert code == 1
    assert err.startswith("error: job default/bad ended ")
    assert out.splitlines()[-1].split()[1] in {"Failed", "Terminated"}


async def test_a_job_that_does_not_fit_is_explained_suspended_resumed_and_deleted(pumice: Shell) -> None:
    code, out, _ = await pumice("submit", "-f", "-", stdin=gang("large", workers=8))
    assert (code, out.partition(":")[0]) == (0, "job default/large")
    for _ in range(50):
        _, out, _ = await pumice("explain", "large")
        if "numbers:" in out:
            break
    assert "nvidia.com/gpu" in out
    assert "position:  1 of 1 in its queue" in out
    assert "next:" in out
    assert (await pumice("suspend", "large", "--wait"))[:2] == (0, "job default/large: suspended\n")
    assert (await pumice("resume", "large", "--wait"))[:2] == (0, "job default/large: resumed\n")
    assert (await pumice("delete", "large", "--wait"))[:2] == (0, "job default/large: deleted\n")
    assert (await pumice("delete", "large"))[0] == 4
    assert "large" not in (await pumice("get", "jobs"))[1]


async def test_a_job_with_several_mistakes_is_told_all_of_them(pumice: Shell) -> None:
    job = gang("Wrong_Name", queue="nowhere", minimum=9)
    job["spec"]["tasks"][1]["name"] = "master"
    code, out, err = await pumice("submit", "-f", "-", stdin=job)
    assert (code, out) == (3, "")
    paths = {line.strip().partition(":")[0] for line in err.splitlines()[1:]}
    assert {"metadata.name", "spec.queue", "spec.minAvailable", "spec.tasks[1].name"} <= paths


async def test_queues_and_nodes_are_shown_with_what_they_hold(pumice: Shell) -> None:
    _, out, _ = await pumice("get", "nodes", "-o", "json")
    nodes = json.loads(out)["items"]
    assert [node["allocatable"]["nvidia.com/gpu"] for node in nodes] == [8, 8, 8, 8]
    _, out, _ = await pumice("get", "queues", "-o", "name")
    assert "queue/default" in out.splitlines()
