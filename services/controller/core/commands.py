"""Commands about jobs, as orders and patches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from services.controller.core.lifecycle import Trigger
from services.controller.core.model import JSON, Wanted
from services.controller.core.policies import Order
from shared.events.contracts import CommandJob, JobAction

MOST_WORDS: Final = 1000
"""Characters of a command's reason that are kept: it is written into the job's status and told on."""
_TRIGGERS: Final = {
    JobAction.SUSPEND: Trigger.ABORT_JOB,
    JobAction.ABORT: Trigger.ABORT_JOB,
    JobAction.RESUME: Trigger.RESUME_JOB,
    JobAction.RESTART: Trigger.RESTART_JOB,
    JobAction.TERMINATE: Trigger.TERMINATE_JOB,
    JobAction.COMPLETE: Trigger.COMPLETE_JOB,
}


def order_of(command: CommandJob, command_id: str) -> Order:
    """Return the order that a command gives; ``delete`` and ``scale`` give none (KeyError)."""
    who = f" by {command.issued_by}" if command.issued_by else ""
    why = f": {command.reason}" if command.reason else ""
    return Order(
        _TRIGGERS[command.action],
        "CommandIssued",
        f"{command.action.value}{who}{why}"[:MOST_WORDS],
        command=command_id,
    )


def ultimatum(tries: int, error: str) -> Order:
    """Return the order that ends a job about which the API server has said no too often."""
    return Order(Trigger.TERMINATE_JOB, "RetryLimitReached", f"refused {tries} times in a row: {error}")


def is_final_refusal(message: str) -> bool:
    """Say whether trying again makes no difference; a used-up quota may be free again any moment."""
    return "exceeded quota" not in message


def scaled(wanted: Wanted, replicas: Mapping[str, int]) -> list[JSON]:
    """Return the JSON patch that gives tasks other numbers of replicas; empty when nothing changes.

    Minimums follow down where they would be more than there are pods, as admission demands. Each
    change tests the task's name, so that a list changed meanwhile is not patched in the wrong place.
    """
    patch: list[JSON] = []
    total, minimums = 0, 0
    for index, task in enumerate(wanted.tasks):
        count = replicas.get(task.name, task.replicas)
        total += count
        minimums += min(task.minimum, count)
        if count == task.replicas:
            continue
        path = f"/spec/tasks/{index}"
        if task.spec.name:
            patch.append({"op": "test", "path": f"{path}/name", "value": task.spec.name})
        patch.append({"op": "add", "path": f"{path}/replicas", "value": count})
        if task.spec.min_available is not None and task.minimum > count:
            patch.append({"op": "replace", "path": f"{path}/minAvailable", "value": count})
    if patch and wanted.min_available > total:
        patch.append({"op": "add", "path": "/spec/minAvailable", "value": min(total, minimums)})
    return patch
