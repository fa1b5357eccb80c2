"""``pumice replay`` at the command line, over a log in memory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from pumice.cli.app import app
from tests.fixtures.waiting import eventually
from tests.integration.test_replay import Cluster
from tests.integration.test_scheduler_service import running

SPREAD = """\
actions: "allocate"
tiers:
- plugins:
  - name: nodeorder
    arguments:
      leastrequested.weight: 10
  - name: binpack
    arguments:
      binpack.weight: 0
"""


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """A log on which two gangs were decided."""
    world = Cluster()

    async def live() -> None:
        await world.start()
        await world.queue()
        for name in ("n1", "n2"):
            await world.node(name, 8)
        async with world.carried_out(0.0), running(world):
            for name in ("a", "b"):
                await world.submit(name, 2)
                await eventually(lambda name=name: name in world.running)
        await world.log.close()

    asyncio.run(live())
    return world


@pytest.fixture
def log(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Its address: records in memory outlive their connection."""
    monkeypatch.setattr("shared.log.connect.open_log", lambda *_args, **_options: cluster.log)
    return "memory://"


def _replay(log: str, *words: str) -> Result:
    return CliRunner().invoke(app, ["replay", "--log", log, *words])


def test_by_the_same_policy_all_decisions_are_identical(log: str) -> None:
    result = _replay(log)
    assert result.exit_code == 0, result.output
    assert "by the same policy: 2 of 2 decisions are identical" in result.stdout


def test_by_another_policy_what_differs_is_told(log: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.conf"
    policy.write_text(SPREAD)
    result = _replay(log, "--policy", str(policy), "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["decisions"], found["same_policy"]) == (2, False)
    assert found["differences"][0]["gang"] == "ns/a"
    assert found["differences"][0]["then"]["nodes"] != found["differences"][0]["now"]["nodes"]
    table = _replay(log, "--policy", str(policy)).stdout.splitlines()
    assert table[0].split() == ["AT", "GANG", "THEN", "NOW"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "yesterday"), "--from yesterday"),
        (("--from", "2100-01-01T00:00:00Z"), "none of the 0 cycles"),
        (("--pool", "other"), "pool other: none of the 0 cycles"),
        (("--policy", "missing.conf"), "missing.conf"),
    ],
)
def test_wrong_use_is_a_line_and_2(log: str, words: tuple[str, ...], says: str) -> None:
    result = _replay(log, *words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_address_that_is_none_is_wrong_use() -> None:
    result = _replay("nowhere")
    assert result.exit_code == 2
    assert "log address 'nowhere'" in result.stderr
