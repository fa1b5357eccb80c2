"""Plays the same steps on both sides and says where the answers differ."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence as Steps
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.differential.differences import DIFFERENCES, Difference
from tests.differential.normalising import Normaliser
from tests.differential.sequences import Player
from tests.differential.servers import Answer, Server

JSON = dict[str, Any]


@dataclass
class Side:
    """One server within one sequence."""

    player: Player
    normaliser: Normaliser

    def play(self, steps: Steps[JSON], bridges: Steps[Difference]) -> list[Answer]:
        """Play steps; return the answers made comparable."""
        answers = []
        for step in steps:
            if prefix := _generates(step.get("body")):
                self.normaliser.expect(prefix)
            answers.append(self.comparable(self.player.play(step), step, bridges))
        return answers

    def comparable(self, answer: Answer, step: JSON, bridges: Steps[Difference]) -> Answer:
        """Take away what a server chooses, and what differs on purpose."""
        body = answer.body if step.get("managers") else without_managers(answer.body)
        answer = self.normaliser.answer(answer._replace(body=body))
        for difference in bridges:
            if difference.bridge is not None:
                answer = difference.bridge(answer)
        return answer


@dataclass
class Pair:
    """The real API server and the simulator, asked at the same time; counts what it compared."""

    real: Server
    simulated: Server
    prefix: str
    compared: int = 0
    _sequences: int = 0
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2))

    def sides(self) -> tuple[Side, Side]:
        """Begin a sequence: a new namespace on both sides."""
        self._sequences += 1
        name = f"{self.prefix}-{self._sequences}"
        sides = [
            Side(Player(server, name), Normaliser(server.address)) for server in (self.real, self.simulated)
        ]
        list(self._threads.map(_prepare, sides))
        return sides[0], sides[1]

    def play(
        self, sides: tuple[Side, Side], steps: Steps[JSON], bridges: Steps[Difference] = DIFFERENCES
    ) -> list[str]:
        """Play steps on both sides; return a readable difference for each answer that differs."""
        real, simulated = self._threads.map(lambda side: side.play(steps, bridges), sides)
        self.compared += len(steps)
        return [
            told(step, one, other)
            for step, one, other in zip(steps, real, simulated, strict=True)
            if one != other
        ]

    def close(self) -> None:
        """End the threads and connections."""
        self._threads.shutdown()
        self.real.close()
        self.simulated.close()


def _prepare(side: Side) -> None:
    """Make the namespace, and what a controller makes in a new one: the account that pods need."""
    server, name = side.player.server, side.player.namespace
    made = server.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.status == 201, made
    path = f"/api/v1/namespaces/{name}/serviceaccounts"
    account = server.send("POST", path, {"metadata": {"name": "default"}})
    assert account.status in (201, 409), account


def _generates(body: Any) -> str:
    meta = body.get("metadata") if isinstance(body, dict) else None
    return str(meta.get("generateName", "")) if isinstance(meta, dict) else ""


def without_managers(value: Any) -> Any:
    """Return a value without ``managedFields``, which only steps about server-side apply compare."""
    if isinstance(value, dict):
        return {key: without_managers(one) for key, one in value.items() if key != "managedFields"}
    if isinstance(value, list):
        return [without_managers(one) for one in value]
    return value


def told(step: JSON, real: Answer, simulated: Answer) -> str:
    """Write what differs for people."""
    before, after = (
        [f"{part}: {text}" for part, text in zip(answer._fields, _lines(answer), strict=True)]
        for answer in (real, simulated)
    )
    lines = [line for one in before for line in one.splitlines()]
    others = [line for one in after for line in one.splitlines()]
    shown = "\n".join(list(difflib.unified_diff(lines, others, "real", "simulator", lineterm="", n=2))[:80])
    return f"{json.dumps(step)[:300]}\n{shown}"


def _lines(answer: Answer) -> list[str]:
    return [
        json.dumps(part, indent=1, sort_keys=True) if isinstance(part, (dict, list)) else str(part)
        for part in answer
    ]
