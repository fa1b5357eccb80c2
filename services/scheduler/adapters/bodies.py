"""Answers over HTTP, of which no more is read than they may have."""

from __future__ import annotations

from typing import Final

import aiohttp

_MB: Final = 1 << 20


async def body_of(answer: aiohttp.ClientResponse, most_mb: int) -> bytes:
    """Return all of an answer. Raises ValueError, in a line, where it is larger than so many MB."""
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_any():
        size += len(part)
        if size > most_mb * _MB:
            raise ValueError(f"answered with more than {most_mb} MB")
        parts.append(part)
    return b"".join(parts)
