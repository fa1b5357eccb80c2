"""What the in-process log asks of a disk. Every call blocks and is made from one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.log.core.state import Change, State
    from shared.log.port import Delivery, TopicPartition


class Store(Protocol):
    """Durable changes and the records that memory no longer holds.

    Raises OSError for whatever the disk refuses; a refused ``write`` has changed nothing.
    """

    def load(self, state: State) -> None:
        """Open and fill ``state`` with all but the records. Raises StartupError."""
        ...

    def write(self, changes: Sequence[Change]) -> None:
        """Make all of ``changes`` durable, or none."""
        ...

    def read(self, where: TopicPartition, position: int, limit: int) -> list[Delivery]:
        """Return up to ``limit`` records from ``position``."""
        ...

    def first_since(self, where: TopicPartition, timestamp_ms: int) -> int | None:
        """Return the offset of the first record as young as that, if there is one."""
        ...

    def close(self) -> None:
        """Close the files."""
        ...
