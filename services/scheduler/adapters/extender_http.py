"""The requests of Volcano's extender protocol: a POST of JSON for each question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

import aiohttp
import orjson

from services.scheduler.adapters.bodies import body_of
from services.scheduler.core.policy import Extender
from shared.clock import Clock

_OK: Final = 200
_MOST_MB: Final = 10
"""Of an answer, as in Volcano."""
_SOME: Final = 100
_MOST_WORDS: Final = 200
"""Characters of a refusal that are kept: it is told of many nodes."""


class Unanswered(Exception):  # noqa: N818 - it is no error of ours
    """It could not be asked; the message says why, in a line."""


async def predicate(
    session: aiohttp.ClientSession, extender: Extender, task: Mapping[str, Any], node: Mapping[str, Any]
) -> str:
    """Return what is said against a node, empty for nothing. Raises Unanswered."""
    found = await _post(session, extender, extender.predicate, {"task": task, "node": node})
    words = found.get("status") or found.get("errormessage") or ""
    if not isinstance(words, str):
        raise Unanswered(f"{extender.predicate}: answered with a status that is no text")
    return _line(words)


async def prioritize(
    session: aiohttp.ClientSession,
    extender: Extender,
    task: Mapping[str, Any],
    nodes: Sequence[orjson.Fragment],
) -> dict[str, float]:
    """Return how much nodes are liked, by name. Raises Unanswered."""
    found = await _post(session, extender, extender.prioritize, {"task": task, "nodes": nodes})
    scores, words = found.get("nodescore"), found.get("errormessage")
    if words or not isinstance(scores, dict):
        raise Unanswered(f"{extender.prioritize}: {_line(str(words or 'answered without scores'))}")
    if not all(type(one) in (int, float) and isfinite(one) for one in scores.values()):
        raise Unanswered(f"{extender.prioritize}: answered with a score that is no number")
    return {name: float(one) for name, one in scores.items()}


async def written(tasks: Iterable[Mapping[str, Any] | None], clock: Clock) -> list[orjson.Fragment]:
    """Return parts of a request as JSON, some at a time: nobody else waits for long."""
    found: list[orjson.Fragment] = []
    for number, one in enumerate(tasks, 1):
        if one is not None:
            found.append(orjson.Fragment(orjson.dumps(one)))
        if number % _SOME == 0:
            await clock.sleep(0)
    return found


async def victims(
    session: aiohttp.ClientSession,
    extender: Extender,
    verb: str,
    evictor: Mapping[str, Any],
    evictees: Sequence[orjson.Fragment],
) -> set[str] | None:
    """Return the UIDs of the pods that may go, None: it abstains. Raises Unanswered."""
    found = await _post(session, extender, verb, {"evictor": evictor, "evictees": evictees})
    named = found.get("victims") or []
    if not isinstance(named, list) or not all(isinstance(one, dict) for one in named):
        raise Unanswered(f"{verb}: answered with victims that are no list of tasks")
    if not found.get("status"):
        return None
    return {str(one.get("UID") or one.get("uid")) for one in named}


async def _post(
    session: aiohttp.ClientSession, extender: Extender, verb: str, body: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the answer, its keys in lower case: Go does not heed their case."""
    seconds = extender.timeout.total_seconds()
    timeout = aiohttp.ClientTimeout(total=seconds or None)
    try:
        async with session.post(
            f"{extender.url}/{verb.lstrip('/')}",
            data=orjson.dumps(body),
            headers={"Content-Type": "application/json"},
            timeout=timeout,
        ) as answer:
            if answer.status != _OK:
                raise Unanswered(f"{verb}: answered with status {answer.status}")
            content = await body_of(answer, _MOST_MB)
    except TimeoutError:
        raise Unanswered(f"{verb}: no answer within {seconds:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unanswered(f"{verb}: {_line(str(error) or type(error).__name__)}") from error
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise Unanswered(f"{verb}: answered with no JSON") from None
    if not isinstance(found, dict):
        raise Unanswered(f"{verb}: answered with JSON that is no object")
    return {key.lower(): value for key, value in found.items()}


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_WORDS else f"{line[:_MOST_WORDS]} …"
