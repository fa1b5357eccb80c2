"""The example of a plugin is installed as its README says, is found by its entry point, and decides."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from services.scheduler.core.configuration import configure
from services.scheduler.core.policy import Policy
from shared.plugin_entries import installed
from shared.plugins import Maker
from tests.scenarios.scenario import Placed, Scenario, Waits, job, node, placed, queue, waits
from tests.scenarios.world import World

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins"
FILE = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: cheap-nodes
    arguments: {limit: 10, label: price}
"""
NODES = [node(name, gpu=2, labels={"price": price}) for name, price in (("a", "30"), ("b", "8"), ("c", "2"))]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, installed into a directory of its own."""
    source, target = tmp_path_factory.mktemp("source") / "plugins", tmp_path_factory.mktemp("installed")
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    flags = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [sys.executable, "-m", "pip", "install", *flags, "--target", str(target), str(source)]
    subprocess.run(command, check=True)
    return target


@pytest.fixture
def makers(home: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Maker]:
    monkeypatch.syspath_prepend(str(home))
    return installed()


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(
            "the cheapest nodes are filled first",
            NODES,
            [job("train", replicas=3, gpu=1)],
            {"train": placed(c=2, b=1)},
        ),
        Scenario(
            "pods without GPUs stay off dear nodes",
            [NODES[0]],
            [job("web", cpu=1)],
            {"web": waits("no-node-accepted", "1 is refused by a plugin (cheap-nodes)")},
        ),
        Scenario(
            "gangs that ask for few GPUs come first",
            [NODES[2]],
            [job("large", replicas=2, gpu=1), job("small", gpu=1, at=1)],
            {"small": placed(1), "large": waits("no-room")},
        ),
    ],
    ids=lambda scenario: scenario.name,
)
def test_the_example_decides(scenario: Scenario, makers: Mapping[str, Maker]) -> None:
    found = configure(FILE, Policy(), makers)
    assert found.problems == ()
    Scenario(**{**vars(scenario), "policy": found.policy}).run()


HOUSE = """
actions: "allocate, preempt, reclaim"
tiers:
- plugins:
  - name: priority
  - name: house-rules
    arguments: {protected: [ns], shares: {"research-*": 3}}
  - name: proportion
"""


@pytest.mark.parametrize(
    ("rules", "space", "evicts"),
    [
        ("protected: [other]", "ns", True),
        ("protected: [ns]", "ns", False),
        ("within-namespace: true", "ns", True),
        ("within-namespace: false", "theirs", True),
        ("within-namespace: true", "theirs", False),
    ],
)
def test_the_house_says_who_is_evicted(
    rules: str, space: str, evicts: bool, makers: Mapping[str, Maker]
) -> None:
    """For a gang of a higher priority, of this namespace or another one."""
    found = configure(HOUSE.replace("protected: [ns]", rules), Policy(), makers)
    assert found.problems == ()
    high = job("high", gpu=2, priority=9, at=60).model_copy(update={"namespace": space})
    world = World(found.policy)
    world.queue(queue("default"))
    world.node(NODES[0])
    world.submit(job("low", gpu=2, priority=1))
    world.settle()
    world.submit(high)
    world.settle()
    assert world.books.evicted == (["ns/low-worker-0"] if evicts else [])
    assert [pod.node for pod in world.members((space, "high"))] == (["a"] if evicts else [])


@pytest.mark.parametrize(("rules", "evicted"), [("protected: [other]", 1), ("protected: [ns]", 0)])
def test_the_house_says_of_whom_queues_take_back(
    rules: str, evicted: int, makers: Mapping[str, Maker]
) -> None:
    found = configure(HOUSE.replace("protected: [ns]", rules), Policy(), makers)
    world = World(found.policy)
    for name in ("web", "batch"):
        world.queue(queue(name))
    world.node(NODES[0])
    for number in range(2):
        world.submit(job(f"large{number}", gpu=1, queue="batch", at=number))
    world.settle()
    world.submit(job("small", gpu=1, queue="web", at=60))
    world.settle()
    assert len(world.books.evicted) == evicted
    assert [pod.node for pod in world.members(("ns", "small"))] == ["a"] * evicted


def test_the_house_says_which_queues_get_more(makers: Mapping[str, Maker]) -> None:
    gangs = [job(f"{q}-{n}", gpu=1, queue=q, at=n) for n in range(4) for q in ("research-x", "web")]
    expected: dict[str, Placed | Waits] = {
        "research-x-2": placed(1),
        "web-0": placed(1),
        "web-1": waits("no-room"),
    }
    queues = [queue("research-x"), queue("web")]
    chosen = configure(HOUSE, Policy(), makers).policy
    Scenario("", [node("n", gpu=4)], gangs, expected, queues, policy=chosen).run()


def test_its_arguments_are_checked(makers: Mapping[str, Maker]) -> None:
    [problem] = configure(FILE.replace("limit", "limt"), Policy(), makers).problems
    assert str(problem) == (
        "tiers[0].plugins[1].arguments: plugin cheap-nodes: unknown argument limt; known: label, weight, limit"
    )


def test_the_command_finds_it(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(FILE)
    path = os.pathsep.join([str(home), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    program = "from services.scheduler.command import policy; policy()"
    command = [sys.executable, "-c", program, "check", str(file)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "cheap-nodes   own plugin" in done.stdout
