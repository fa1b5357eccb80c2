"""What a process says of errors that nobody awaits."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest

from shared import process
from shared.process import run, until_stopped

uvloop = pytest.importorskip("uvloop", reason="uvloop is not made for this system")


async def _written_too_late() -> RuntimeError:
    """What uvloop raises when bytes are written to a connection that is gone."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1")
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.transport.abort()
    await asyncio.sleep(0)  # the handle is closed in the next turn of the loop
    try:
        with pytest.raises(RuntimeError) as caught:
            writer.transport.write(b"too late")
    finally:
        server.close()
    return caught.value


def _reported(message: str, error: BaseException | None, caplog: pytest.LogCaptureFixture) -> list[str]:
    async def work() -> None:
        found = error or await _written_too_late()
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": found})

    with caplog.at_level(logging.WARNING):
        run(work())
    return [record.getMessage() for record in caplog.records]


def test_a_tls_connection_that_the_peer_closed_under_a_write_is_no_error(caplog: pytest.LogCaptureFixture):
    assert _reported("Fatal error on SSL protocol", None, caplog) == []


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("Fatal error on SSL protocol", RuntimeError("a state that cannot be")),
        ("Exception in callback", None),
    ],
)
def test_any_other_error_that_nobody_awaited_is_reported(
    message: str, error: RuntimeError | None, caplog: pytest.LogCaptureFixture
):
    assert _reported(message, error, caplog) == [message]


def test_a_stop_that_takes_long_says_what_it_waits_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(process, "_LONG_STOP", 0.05)

    async def reluctant() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.2)

    with caplog.at_level(logging.WARNING):
        run(until_stopped(reluctant()))
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith("still stopping after 0.05 s: ")
    assert "sleep (tasks.py:" in said
