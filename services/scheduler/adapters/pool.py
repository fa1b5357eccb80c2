"""One node pool's scheduler: follows the state, runs cycles, publishes.

Start. The pool's transactional id is opened first: from then on an older scheduler of the pool is fenced
and none of its decisions becomes visible. What it decided and the controller has not finished is read
from ``bind-decisions``, from the controller's committed offset on; then ``cluster-state`` is read to its
end; then what of those decisions is not seen yet is counted as in flight. Only then cycles begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NoReturn, TypeVar

from services.scheduler.adapters.extender import Asker
from services.scheduler.adapters.feed import STATE, Feed, OnPool
from services.scheduler.adapters.measuring import Measuring
from services.scheduler.adapters.metrics import Metrics
from services.scheduler.adapters.mistakes import Mistakes
from services.scheduler.adapters.plugins import PluginErrors
from services.scheduler.adapters.policies import Policies
from services.scheduler.adapters.publish import (
    cycle_record,
    decision_record,
    decision_spans,
    report_end,
    report_record,
)
from services.scheduler.adapters.trials import answered
from services.scheduler.core.cycle import decide
from services.scheduler.core.decisions import Decision, Outcome
from services.scheduler.core.events import event_of
from services.scheduler.core.model import Model
from services.scheduler.core.own import PluginError
from services.scheduler.core.replay import Inputs, is_fresh
from services.scheduler.core.reports import Reporter
from services.scheduler.core.results import adopt, give_up, recall
from services.scheduler.settings import SchedulerSettings
from shared.clock import Clock
from shared.errors import ContractError, TooLarge, Unavailable
from shared.events import topics
from shared.events.codec import data_of
from shared.events.contracts import CycleDecided, Gang, GangDecided, Reason, TrialAnswered, TrialReady
from shared.log.port import (
    Delivery,
    EventLog,
    Reader,
    Record,
    TopicPartition,
    TransactionalProducer,
    up_to_now,
)
from shared.plugins import Maker
from shared.service import Health, Ids
from shared.telemetry.spans import FinishedSpan, TraceContext, format_traceparent, hashed_id
from shared.telemetry.telemetry import Telemetry

GROUP: Final = "scheduler"
_CONTROLLER_GROUP: Final = "controller"
_FIRST_RETRY: Final = 0.05
_LAST_RETRY: Final = 5.0
_POLL: Final = 1.0
_FRESH_PAUSE: Final = 1.0

T = TypeVar("T")


class Pool:
    """Schedules one pool while this process owns its partition."""

    def __init__(
        self,
        name: str,
        *,
        settings: SchedulerSettings,
        clock: Clock,
        log: EventLog,
        ids: Ids,
        telemetry: Telemetry,
        metrics: Metrics,
        health: Health,
        on_pool: OnPool,
        own: Mapping[str, Maker] | None = None,
    ) -> None:
        self.name = name
        self.model = Model(name, settings.policy())
        self._settings = settings
        self._clock = clock
        self._log = log
        self._ids = ids
        self._telemetry = telemetry
        self._metrics = metrics
        self._health = health
        self._measuring = Measuring(
            name, self.model.nodes, clock=clock, log=log, ids=ids, telemetry=telemetry, metrics=metrics
        )
        self._policies = Policies(
            self.model,
            from_log=settings.policy_file is None,
            own=own,
            on_source=self._measuring.follow,
            telemetry=telemetry,
            metrics=metrics,
            health=health,
        )
        self._plugin_errors = PluginErrors(name, telemetry, metrics)
        self._asker = Asker(
            self.model,
            refresh=settings.extender_refresh,
            clock=clock,
            say=self._send,
            ids=ids,
            telemetry=telemetry,
            metrics=metrics,
        )
        self._feed = Feed(self.model, telemetry, on_pool=on_pool, on_policy=self._policies.told)
        self._reporter = Reporter(self.model, timedelta(seconds=settings.estimate_pause))
        self._mistakes = Mistakes(name, metrics, telemetry)
        self._producer: TransactionalProducer | None = None
        self._wake = asyncio.Event()
        self._alarm: asyncio.Task[None] | None = None
        self._offsets: dict[TopicPartition, int] = {}
        self._inputs = Inputs()
        self._fresh_due = 0.0
        self._cycle = 0
        self._changed = True
        self._caught_up = False

    # ------------------------------------------------------------------ input

    def ready(self, gang: Gang, traceparent: str | None, where: TopicPartition, offset: int) -> None:
        """Take in a gang from ``podgroup-ready``; its offset is committed with the next decisions."""
        self.model.gang_ready(gang, traceparent)
        self._offsets[where] = offset + 1
        self._inputs.took(where, offset)
        self._notice()

    def policy(self, text: str, source: str) -> None:
        """Take a configuration; it holds from the next cycle on, if it can be used."""
        self._policies.take(text, source)
        self._notice()

    def try_out(self, event: TrialReady, now: datetime) -> TrialAnswered | None:
        """Say what would be decided about a gang; None while nothing is decided here."""
        if not (self._caught_up and self._policies.usable):
            return None
        self._asker.notice()
        try:
            return answered(self.model, event, now)
        except PluginError as error:
            self._telemetry.log.warning("nothing can be tried out: %s", error, extra={"pool": self.name})
            return None

    async def run(self) -> None:
        """Schedule until cancelled.

        Raises Fenced when a newer scheduler took the pool, PluginError when a plugin that must not fail did.
        """
        self._health.waits(f"pool {self.name}", "reading the cluster's state")
        try:
            await self._patiently(self._open)
            state, results = await self._patiently(self._catch_up)
            self._policies.start()
            self._caught_up = True
            self._health.ok(f"pool {self.name}")
            self._telemetry.log.info(
                "scheduling",
                extra={"pool": self.name, "nodes": self.model.nodes.count, "gangs": len(self.model.gangs)},
            )
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow(state, self._state))
                tasks.create_task(self._follow(results, self._result))
                tasks.create_task(self._cycles())
                tasks.create_task(self._reports())
                tasks.create_task(self._measuring.run())
                tasks.create_task(self._asker.run())
        finally:
            self._health.ok(f"pool {self.name}")
            self._policies.close()
            if self._alarm is not None:
                self._alarm.cancel()
            await self._close()

    async def _open(self) -> TransactionalProducer:
        """Return the pool's producer; opening it stops every older one."""
        if self._producer is None:
            self._producer = await self._log.transactional(f"pumice-scheduler-{self.name}")
        return self._producer

    async def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close()

    async def _catch_up(self) -> tuple[Reader, Reader]:
        ends = await self._log.end_offsets(topics.BIND_RESULTS)
        self._inputs.begin(await self._log.committed(GROUP, topics.PODGROUP_READY))
        back = {where: max(0, end - self._settings.results_lookback) for where, end in ends.items()}
        results = await self._log.read([topics.BIND_RESULTS], start=back)
        earlier, flying = await self._decided()
        told = await self._told()
        state = await self._log.read(STATE)
        while not await state.caught_up():
            for delivery in await state.poll(timeout=_POLL):
                self._state(delivery)
        now = self._clock.now()
        for event in earlier:
            recall(self.model, event, now)
        for event in flying:
            adopt(self.model, event, now)
        while not await results.caught_up():
            for delivery in await results.poll(timeout=_POLL):
                self._result(delivery)
        for namespace, name in told:
            gang = self.model.gangs.get((namespace, name))
            if gang is None or gang.contract.pool == self.name:
                self._reporter.remember(namespace, name)
        return state, results

    def _state(self, delivery: Delivery) -> bool:
        self._inputs.took(delivery.where, delivery.offset)
        return self._feed.state(delivery)

    def _result(self, delivery: Delivery) -> bool:
        self._inputs.took(delivery.where, delivery.offset)
        return self._feed.result(delivery)

    async def _decided(self) -> tuple[list[GangDecided], list[GangDecided]]:
        """Read the pool's last decisions that the controller has finished, and those that it has not.

        The finished ones may still keep room for a gang whose victims are leaving.
        """
        start = await self._log.committed(_CONTROLLER_GROUP, topics.BIND_DECISIONS)
        back = {where: max(0, at - self._settings.results_lookback) for where, at in start.items()}
        earlier: list[GangDecided] = []
        flying: list[GangDecided] = []
        async for delivery in up_to_now(self._log, [topics.BIND_DECISIONS], start=back):
            if delivery.key != self.name.encode() or delivery.value is None:
                continue
            try:
                event = data_of(delivery)
            except ContractError:
                continue
            if isinstance(event, GangDecided):
                done = delivery.offset < start.get(delivery.where, 0)
                (earlier if done else flying).append(event)
        return earlier, flying

    async def _told(self) -> list[tuple[str, str]]:
        """Return of which gangs there are reports, so that they are taken back when they are over.

        Read before the state: then a gang that the state does not have is gone, and not too new.
        """
        told: dict[bytes, bool] = {}
        async for delivery in up_to_now(self._log, [topics.SCHEDULING_REPORTS]):
            if delivery.key is not None:
                told[delivery.key] = delivery.value is not None
        names = (key.decode(errors="replace").partition("/") for key, is_open in told.items() if is_open)
        return [(namespace, name) for namespace, _, name in names]

    async def _follow(self, reader: Reader, apply: Callable[..., bool]) -> NoReturn:
        while True:
            deliveries = await self._patiently(lambda: reader.poll(timeout=_POLL))
            if any([apply(delivery) for delivery in deliveries]):  # noqa: C419 - every one is applied
                self._notice()

    def _notice(self) -> None:
        self._changed = True
        self._wake.set()

    # ------------------------------------------------------------------ cycles

    async def _cycles(self) -> NoReturn:
        """Decide at the first change at once, and at those that follow it soon together."""
        self._wake.set()
        rested = self._clock.monotonic()
        while True:
            await self._wake.wait()
            await self._clock.sleep(rested - self._clock.monotonic())
            self._wake.clear()
            while await self._once():
                await self._clock.sleep(0)
            rested = self._clock.monotonic() + self._settings.debounce

    async def _once(self) -> bool:
        """Decide and publish; say whether there is more to decide at once."""
        if not self._policies.usable:
            return False
        started, now = self._clock.monotonic(), self._clock.now()
        flying = self._flying(started)
        pauses = {name: until for name, until in self.model.pauses.items() if until > now}
        asked = self.model.asked
        outcome = decide(self.model, now, limit=self._settings.cycle_gangs)
        self._cycle += 1
        made = self._made(now, outcome, flying)
        if made is not None:
            made = made.model_copy(update={"pauses": pauses, "asked": asked})
        self._health.ok(f"plugins of pool {self.name}")
        self._plugin_errors.tell(self.model.policy, started)
        self._metrics.cycle.labels(self.name).observe(self._clock.monotonic() - started)
        if outcome.wake_at is not None:
            self._wake_in((outcome.wake_at - now).total_seconds())
        # A change is known before the cycle that finds out what it means: only now can reports tell of it.
        self._changed = True
        self._asker.notice()
        if made is not None:
            await self._publish(outcome.decisions, made)
        self._measure()
        return outcome.unfinished

    def _flying(self, at: float) -> tuple[str, ...] | None:
        """Return what is in flight where a replay may begin; None: it may not, or another begins nearby."""
        fresh = at >= self._fresh_due and is_fresh(self.model)
        return tuple(self.model.flights.by_number) if fresh else None

    def _made(self, now: datetime, outcome: Outcome, flying: tuple[str, ...] | None) -> CycleDecided | None:
        """Return what it takes to make a cycle again; None for one that a replay can do without."""
        if not outcome.decisions and not outcome.unfinished:
            return None
        if flying is not None:
            self._fresh_due = self._clock.monotonic() + _FRESH_PAUSE
        return CycleDecided(
            pool=self.name,
            cycle=self._cycle,
            at=now,
            inputs=self._inputs.read(),
            limit=self._settings.cycle_gangs,
            policy=self.model.policy.digest,
            decisions=tuple(one.number for one in outcome.decisions),
            fresh=flying is not None,
            flying=flying or (),
        )

    async def _publish(self, decisions: list[Decision], made: CycleDecided) -> None:
        """Publish decisions with the offsets of what they answer, in one transaction."""
        started = self._clock.monotonic()
        began = made.at
        context = TraceContext(
            hashed_id(16, "cycle", self._ids()), hashed_id(8, "cycle", self.name, self._cycle)
        )
        policy = self.model.policy.digest
        events = [
            event_of(one, self.name, self._cycle, format_traceparent(context), policy) for one in decisions
        ]
        published = self._clock.now()
        records = [
            decision_record(event, one.traceparent, published)
            for one, event in zip(decisions, events, strict=True)
        ]
        records.append(cycle_record(made, self._ids()))
        refused = await self._say(records, dict(self._offsets))
        for number, error in refused.items():
            self._hold(decisions[number], error)
        said = [
            pair for number, pair in enumerate(zip(decisions, events, strict=True)) if number not in refused
        ]
        self._metrics.publish.labels(self.name).observe(self._clock.monotonic() - started)
        self._metrics.decisions.labels(self.name).inc(len(said))
        self._metrics.pods.labels(self.name).inc(sum(len(one.rows) for one, _ in said))
        for one, event in said:
            reason = self._reporter.reason_of((one.namespace, one.name))
            for span in decision_spans(one, event, published, reason):
                self._telemetry.emit(span)
        self._telemetry.emit(
            FinishedSpan(
                context.trace_id,
                context.span_id,
                None,
                "cycle",
                "scheduler",
                began,
                self._clock.now(),
                {"pumice.pool": self.name, "pumice.cycle": self._cycle, "pumice.decisions": len(said)},
            )
        )

    async def _say(self, records: list[Record], offsets: dict[TopicPartition, int]) -> dict[int, TooLarge]:
        """Publish; return by number those that are too large for the log, which keep no other back."""
        try:
            await self._patiently(lambda: self._transact(records, offsets))
        except TooLarge:
            refused: dict[int, TooLarge] = {}
        else:
            return {}
        for number, record in enumerate(records):
            try:
                await self._patiently(partial(self._transact, [record], {}))
            except TooLarge as error:
                refused[number] = error
        if offsets:
            await self._patiently(lambda: self._transact([], offsets))
        return refused

    def _hold(self, decision: Decision, error: TooLarge) -> None:
        """Hold a gang whose decision is too large, and say why."""
        message = (
            f"its decision about {len(decision.rows)} pods has {error.size} bytes, "
            f"a record of the log at most {error.limit}"
        )
        reason = Reason(
            code="decision-too-large",
            message=message,
            numbers={"pods": len(decision.rows), "bytes": error.size, "limit": error.limit},
            next_step="lower the gang's minimum, or divide it",
        )
        give_up(self.model, decision, reason)
        self._metrics.too_large.labels(self.name).inc()
        gang = f"{decision.namespace}/{decision.name}"
        self._telemetry.log.warning("a gang is held: %s", message, extra={"pool": self.name, "gang": gang})
        self._notice()

    async def _transact(self, records: list[Record], offsets: dict[TopicPartition, int]) -> None:
        """Publish all or nothing. A commit whose answer was lost is repeated: a decision may come twice.

        A producer whose transaction failed is spent: the next try is by a new one.
        """
        producer = await self._open()
        try:
            async with producer.transaction() as transaction:
                for record in records:
                    await transaction.send(record)
                if offsets:
                    await transaction.commit_offsets(GROUP, offsets)
        except Unavailable:
            await self._close()
            raise

    def _wake_in(self, seconds: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.create_task(self._ring(seconds))

    async def _ring(self, seconds: float) -> None:
        await self._clock.sleep(max(0.0, seconds))
        self._wake.set()

    # ------------------------------------------------------------------ reports

    async def _reports(self) -> NoReturn:
        """Tell what changed about those that wait, now and then, beside the cycles."""
        while True:
            if self._changed or self._reporter.is_due(self._clock.now()):
                self._changed = False
                await self._report()
            await self._clock.sleep(self._settings.report_pause)

    async def _report(self) -> None:
        self._mistakes.tell(self.model.queues.faults())
        self._reporter.begin(self._clock.now())
        while self._reporter.foresee():
            await self._clock.sleep(0)
        while (reports := self._reporter.some(self._clock.now(), self._settings.report_slice)) is not None:
            records = [report_record(report, self.name, self._ids()) for report in reports]
            await self._send(records)
            self._metrics.reports.labels(self.name).inc(len(records))
            await self._clock.sleep(0)
        await self._send([report_end(key) for key in self._reporter.ended()])

    async def _send(self, records: list[Record]) -> None:
        if records:
            await self._patiently(lambda: self._log.producer.send_many(records))

    def _measure(self) -> None:
        model, metrics = self.model, self._metrics
        metrics.waiting.labels(self.name).set(len(model.unplaced))
        metrics.in_flight.labels(self.name).set(len(model.flights))
        metrics.nodes.labels(self.name).set(model.nodes.count)
        metrics.given_up.labels(self.name).set(model.flights.given_up)

    async def _patiently(self, action: Callable[[], Awaitable[T]]) -> T:
        """Do it, again and again while the log is away (its adapter says so, once for everybody)."""
        wait, failed = _FIRST_RETRY, False
        while True:
            try:
                result = await action()
            except Unavailable as error:
                if not failed:
                    self._telemetry.log.info("tried again: %s", error, extra={"pool": self.name})
                failed = True
                self._health.waits("log", str(error))
                await self._clock.sleep(wait)
                wait = min(2 * wait, _LAST_RETRY)
            else:
                if failed:
                    self._health.ok("log")
                return result
