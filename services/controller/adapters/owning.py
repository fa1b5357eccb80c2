"""Whose the log is: one log tells of one cluster, and two that fill it would undo each other's facts.

The controller notes its cluster on ``cluster-state`` at the first start, and starts on no other's log. It is
a check at the start: it finds two platforms on one log, and does not arbitrate between two that start in the
same moment.
"""

from __future__ import annotations

from typing import Final

from services.controller.adapters.publisher import SOURCE
from shared.api import resources as r
from shared.api.meta import format_time
from shared.clock import Clock
from shared.errors import ContractError, NotFound, Refused, StartupError
from shared.events import topics
from shared.events.codec import data_of, encode
from shared.events.contracts import ClusterState
from shared.events.envelope import Envelope
from shared.kube.port import Cluster
from shared.log.port import EventLog, Record
from shared.telemetry.spans import hashed_id

KEY: Final = topics.state_key("cluster", "", "")
_NAMESPACE: Final = "kube-system"
"""Its UID is a cluster's, by convention: it is made once and cannot be deleted."""
_GLANCE_SECONDS: Final = 0.2


class Ownership:
    """Claims the log for a cluster, and gives it back."""

    def __init__(self, log: EventLog, cluster: Cluster, clock: Clock, *, where: str, replace: bool) -> None:
        self._log = log
        self._cluster = cluster
        self._clock = clock
        self._where = where
        self._replace = replace
        self._claimed = False
        self._holds = False

    async def claim(self) -> None:
        """Note that the log is this cluster's. A cluster that does not tell which it is claims nothing.

        Raises StartupError when it is another's, Unavailable.
        """
        if self._claimed:
            return
        uid = await self._uid()
        holder = await self._holder()
        if holder is not None and uid and holder.uid != uid:
            if not self._replace:
                raise StartupError(_refusal(self._where, holder, uid))
            holder = None
        if holder is None and uid:
            state = ClusterState(uid=uid, since=self._clock.now())
            envelope = Envelope(
                id=hashed_id(16, "cluster", uid, state.since.isoformat()),
                source=SOURCE,
                time=state.since,
                data=state,
                subject=KEY.decode(),
            )
            await self._log.producer.send(encode(topics.CLUSTER_STATE, KEY, envelope))
        self._claimed, self._holds = True, bool(uid)

    async def release(self) -> None:
        """Let the next cluster have the log: this one ends with its process."""
        if self._holds:
            await self._log.producer.send(Record(topics.CLUSTER_STATE, KEY, None))

    async def _uid(self) -> str:
        try:
            found = await self._cluster.get(r.NAMESPACES, None, _NAMESPACE)
        except (NotFound, Refused):
            return ""
        uid: str = found["metadata"]["uid"]
        return uid

    async def _holder(self) -> ClusterState | None:
        holder: ClusterState | None = None
        reader = await self._log.read([topics.CLUSTER_STATE])
        try:
            caught_up = False
            while not caught_up:
                for delivery in await reader.poll(timeout=_GLANCE_SECONDS):
                    if delivery.key == KEY:
                        try:
                            data = None if delivery.value is None else data_of(delivery)
                        except ContractError:
                            data = None  # of another version: it is claimed anew
                        holder = data if isinstance(data, ClusterState) else None
                caught_up = await reader.caught_up()
        finally:
            await reader.close()
        return holder


def _refusal(where: str, holder: ClusterState, uid: str) -> str:
    return (
        f"the log {where} is that of another cluster ({_NAMESPACE} {holder.uid}, since"
        f" {format_time(holder.since)}), this one is {uid}: give this one a log of its own; or, when the"
        " other is no more and nothing runs on it, start once with PUMICE_REPLACE_CLUSTER=true"
    )
