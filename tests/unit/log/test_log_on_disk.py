"""The log on disk: killed, locked, broken, and not read back by an older program."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from shared.clock import SystemClock
from shared.errors import StartupError, Unavailable
from shared.log.port import Cleanup, Record, TopicPartition, TopicSpec
from shared.log.sqlite import SqliteLog
from tests.fixtures.logs import read_all, values

ROOT = Path(__file__).parents[3]

APPENDER = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from shared.clock import SystemClock
    from shared.log.port import Cleanup, Record, TopicPartition, TopicSpec
    from shared.log.sqlite import SqliteLog

    async def main():
        async with SqliteLog(Path(sys.argv[1]), SystemClock()) as log:
            await log.create_topics([TopicSpec("plain", 3), TopicSpec("pairs", 2), TopicSpec("state", 1, Cleanup.COMPACT)])
            producer = await log.transactional("id")

            async def plain(who):
                n = 0
                while True:
                    await log.producer.send(Record("plain", f"{who}".encode(), f"{who}:{n}".encode()))
                    print("plain", f"{who}:{n}", flush=True)
                    n += 1

            async def pairs():
                n = 0
                while True:
                    async with producer.transaction() as transaction:
                        await transaction.send(Record("pairs", None, f"{n}".encode(), partition=0))
                        await transaction.send(Record("pairs", None, f"{n}".encode(), partition=1))
                        await transaction.commit_offsets("group", {TopicPartition("plain", 0): n})
                    await log.producer.send(Record("state", b"last", f"{n}".encode()))
                    print("pairs", n, flush=True)
                    n += 1

            await asyncio.gather(plain(0), plain(1), plain(2), pairs())

    asyncio.run(main())
""")


@pytest.mark.parametrize("attempt", range(3))
async def test_kill_9_in_the_middle_of_appends_loses_nothing_acknowledged(tmp_path: Path, attempt: int):
    path = tmp_path / "log.db"
    child = subprocess.Popen(  # noqa: ASYNC220 - its start blocks nobody here
        [sys.executable, "-c", APPENDER, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    lines = [await asyncio.to_thread(child.stdout.readline) for _ in range(200 + 70 * attempt)]
    os.kill(child.pid, signal.SIGKILL)
    rest, _ = await asyncio.to_thread(child.communicate)
    assert child.returncode == -signal.SIGKILL
    said = [line.split() for line in [*lines, *rest.splitlines(keepends=True)] if line.endswith("\n")]
    acknowledged = {value for kind, value in said if kind == "plain"}
    pairs = max(int(value) for kind, value in said if kind == "pairs")
    async with SqliteLog(path, SystemClock()) as log:
        kept = values(await read_all(log, "plain"))
        assert acknowledged <= set(kept)
        assert len(kept) == len(set(kept))
        for who in range(3):
            mine = [int(value.split(":")[1]) for value in kept if value.startswith(f"{who}:")]
            assert mine == list(range(len(mine)))
        both = await read_all(log, "pairs")
        left, right = ([d.value for d in both if d.partition == side] for side in (0, 1))
        assert left == right
        assert len(left) > pairs
        assert await log.committed("group", "plain") == {TopicPartition("plain", 0): len(left) - 1}
        assert int((await read_all(log, "state"))[-1].value or b"") >= pairs
        await log.producer.send(Record("plain", b"k", b"after"))


async def test_a_file_in_use_is_refused_in_one_line(tmp_path: Path):
    path = tmp_path / "log.db"
    async with SqliteLog(path, SystemClock()) as log:
        await log.create_topics([TopicSpec("t")])
        code = (
            "import asyncio, sys; from pathlib import Path; from shared.clock import SystemClock;"
            "from shared.log.sqlite import SqliteLog;"
            "asyncio.run(SqliteLog(Path(sys.argv[1]), SystemClock()).start())"
        )
        ran = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True
        )
        assert ran.stderr.splitlines()[-1].endswith(
            f"StartupError: the log {path} is in use by another process"
        )
        await log.producer.send(Record("t", b"k", b"still ours"))
    async with SqliteLog(path, SystemClock()) as again:
        assert values(await read_all(again, "t")) == ["still ours"]


async def test_a_file_that_is_no_log_is_refused(tmp_path: Path):
    path = tmp_path / "log.db"
    path.write_bytes(b"no database, and long enough to be looked at as one" * 100)
    with pytest.raises(StartupError, match="cannot be opened"):
        await SqliteLog(path, SystemClock()).start()


async def test_a_file_of_a_newer_format_is_refused(tmp_path: Path):
    path = tmp_path / "log.db"
    async with SqliteLog(path, SystemClock()):
        pass
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StartupError, match="newer version"):
        await SqliteLog(path, SystemClock()).start()


async def test_a_disk_that_refuses_makes_sends_unavailable_and_later_ones_go_on(tmp_path: Path, caplog):
    log = SqliteLog(tmp_path / "log.db", SystemClock())
    async with log:
        await log.create_topics([TopicSpec("t")])
        await log.producer.send(Record("t", b"k", b"0"))
        connection = log._broker._store._connection
        pages = connection.execute  # the file may not grow: what a full disk looks like
        thread = log._broker._thread
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(thread, lambda: pages("PRAGMA max_page_count = 1"))
        for _ in range(2):
            with pytest.raises(Unavailable, match="full"):
                await log.producer.send(Record("t", b"k", b"x" * 900_000))
            with pytest.raises(Unavailable):
                await log.ping()
        assert len([r for r in caplog.records if "cannot write" in r.message]) == 1
        await loop.run_in_executor(thread, lambda: pages("PRAGMA max_page_count = 1000000"))
        assert (await log.producer.send(Record("t", b"k", b"1"))).offset == 1
        await log.ping()
        assert values(await read_all(log, "t")) == ["0", "1"]


async def test_concurrent_sends_share_a_commit(tmp_path: Path):
    log = SqliteLog(tmp_path / "log.db", SystemClock(), power_safe=True)
    async with log:
        await log.create_topics([TopicSpec("t")])
        store, writes = log._broker._store, []
        write = store.write
        store.write = lambda changes: (writes.append(len(changes)), write(changes))
        await asyncio.gather(*(log.producer.send(Record("t", b"k", b"v")) for _ in range(500)))
    assert sum(writes) == 500
    assert len(writes) <= 5


async def test_what_a_crash_left_uncompacted_is_compacted_at_the_next_start(tmp_path: Path):
    path = tmp_path / "log.db"
    async with SqliteLog(path, SystemClock()) as log:
        await log.create_topics([TopicSpec("t", cleanup=Cleanup.COMPACT)])
        for n in range(50):
            await log.producer.send(Record("t", f"{n % 2}".encode(), f"{n}".encode()))
    async with SqliteLog(path, SystemClock()) as log:
        assert values(await read_all(log, "t")) == ["48", "49"]


async def test_a_file_of_the_first_format_goes_on(tmp_path: Path):
    path = tmp_path / "log.db"
    async with SqliteLog(path, SystemClock()) as log:
        await log.create_topics([TopicSpec("t", 2)])
        await log.producer.send(Record("t", b"k", b"v"))
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE topics DROP COLUMN record_bytes")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    async with SqliteLog(path, SystemClock()) as log:
        assert await log.partitions("t") == 2
        assert [one.value for one in await read_all(log, "t")] == [b"v"]
