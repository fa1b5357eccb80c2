"""Asks Prometheus what nodes really use: two queries for all nodes, over HTTP.

The figures are those of node-exporter, as means of ten minutes. A node is known by the label ``instance``,
which has to be its name, as Volcano wants it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import isfinite
from typing import Any, Final

import aiohttp
import orjson

from services.scheduler.adapters.bodies import body_of
from services.scheduler.core.configuration import Source
from services.scheduler.core.load import MEAN
from shared.errors import Unavailable

_MOST_SECONDS: Final = 20.0
_MOST_WORDS: Final = 300
_MOST_MB: Final = 32
"""Of an answer: one has some 150 bytes for each instance."""
_OVER: Final = f"[{MEAN // timedelta(minutes=1)}m:30s]"
_CPU: Final = (
    f'avg_over_time(avg by (instance) (1 - rate(node_cpu_seconds_total{{mode="idle"}}[5m])){_OVER}) * 100'
)
_MEMORY: Final = (
    "(1 - avg_over_time((sum by (instance) (node_memory_MemAvailable_bytes)"
    f" / sum by (instance) (node_memory_MemTotal_bytes)){_OVER})) * 100"
)

Figures = dict[str, float]
"""Percent, by instance."""


async def figures(source: Source, at: datetime) -> tuple[Figures, Figures]:
    """Return what is used of CPU and of memory. Raises Unavailable, in a line, whatever goes wrong."""
    timeout = aiohttp.ClientTimeout(total=_MOST_SECONDS)
    try:
        connector = aiohttp.TCPConnector(ssl=source.verify)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            cpu = await _ask(session, source, _CPU, at)
            memory = await _ask(session, source, _MEMORY, at)
    except TimeoutError as error:
        raise Unavailable(f"no answer within {_MOST_SECONDS:g} s") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unavailable(" ".join(str(error).split())[:_MOST_WORDS] or type(error).__name__) from error
    return cpu, memory


async def _ask(session: aiohttp.ClientSession, source: Source, query: str, at: datetime) -> Figures:
    form = {"query": query, "time": f"{at.timestamp():.3f}"}
    async with session.post(f"{source.address}/api/v1/query", data=form) as answer:
        body = await body_of(answer, _MOST_MB)
        try:
            content = orjson.loads(body)
        except orjson.JSONDecodeError:
            content = None
        if not isinstance(content, dict) or content.get("status") != "success":
            why = content.get("error") if isinstance(content, dict) else None
            raise Unavailable(f"answered {answer.status}: {str(why or answer.reason)[:_MOST_WORDS]}")
    return _read(content)


def _read(content: dict[str, Any]) -> Figures:
    """Return the values of an instant vector by instance; what is no number is left out."""
    data = content.get("data")
    if not isinstance(data, dict) or data.get("resultType") != "vector":
        raise Unavailable("answered with something else than an instant vector")
    found: Figures = {}
    try:
        for series in data["result"]:
            name, value = series["metric"].get("instance"), float(series["value"][1])
            if name is not None and isfinite(value):
                found[name] = round(min(max(value, 0.0), 100.0), 3)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise Unavailable("answered with a vector that cannot be read") from error
    return found
