"""The log in memory: for ``pumice up``, tests and simulation. Gone with the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.log.core.state import Limits, State
from shared.log.inprocess.broker import Broker
from shared.log.inprocess.connection import InProcessLog

if TYPE_CHECKING:
    from shared.clock import Clock


class MemoryLog(InProcessLog):
    """A log of its own; records outlive a ``close`` as long as this object or a connection lives.

    Memory stays bounded: retention and compaction run as on disk, and a partition over
    ``limits.partition_bytes`` drops its oldest records once every group that commits there has
    consumed them, whatever the topic's retention says.
    """

    def __init__(self, clock: Clock, *, limits: Limits | None = None) -> None:
        super().__init__(Broker(clock, State(limits or Limits())))
