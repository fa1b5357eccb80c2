"""What cannot start says why in one line that names it, with exit code 2 or 1, and without a traceback."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fixtures.processes import Process
from tests.fixtures.waiting import eventually
from tools.kafka import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

UP = ("-m", "pumice", "up", "--port", "0")
SIMULATOR = ("-m", "simulator", "--port", "0")
NOWHERE = "127.0.0.1:1"  # a port that only root may listen on, and nobody does


def service(name: str) -> tuple[str, ...]:
    return ("-m", f"services.{name}")


@pytest.fixture
def taken() -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield str(listener.getsockname()[1])


@pytest.fixture
def broken(tmp_path: Path) -> str:
    path = tmp_path / "broken.yaml"
    path.write_text("clusters: [\n")
    return str(path)


async def refuses(directory: Path, words: tuple[str, ...], *names: str, code: int, **env: str) -> None:
    """Start a program and require one line that names all of ``names``, and the exit code."""
    process = Process("program", *words, directory=directory, env=env)
    await process.start()
    try:
        ended = await process.wait(60)
    except TimeoutError:
        await process.kill()
        raise AssertionError(f"{words} goes on: {process.output}") from None
    said = [line for line in process.lines if line.strip() and not line.startswith(("Usage:", "Try "))]
    assert (len(said), ended) == (1, code), process.output
    for name in names:
        assert name in said[0]
    assert process.unclean == []


WRONG_USE = {
    "up-flag": (UP, ("--frobnicate",), ("--frobnicate",), {}),
    "up-port": (UP, ("--port", "99999"), ("--port",), {}),
    "up-nodes": (UP, ("--nodes", "many"), ("nodes 'many'",), {}),
    "up-log": (UP, ("--log", "ftp://x"), ("ftp://x",), {}),
    "up-log-port": (UP, ("--log", "kafka://broker:port"), ("broker:port",), {}),
    "up-log-level": (UP, ("--log-level", "loud"), ("--log-level", "loud"), {}),
    "up-two-logs": (UP, ("--log", "memory://", "--data", "/tmp"), ("--log and --data",), {}),
    "up-setting": (UP, (), ("PUMICE_WORKERS", "'0'"), {"PUMICE_WORKERS": "0"}),
    "up-no-kubeconfig": (UP, ("--kubeconfig", "/nowhere/config"), ("/nowhere/config",), {}),
    "up-no-config": (UP, ("--config", "/nowhere/config"), ("/nowhere/config",), {}),
    "up-ready-file": (UP, ("--ready-file", "/nowhere/ready"), ("--ready-file /nowhere/ready",), {}),
    "simulator-flag": (SIMULATOR, ("--frobnicate",), ("--frobnicate",), {}),
    "simulator-port": (SIMULATOR, ("--port", "99999"), ("--port", "99999"), {}),
    "simulator-nodes": (SIMULATOR, ("--nodes", "many"), ("nodes 'many'",), {}),
    "simulator-kubeconfig": (SIMULATOR, ("--kubeconfig", "/nowhere/config"), ("/nowhere/config",), {}),
    "service-flag": (service("gateway"), ("--frobnicate",), ("--frobnicate",), {}),
    "service-number": (service("gateway"), (), ("PUMICE_PORT", "'http'"), {"PUMICE_PORT": "http"}),
    "service-list": (service("scheduler"), (), ("PUMICE_POOLS", "'a,b'"), {"PUMICE_POOLS": "a,b"}),
    "service-log": (service("admission"), (), ("ftp://x",), {"PUMICE_LOG": "ftp://x"}),
    "service-config": (service("admission"), (), ("/nowhere/config",), {"PUMICE_CONFIG": "/nowhere/config"}),
    "service-kubeconfig": (
        service("controller"),
        (),
        ("/nowhere/config",),
        {"PUMICE_LOG": "memory://", "PUMICE_KUBECONFIG": "/nowhere/config"},
    ),
}


@pytest.mark.parametrize("case", WRONG_USE)
async def test_wrong_use_is_one_line_that_names_it_and_exit_code_2(tmp_path: Path, case: str):
    words, more, names, env = WRONG_USE[case]
    await refuses(tmp_path, (*words, *more), *names, code=2, **env)


@pytest.mark.parametrize("program", ["up", "controller"])
async def test_a_broken_kubeconfig_is_named(tmp_path: Path, broken: str, program: str):
    if program == "up":
        await refuses(tmp_path, (*UP, "--kubeconfig", broken), broken, code=2)
    else:
        env = {"PUMICE_LOG": "memory://", "PUMICE_KUBECONFIG": broken}
        await refuses(tmp_path, service("controller"), broken, code=2, **env)


async def test_a_broken_configuration_file_is_named(tmp_path: Path, broken: str):
    await refuses(tmp_path, (*UP, "--config", broken), broken, code=2)


@pytest.mark.parametrize("program", ["up", "gateway", "simulator", "operations"])
async def test_a_port_in_use_is_named_and_the_exit_code_is_1(tmp_path: Path, taken: str, program: str):
    env = {"PUMICE_LOG": "memory://", "PUMICE_PORT": "0"}
    where = f"127.0.0.1:{taken}"
    match program:
        case "up":
            await refuses(tmp_path, ("-m", "pumice", "up", "--port", taken), where, code=1)
        case "gateway":
            await refuses(tmp_path, service("gateway"), where, code=1, **env | {"PUMICE_PORT": taken})
        case "simulator":
            await refuses(tmp_path, ("-m", "simulator", "--port", taken), where, code=1)
        case _:
            operations = {"PUMICE_OPERATIONS_HOST": "127.0.0.1", "PUMICE_OPERATIONS_PORT": taken}
            await refuses(tmp_path, service("admission"), where, code=1, **env | operations)


async def test_a_broker_that_cannot_be_reached_is_named_after_a_short_patience(tmp_path: Path):
    def in_its_own(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    env = {"PUMICE_LOG": f"kafka://{NOWHERE}", "PUMICE_KUBECONFIG": "/nowhere"}
    await asyncio.gather(
        refuses(in_its_own("up"), (*UP, "--log", f"kafka://{NOWHERE}"), NOWHERE, code=1),
        *(
            refuses(in_its_own(name), service(name), NOWHERE, code=1, **env)
            for name in ("gateway", "admission", "scheduler")
        ),
    )


async def test_an_api_server_that_cannot_be_reached_at_the_start_is_named(tmp_path: Path):
    config = tmp_path / "kubeconfig"
    config.write_text(
        f"""\
apiVersion: v1
kind: Config
current-context: x
clusters: [{{name: x, cluster: {{server: "http://{NOWHERE}"}}}}]
users: [{{name: x, user: {{}}}}]
contexts: [{{name: x, context: {{cluster: x, user: x}}}}]
"""
    )
    await refuses(tmp_path, (*UP, "--kubeconfig", str(config)), "127.0.0.1", code=1)


async def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    data = str(tmp_path / "file" / "data")
    await refuses(tmp_path, (*UP, "--data", data), data, code=2)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_data_directory_that_may_not_be_written_is_named(tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir(mode=0o500)
    await refuses(tmp_path, (*UP, "--data", str(data)), str(data), code=1)


async def test_a_data_file_that_is_no_log_is_named(tmp_path: Path):
    (tmp_path / "log.sqlite").write_bytes(b"this is no database, whatever its name says" * 100)
    await refuses(tmp_path, (*UP, "--data", str(tmp_path)), "log.sqlite", code=1)


@asynccontextmanager
async def up(directory: Path, *words: str, **env: str) -> AsyncIterator[Process]:
    ready = directory / "ready.json"
    ready.unlink(missing_ok=True)
    process = Process("up", *UP, *words, "--ready-file", str(ready), directory=directory, env=env)
    await process.start()
    try:
        await eventually(
            lambda: ready.exists() or not process.running,
            what=f"the platform: {process.output}",
            seconds=100,
        )
        yield process
    finally:
        if process.running:
            await process.kill()


async def test_two_processes_on_one_data_directory_are_refused_and_the_first_goes_on(tmp_path: Path):
    data = tmp_path / "data"
    async with up(tmp_path, "--data", str(data)) as first:
        assert first.running, first.output
        await refuses(tmp_path, (*UP, "--data", str(data)), str(data), code=1)
        assert first.running
        assert await first.stop() == 0
        assert first.unclean == []


@pytest.mark.kafka
@pytest.mark.timeout(400)
async def test_two_simulated_clusters_on_one_broker_are_refused_until_the_first_has_ended(
    tmp_path: Path, own_kafka_broker: Broker
):
    log = f"kafka://{own_kafka_broker.bootstrap}"
    async with up(tmp_path, "--log", log) as first:
        assert first.running, first.output
        (tmp_path / "second").mkdir()
        await refuses(
            tmp_path / "second", (*UP, "--log", log), log, "another cluster", "PUMICE_REPLACE_CLUSTER", code=1
        )
        assert first.running
        assert await first.stop() == 0
        assert first.unclean == []
    async with up(tmp_path, "--log", log) as next_one:
        assert next_one.running, next_one.output
        await next_one.kill()
    async with up(tmp_path, "--log", log, PUMICE_REPLACE_CLUSTER="true") as after_a_crash:
        assert after_a_crash.running, after_a_crash.output
        assert await after_a_crash.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_pumice_up_cleanly_and_takes_the_ready_file_away(
    tmp_path: Path, number: signal.Signals
):
    async with up(tmp_path) as process:
        assert process.running, process.output
        process.send(number)
        assert await process.wait() == 0
        assert process.unclean == []
        assert not (tmp_path / "ready.json").exists()
