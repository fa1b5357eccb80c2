"""The scheduler's composition root, and which pools this process schedules.

A pool belongs to the process that owns the partition of ``podgroup-ready`` to which the pool's name maps.
Each pool has its own model, readers and transactional producer, and its own tasks.

A pool whose producer is fenced has been taken over, or a transaction was open for longer than the log
allows (an outage). Which of the two, the group says: the process gives everything up and joins anew, and
schedules again what it is given then, from a model built anew. So a process that hung becomes a standby.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from services.scheduler.adapters.metrics import Metrics
from services.scheduler.adapters.policies import first_of_file, follow_file
from services.scheduler.adapters.pool import GROUP, Pool
from services.scheduler.adapters.publish import SOURCE
from services.scheduler.adapters.trials import nowhere
from services.scheduler.core.configuration import configure
from services.scheduler.core.own import PluginError
from services.scheduler.settings import SchedulerSettings
from shared.clock import Clock
from shared.errors import ContractError, Fenced, Unavailable
from shared.events import topics
from shared.events.codec import decode
from shared.events.contracts import Contract, GangReady, TrialReady
from shared.events.dead_letters import bury
from shared.events.tailing import tail
from shared.events.trials import trial_record
from shared.liveness import watch
from shared.log.core.partitioner import partition_for
from shared.log.port import Consumer, Delivery, EventLog, TopicPartition
from shared.plugin_entries import installed
from shared.plugins import Maker
from shared.service import Health, Ids
from shared.telemetry.telemetry import Telemetry

_PAUSE: Final = 0.2
_POLL: Final = 1.0
_MEND_PAUSE: Final = 5.0


class Scheduler:
    """The running scheduler."""

    name = "scheduler"

    def __init__(
        self,
        settings: SchedulerSettings,
        *,
        clock: Clock,
        log: EventLog,
        ids: Ids,
        telemetry: Telemetry,
        own: Mapping[str, Maker],
    ) -> None:
        self.health = Health()
        self.pools: dict[str, Pool] = {}
        self._settings = settings
        self._clock = clock
        self._log = log
        self._ids = ids
        self._telemetry = telemetry
        self._metrics = Metrics(telemetry.registry)
        self._own = own
        self._policy = (
            None
            if settings.policy_file is None
            else first_of_file(settings.policy_file, settings.policy(), self._own)
        )
        self._known = set(settings.pools)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._partitions = 0
        self._assigned: frozenset[int] = frozenset()
        self._fenced = False
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Schedule until cancelled."""
        self.health.waits("start", "joining the group")
        self._partitions = await self._log.partitions(topics.PODGROUP_READY)
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(
                watch(
                    self._log.ping,
                    part="log",
                    health=self.health,
                    clock=self._clock,
                    pause=self._settings.ping_pause,
                    patience=self._settings.ping_patience,
                )
            )
            if self._settings.policy_file is not None and self._policy is not None:
                tasks.create_task(
                    follow_file(
                        self._settings.policy_file,
                        self._policy,
                        self._on_policy,
                        clock=self._clock,
                        telemetry=self._telemetry,
                    )
                )
            tasks.create_task(
                tail(self._log, topics.TRIALS, self._try_out, clock=self._clock, telemetry=self._telemetry)
            )
            while True:
                await self._schedule()

    async def _schedule(self) -> None:
        """Be a member of the group until one of our pools is fenced."""
        self._fenced = False
        consumer = await self._log.consume(
            GROUP, [topics.PODGROUP_READY], on_assigned=self._on_assigned, on_revoked=self._on_revoked
        )
        try:
            self.health.ok("start")
            await self._consume(consumer)
            for name in list(self._running):
                await self._leave(name)
            self._assigned = frozenset()
        finally:
            await consumer.close()

    # ------------------------------------------------------------------ policy

    def _on_policy(self, text: str) -> None:
        """A file says something else: all pools take it, and those to come if it can be used."""
        if not configure(text, self._settings.policy(), self._own).problems:
            self._policy = text
        for pool in self.pools.values():
            pool.policy(text, f"policy file {self._settings.policy_file}")

    # ------------------------------------------------------------------ pools

    async def _on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._assigned |= {where.partition for where in partitions}
        for name in sorted(self._known):
            self._take(name)

    async def _on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        lost = {where.partition for where in partitions}
        self._assigned -= lost
        for name in [name for name in self._running if self._partition(name) in lost]:
            await self._leave(name)

    def _partition(self, pool: str) -> int:
        return partition_for(pool.encode(), self._partitions)

    def _see(self, name: str) -> None:
        """Note that a pool exists."""
        if name not in self._known:
            self._known.add(name)
            self._take(name)

    def _take(self, name: str) -> None:
        """Schedule a pool if it is ours."""
        if self._tasks is None or name in self._running or self._partition(name) not in self._assigned:
            return
        pool = self.pools[name] = Pool(
            name,
            settings=self._settings,
            clock=self._clock,
            log=self._log,
            ids=self._ids,
            telemetry=self._telemetry,
            metrics=self._metrics,
            health=self.health,
            on_pool=self._see,
            own=self._own,
        )
        if self._policy is not None:
            pool.policy(self._policy, f"policy file {self._settings.policy_file}")
        self._running[name] = self._tasks.create_task(self._guard(pool))

    async def _guard(self, pool: Pool) -> None:
        try:
            await pool.run()
        except* Fenced:
            self._telemetry.log.warning(
                "another scheduler took this node pool over, or a transaction was open for too long; "
                "joining the group anew",
                extra={"pool": pool.name},
            )
            self._fenced = True
        except* PluginError as group:
            await self._mend(pool.name, group)

    async def _mend(self, name: str, errors: BaseExceptionGroup[PluginError]) -> None:
        """Begin a pool anew after a while: what its plugin left undone half way is of no use."""
        error: BaseException = errors
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        self._telemetry.log.error("%s: nothing is decided until it is mended", error, extra={"pool": name})
        self.health.waits(f"plugins of pool {name}", str(error))
        await self._clock.sleep(_MEND_PAUSE)
        del self._running[name]
        self._take(name)

    async def _leave(self, name: str) -> None:
        task = self._running.pop(name)
        self.pools.pop(name, None)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    # ------------------------------------------------------------------ trials

    async def _try_out(self, event: Contract) -> None:
        """Say what would be decided about a gang, if its pool is ours."""
        if not isinstance(event, TrialReady) or self._partition(event.gang.pool) not in self._assigned:
            return
        pool = self.pools.get(event.gang.pool)
        now = self._clock.now()
        answer = nowhere(event, now) if pool is None else pool.try_out(event, now)
        if answer is not None:
            await self._log.producer.send(trial_record(answer, f"{SOURCE}/{event.gang.pool}", now))

    # ------------------------------------------------------------------ podgroup-ready

    async def _consume(self, consumer: Consumer) -> None:
        while not self._fenced:
            try:
                deliveries = await consumer.poll(timeout=_POLL)
            except Unavailable:
                await self._clock.sleep(_PAUSE)
                continue
            for delivery in deliveries:
                await self._accept(delivery)

    async def _accept(self, delivery: Delivery) -> None:
        try:
            envelope = decode(delivery)
            event = envelope.data
        except ContractError as error:
            self._telemetry.log.warning("dead letter: %s", error, extra={"topic": delivery.topic})
            await self._bury(delivery, error)
            return
        if not isinstance(event, GangReady):
            return
        self._see(event.gang.pool)
        pool = self.pools.get(event.gang.pool)
        if pool is not None:
            pool.ready(event.gang, envelope.traceparent, delivery.where, delivery.offset)

    async def _bury(self, delivery: Delivery, error: ContractError) -> None:
        while True:
            try:
                await bury(self._log, delivery, error, self.name)
            except Unavailable:
                await self._clock.sleep(_PAUSE)
            else:
                return


def build(
    settings: SchedulerSettings,
    *,
    clock: Clock,
    log: EventLog,
    ids: Ids,
    telemetry: Telemetry,
    own: Mapping[str, Maker] | None = None,
) -> Scheduler:
    """Put a scheduler together; it needs no cluster. ``own``: plugins, those that are installed by default.

    Raises ConfigurationError for a policy file that cannot be used.
    """
    own = installed() if own is None else own
    return Scheduler(settings, clock=clock, log=log, ids=ids, telemetry=telemetry, own=own)
