"""Where a stream of a job's events has come to.

The id of a server-sent event names the last offset that was sent of every topic's partition. A client
that comes back with it (``Last-Event-ID``) gets exactly what it has not seen, also from another gateway
or after a restart, in whatever order the topics were read then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from services.gateway.core.facts import Entry
from shared.events import topics

_CODES: Final = {
    topics.JOB_SUBMITTED: "s",
    topics.JOB_ADMITTED: "a",
    topics.JOB_REJECTED: "x",
    topics.JOB_COMMANDS: "c",
    topics.JOB_LIFECYCLE: "l",
    topics.BIND_DECISIONS: "d",
    topics.BIND_RESULTS: "b",
    topics.SCHEDULING_REPORTS: "r",
}
_TOPICS: Final = {code: topic for topic, code in _CODES.items()}


@dataclass(slots=True)
class Cursor:
    """The last offset seen, by topic and partition."""

    seen: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])

    def advance(self, entry: Entry) -> None:
        """Note that an entry was sent."""
        where = (entry.topic, entry.partition)
        self.seen[where] = max(entry.offset, self.seen.get(where, -1))

    def unseen(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return what was not sent yet, in the order given.

        Entries of one partition are given in order of their offsets, or both would not be sent.
        """
        return [
            entry for entry in entries if entry.offset > self.seen.get((entry.topic, entry.partition), -1)
        ]

    def text(self) -> str:
        """Return the cursor as an event's id, e.g. ``a0:7,l2:19``."""
        return ",".join(
            f"{_CODES[topic]}{partition}:{offset}" for (topic, partition), offset in sorted(self.seen.items())
        )

    @staticmethod
    def parse(text: str) -> Cursor:
        """Read an id; parts that make no sense are skipped (the client sees some events twice)."""
        cursor = Cursor()
        for part in text.split(","):
            where, _, offset = part.strip().partition(":")
            topic = _TOPICS.get(where[:1])
            if topic and where[1:].isdecimal() and offset.isdecimal():
                cursor.seen[topic, int(where[1:])] = int(offset)
        return cursor
