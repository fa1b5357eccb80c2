"""The log on disk: one SQLite file in WAL mode, for one process that must survive kill -9.

``synchronous=NORMAL`` by default: a commit is in the operating system's hands when a send returns, so
nothing acknowledged is lost when the process dies at any instruction; a power cut may take the last
moments, never the file's consistency. Kafka's own default promises one machine no more. ``power_safe``
waits for the disk at each (group) commit: milliseconds instead of a tenth of one.

The file is locked while it is open; the lock goes with the process, however it ends.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shared.errors import StartupError
from shared.log.core.partition import Partition
from shared.log.core.state import Limits, State
from shared.log.inprocess.broker import Broker
from shared.log.inprocess.connection import InProcessLog
from shared.log.port import Cleanup, Delivery, TopicPartition, TopicSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from shared.clock import Clock
    from shared.log.core.partition import Forget
    from shared.log.core.state import Change
    from shared.log.port import Headers

_FORMAT = 2
_SCHEMA = """
CREATE TABLE topics (
  name TEXT PRIMARY KEY, partitions INTEGER, cleanup TEXT, retention_ms INTEGER, config TEXT,
  record_bytes INTEGER
);
CREATE TABLE partitions (
  id INTEGER PRIMARY KEY, topic TEXT, number INTEGER, first INTEGER DEFAULT 0, next INTEGER DEFAULT 0,
  UNIQUE (topic, number)
);
CREATE TABLE records (
  partition INTEGER, offset INTEGER, ms INTEGER, key BLOB, value BLOB, headers BLOB,
  PRIMARY KEY (partition, offset)
) WITHOUT ROWID;
CREATE TABLE committed (
  consumers TEXT, partition INTEGER, offset INTEGER, PRIMARY KEY (consumers, partition)
) WITHOUT ROWID;
CREATE TABLE epochs (id TEXT PRIMARY KEY, epoch INTEGER) WITHOUT ROWID;
"""
# A partition's replaced records, those a crash kept from being compacted included.
_REPLACED = """
DELETE FROM records WHERE partition = ?1 AND key IS NOT NULL
AND offset NOT IN (SELECT max(offset) FROM records WHERE partition = ?1 GROUP BY key)
"""


class SqliteLog(InProcessLog):
    """The log in the file at ``path``, made when it is not there."""

    def __init__(
        self, path: Path, clock: Clock, *, power_safe: bool = False, limits: Limits | None = None
    ) -> None:
        super().__init__(Broker(clock, State(limits or Limits()), SqliteStore(path, power_safe=power_safe)))


class SqliteStore:
    """The broker's disk. Errors of SQLite are raised as OSError."""

    def __init__(self, path: Path, *, power_safe: bool) -> None:
        self._path = path
        self._synchronous = "FULL" if power_safe else "NORMAL"
        self._connection: sqlite3.Connection | None = None
        self._ids: dict[TopicPartition, int] = {}

    def load(self, state: State) -> None:
        """Open the file, take its lock, fill ``state``."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self._path, isolation_level=None, timeout=0.5)
            self._prepare(self._connection)
            self._fill(self._connection, state)
        except StartupError:
            self.close()
            raise
        except (sqlite3.Error, OSError) as error:
            self.close()
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY:
                raise StartupError(f"the log {self._path} is in use by another process") from error
            raise StartupError(f"the log {self._path} cannot be opened: {error}") from error

    def write(self, changes: Sequence[Change]) -> None:
        """Write all changes in one transaction of the file."""
        with self._using() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                for change in changes:
                    self._write(connection, change)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite has rolled back by itself when the disk is full
                    connection.execute("ROLLBACK")
                raise

    def read(self, where: TopicPartition, position: int, limit: int) -> list[Delivery]:
        """Return up to ``limit`` records from ``position``."""
        with self._using() as connection:
            rows = connection.execute(
                "SELECT offset, ms, key, value, headers FROM records"
                " WHERE partition = ? AND offset >= ? ORDER BY offset LIMIT ?",
                (self._ids[where], position, limit),
            )
            return [
                Delivery(where.topic, where.partition, offset, ms, key, value, _unpack(headers))
                for offset, ms, key, value, headers in rows
            ]

    def first_since(self, where: TopicPartition, timestamp_ms: int) -> int | None:
        """Return the first offset written at or after that time."""
        with self._using() as connection:
            row = connection.execute(
                "SELECT offset FROM records WHERE partition = ? AND ms >= ? ORDER BY offset LIMIT 1",
                (self._ids[where], timestamp_ms),
            ).fetchone()
        return None if row is None else int(row[0])

    def close(self) -> None:
        """Close the file and its lock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        if self._connection is None:
            message = f"the log {self._path} is closed"
            raise OSError(message)
        try:
            yield self._connection
        except sqlite3.Error as error:
            raise OSError(str(error)) from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("BEGIN IMMEDIATE")  # takes the lock, kept until the connection closes
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found == 0:
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
        if found == 1:
            connection.execute("ALTER TABLE topics ADD COLUMN record_bytes INTEGER")
        if found < _FORMAT:
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
        connection.execute("COMMIT")
        if found > _FORMAT:
            raise StartupError(f"the log {self._path} was written by a newer version of Pumice")

    def _fill(self, connection: sqlite3.Connection, state: State) -> None:
        for name, partitions, cleanup, retention_ms, config, most in connection.execute(
            "SELECT * FROM topics"
        ):
            state.topics[name] = TopicSpec(
                name, partitions, Cleanup(cleanup), retention_ms, json.loads(config), most
            )
        rows = connection.execute("SELECT id, topic, number, first, next FROM partitions").fetchall()
        names: dict[int, TopicPartition] = {}
        for identity, topic, number, first, following in rows:
            where = names[identity] = TopicPartition(topic, number)
            self._ids[where] = identity
            partition = Partition(where, state.topics[topic], start=first, end=following)
            state.partitions[where] = partition
            if partition.compacted:
                self._index(connection, identity, partition)
        for group, identity, offset in connection.execute("SELECT * FROM committed"):
            state.committed.setdefault(group, {})[names[identity]] = offset
        state.epochs.update(connection.execute("SELECT id, epoch FROM epochs").fetchall())

    @staticmethod
    def _index(connection: sqlite3.Connection, identity: int, partition: Partition) -> None:
        connection.execute(_REPLACED, (identity,))
        rows = connection.execute(
            "SELECT key, offset, ms, value IS NULL FROM records WHERE partition = ? ORDER BY offset",
            (identity,),
        )
        for key, offset, ms, tombstone in rows:
            partition.index(key, offset, ms, tombstone=bool(tombstone))

    def _write(self, connection: sqlite3.Connection, change: Change) -> None:
        for spec in change.topics:
            self._create(connection, spec)
        connection.executemany(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)",
            [
                (self._ids[d.where], d.offset, d.timestamp_ms, d.key, d.value, _pack(d.headers))
                for d in change.appended
            ],
        )
        connection.executemany(
            "UPDATE partitions SET next = ? WHERE id = ?",
            [(end, self._ids[where]) for where, end in change.ends.items()],
        )
        connection.executemany(
            "INSERT OR REPLACE INTO committed VALUES (?, ?, ?)",
            [
                (group, self._ids[where], offset)
                for group, offsets in change.committed.items()
                for where, offset in offsets.items()
            ],
        )
        connection.executemany("INSERT OR REPLACE INTO epochs VALUES (?, ?)", list(change.epochs.items()))
        for forget in change.forgotten:
            self._forget(connection, forget)

    def _create(self, connection: sqlite3.Connection, spec: TopicSpec) -> None:
        connection.execute(
            "INSERT INTO topics VALUES (?, ?, ?, ?, ?, ?)",
            (
                spec.name,
                spec.partitions,
                spec.cleanup.value,
                spec.retention_ms,
                json.dumps(dict(spec.config)),
                spec.record_bytes,
            ),
        )
        for number in range(spec.partitions):
            cursor = connection.execute(
                "INSERT INTO partitions (topic, number) VALUES (?, ?)", (spec.name, number)
            )
            self._ids[TopicPartition(spec.name, number)] = cursor.lastrowid or 0

    def _forget(self, connection: sqlite3.Connection, forget: Forget) -> None:
        identity = self._ids[forget.where]
        connection.execute("DELETE FROM records WHERE partition = ? AND offset < ?", (identity, forget.start))
        connection.executemany(
            "DELETE FROM records WHERE partition = ? AND offset = ?",
            [(identity, offset) for offset in forget.offsets],
        )
        connection.execute("UPDATE partitions SET first = ? WHERE id = ?", (forget.start, identity))


def _pack(headers: Headers) -> bytes:
    """Return headers as bytes: name and value in turn, each after its length (4 bytes)."""
    parts = [part for name, value in headers for part in (name.encode(), value)]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _unpack(packed: bytes) -> Headers:
    parts: list[bytes] = []
    at = 0
    while at < len(packed):
        end = at + 4 + int.from_bytes(packed[at : at + 4], "big")
        parts.append(packed[at + 4 : end])
        at = end
    return tuple((name.decode(), value) for name, value in zip(parts[::2], parts[1::2], strict=True))
