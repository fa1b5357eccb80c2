"""From records to the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from services.scheduler.core.model import Model
from services.scheduler.core.results import apply_result
from shared.errors import ContractError
from shared.events import contracts as c
from shared.events import topics
from shared.events.codec import data_of
from shared.events.topics import parse_state_key
from shared.log.port import Delivery
from shared.telemetry.telemetry import Telemetry

_KINDS: Final = frozenset(
    {"node", "pod", "queue", "podgroup", "priorityclass", "poddisruptionbudget", "hypernode", "policy"}
)

STATE: Final = (
    topics.CLUSTER_STATE,
    topics.QUEUE_USAGE,
    topics.RUN_TIMES,
    topics.NODE_LOAD,
    topics.POOL_COMMANDS,
    topics.EXTENDER_ANSWERS,
)
"""The compacted topics that a scheduler follows."""

OnPool = Callable[[str], None]
OnPolicy = Callable[[c.PolicyState | None], None]


class Feed:
    """Applies what is read to one pool's model; what cannot be read is logged and left out.

    Unreadable state is not dead-lettered: it is its writer's to repair, and every reader would do so.
    """

    def __init__(self, model: Model, telemetry: Telemetry, *, on_pool: OnPool, on_policy: OnPolicy) -> None:
        self._model = model
        self._log = telemetry.log
        self._on_pool = on_pool
        self._on_policy = on_policy

    def state(self, delivery: Delivery) -> bool:
        """Apply a record of a compacted topic that is followed; say whether it concerns the scheduler."""
        match delivery.topic:
            case topics.QUEUE_USAGE:
                return self._usage(delivery)
            case topics.RUN_TIMES:
                return self._run_times(delivery)
            case topics.POOL_COMMANDS:
                return self._command(delivery)
            case topics.NODE_LOAD:
                return self._measured(delivery)
            case topics.EXTENDER_ANSWERS:
                return self._answer(delivery)
            case _:
                return delivery.key is not None and self._state(delivery, delivery.key)

    def _state(self, delivery: Delivery, key: bytes) -> bool:
        try:
            kind, namespace, name = parse_state_key(key)
        except ContractError as error:
            self._log.warning("unreadable key on cluster-state: %s", error, extra={"offset": delivery.offset})
            return False
        if kind not in _KINDS:
            return False
        if delivery.value is None:
            self._gone(kind, namespace, name)
            return True
        try:
            fact = data_of(delivery)
        except ContractError as error:
            self._log.warning("unreadable state of %s: %s", key.decode(), error)
            return False
        self._fact(fact)
        return True

    def result(self, delivery: Delivery) -> bool:
        """Apply a record of ``bind-results``."""
        event = self._read(delivery)
        if isinstance(event, c.DecisionApplied) and event.pool == self._model.pool:
            apply_result(self._model, event)
            return True
        return False

    def _usage(self, delivery: Delivery) -> bool:
        if delivery.key is None:
            return False
        event = self._read(delivery)
        if isinstance(event, c.QueueUsage):
            self._model.apply_usage(event)
        elif delivery.value is None:
            self._model.forget_usage(delivery.key.decode(errors="replace"))
        return isinstance(event, c.QueueUsage) or delivery.value is None

    def _run_times(self, delivery: Delivery) -> bool:
        event = self._read(delivery)
        if isinstance(event, c.TemplateRunTimes):
            self._model.apply_run_times(event)
        elif delivery.value is None:
            queue, _, template = (delivery.key or b"").decode(errors="replace").partition("/")
            self._model.forget_run_times(queue, template)
        return isinstance(event, c.TemplateRunTimes) or delivery.value is None

    def _command(self, delivery: Delivery) -> bool:
        event = self._read(delivery) if delivery.key == self._model.pool.encode() else None
        if not isinstance(event, c.CommandPool) or event.pool != self._model.pool:
            return False
        match event.action:
            case c.PoolAction.DEFRAGMENT:
                self._model.ask_to_move(event.at)
        return True

    def _measured(self, delivery: Delivery) -> bool:
        if delivery.key != self._model.pool.encode():
            return False
        event = self._read(delivery)
        if isinstance(event, c.NodesMeasured):
            self._model.apply_measured(event)
        elif delivery.value is None:
            self._model.forget_measured()
        return isinstance(event, c.NodesMeasured) or delivery.value is None

    def _answer(self, delivery: Delivery) -> bool:
        pool, _, question = (delivery.key or b"").decode(errors="replace").rpartition("/")
        if pool != self._model.pool:
            return False
        event = self._read(delivery)
        if isinstance(event, c.ExtenderAnswered):
            self._model.apply_answer(event)
        elif delivery.value is None:
            self._model.forget_answer(pool, question)
        return True

    def _fact(self, fact: c.Contract) -> None:
        match fact:
            case c.PodState():
                self._model.apply_pod(fact)
            case c.PodGroupState():
                self._model.apply_podgroup(fact)
                if fact.gang is not None:
                    self._on_pool(fact.gang.pool)
            case c.NodeState():
                self._model.apply_node(fact)
                self._on_pool(fact.pool)
            case c.QueueState():
                self._model.apply_queue(fact)
            case c.PriorityClassState():
                self._model.apply_priority_class(fact)
            case c.PodDisruptionBudgetState():
                self._model.apply_budget(fact)
            case c.HyperNodeState():
                self._model.apply_hypernode(fact)
            case c.PolicyState():
                self._on_policy(fact)
            case _:
                pass

    def _gone(self, kind: str, namespace: str, name: str) -> None:
        match kind:
            case "pod":
                self._model.remove_pod(namespace, name)
            case "podgroup":
                self._model.remove_podgroup(namespace, name)
            case "node":
                self._model.remove_node(name)
            case "priorityclass":
                self._model.remove_priority_class(name)
            case "poddisruptionbudget":
                self._model.remove_budget(namespace, name)
            case "hypernode":
                self._model.remove_hypernode(name)
            case "policy":
                self._on_policy(None)
            case _:
                self._model.remove_queue(name)

    def _read(self, delivery: Delivery) -> c.Contract | None:
        if delivery.value is None:
            return None
        try:
            return data_of(delivery)
        except ContractError as error:
            self._log.warning(
                "unreadable record on %s: %s", delivery.topic, error, extra={"offset": delivery.offset}
            )
            return None
