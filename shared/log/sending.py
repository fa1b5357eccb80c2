"""Sending records of which some may be too large: those keep no other back."""

from __future__ import annotations

from collections.abc import Sequence

from shared.errors import TooLarge
from shared.log.port import Producer, Record


async def send_what_fits(producer: Producer, records: Sequence[Record]) -> dict[int, TooLarge]:
    """Append in order; return by number those that the log refuses as too large. Raises Unavailable.

    When there is such a one, each is sent by itself, and some of the others may be there twice.
    """
    try:
        await producer.send_many(records)
    except TooLarge:
        refused: dict[int, TooLarge] = {}
    else:
        return {}
    for number, record in enumerate(records):
        try:
            await producer.send(record)
        except TooLarge as error:
            refused[number] = error
    return refused
