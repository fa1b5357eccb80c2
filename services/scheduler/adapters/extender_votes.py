"""Asks an extender which pods may be evicted for gangs that wait, and writes what it said.

A question is about one gang and all the pods that could make room for it; as pods come, it is asked about
these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import aiohttp

from services.scheduler.adapters.extender_http import Unanswered, victims, written
from services.scheduler.adapters.extender_line import Asked, Line, Say, silent
from services.scheduler.core import asking
from services.scheduler.core.answers import Known, Verdict
from services.scheduler.core.model import Model
from services.scheduler.core.pods import Pod
from services.scheduler.core.policy import Extender
from shared.clock import Clock
from shared.events import topics
from shared.events.contracts import Gang
from shared.log.port import Record

_AT_ONCE: Final = 500
"""Pods of one request."""

Pods = Mapping[str, tuple[tuple[str, str], Pod]]
"""By UID, those on nodes with their names."""


class VoteAsker:
    """Asks for one pool."""

    def __init__(self, model: Model, line: Line, *, refresh: float, clock: Clock, say: Say) -> None:
        self._model = model
        self._answers = model.nodes.answers
        self._line = line
        self._refresh = refresh
        self._clock = clock
        self._say = say
        self._asked: dict[str, Asked] = {}

    async def round(self, session: aiohttp.ClientSession, extender: Extender) -> None:
        """Ask for all gangs that wait and somebody could be evicted for."""
        pods: Pods | None = None
        for question, (verb, gang) in list(self._answers.votes.items()):
            if self._model.policy.extender != extender:
                return
            if not self._waits(gang):
                await self._drop(question)
                continue
            known = self._answers.known.get(question)
            asked = self._asked.setdefault(question, Asked())
            names = self._due(question, known, asked)
            if not names:
                continue
            pods = pods or self._pods()
            there = [uid for uid in names if uid in pods]
            before = {} if known is None else {uid: one for uid, one in known.verdicts.items() if uid in pods}
            if self._line.is_down:
                verdicts = before | silent(there, self._line.error)
                new = Known(verdicts, {}, self._clock.now(), known is not None and known.abstains)
            else:
                started = self._clock.monotonic()
                earlier = Known(before, {}, self._clock.now(), known is not None and known.abstains)
                new, error = await self._ask(session, extender, question, verb, gang, there, pods, earlier)
                self._line.heard(error)
                if not error and set(there) >= before.keys():
                    asked.at = started
            if new.differ(known):
                await self._line.write(question, new, "pods", asked, again=self._refresh)

    def _waits(self, contract: Gang) -> bool:
        gang = self._model.gangs.get((contract.namespace, contract.name))
        same = gang is not None and gang.contract.ref == contract.ref
        return same and gang in self._model.unplaced

    async def _drop(self, question: str) -> None:
        """Forget a question that nobody has any more."""
        self._answers.votes.pop(question, None)
        self._answers.lacking.pop(question, None)
        self._asked.pop(question, None)
        if question in self._answers.known:
            key = topics.answer_key(self._model.pool, question)
            await self._say([Record(topics.EXTENDER_ANSWERS, key, None)])

    def _due(self, question: str, known: Known | None, asked: Asked) -> list[str]:
        """Return the UIDs of the pods to be asked about now."""
        if not asked.is_open(known, self._clock.monotonic()):
            return []
        names = dict.fromkeys(self._answers.lacking.get(question, ()))
        if known is not None and not self._line.is_down:
            if self._clock.monotonic() - asked.at >= self._refresh:
                names |= dict.fromkeys(known.verdicts)
            names |= dict.fromkeys(known.unanswered)
            if names and known.abstains:  # it may have something to say by now: of all of them, or of none
                names |= dict.fromkeys(known.verdicts)
        return list(names)

    def _pods(self) -> Pods:
        table = self._model.victims
        table.refresh()
        pairs = zip(table.keys, table.pods, strict=True)
        return {pod.uid: (key, pod) for key, pod in pairs if pod is not None and pod.slot >= 0}

    async def _ask(
        self,
        session: aiohttp.ClientSession,
        extender: Extender,
        question: str,
        verb: str,
        gang: Gang,
        uids: list[str],
        pods: Pods,
        earlier: Known,
    ) -> tuple[Known, str]:
        """Return what is then known beside what was, and why it could not be asked about some."""
        verdicts, error = dict(earlier.verdicts), ""
        abstentions: list[bool] = []
        evictor = asking.evictor(question, gang)
        for begin in range(0, len(uids), _AT_ONCE):
            some = uids[begin : begin + _AT_ONCE]
            if error:
                verdicts |= silent(some, error)
                continue
            parts = (asking.evictee(self._model, *pods[uid][0], pods[uid][1]) for uid in some)
            evictees = await written(parts, self._clock)
            try:
                found = await victims(session, extender, verb, evictor, evictees)
            except Unanswered as unanswered:
                error = str(unanswered)
                verdicts |= silent(some, error)
            else:
                abstentions.append(found is None)
                verdicts |= {uid: Verdict(accepted=found is None or uid in found) for uid in some}
            self._line.count(verb, failed=bool(error))
        abstains = any(abstentions) if abstentions else earlier.abstains
        return Known(verdicts, {}, self._clock.now(), abstains), error
