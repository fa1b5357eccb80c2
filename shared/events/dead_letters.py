"""Dead letters: records that cannot be read or done, each kept as it was with the reason in its headers."""

from __future__ import annotations

from typing import Final

from shared.errors import ContractError, TooLarge
from shared.events.topics import dead_letter
from shared.log.port import Delivery, EventLog, Headers, Record

_LONGEST_MESSAGE: Final = 4000
_LONGEST_KEY: Final = 1000


async def bury(log: EventLog, delivery: Delivery, error: ContractError, service: str) -> None:
    """Put a record on its topic's dead-letter topic. Raises Unavailable.

    One that is too large together with its reason is cut: nobody can write a record that stops a topic.
    """
    record = dead_letter_record(delivery, error, service)
    try:
        await log.producer.send(record)
    except TooLarge as refused:
        await log.producer.send(_cut(record, delivery, refused))


def dead_letter_record(delivery: Delivery, error: ContractError, service: str) -> Record:
    """Return the record for the dead-letter topic: the original as it was, the reason in headers."""
    notes = {
        "dead_letter_reason": error.reason,
        "dead_letter_message": str(error)[:_LONGEST_MESSAGE],
        "dead_letter_service": service,
        "dead_letter_topic": delivery.topic,
        "dead_letter_partition": str(delivery.partition),
        "dead_letter_offset": str(delivery.offset),
    }
    headers: Headers = tuple((name, text.encode(errors="replace")) for name, text in notes.items())
    return Record(dead_letter(delivery.topic), delivery.key, delivery.value, (*delivery.headers, *headers))


def _cut(record: Record, delivery: Delivery, refused: TooLarge) -> Record:
    """Return the letter without the original's headers, and with half a record's bytes of its value."""
    size = len(delivery.value or b"")
    headers = (*record.headers[len(delivery.headers) :], ("dead_letter_cut_from", str(size).encode()))
    key = None if delivery.key is None else delivery.key[:_LONGEST_KEY]
    return Record(record.topic, key, (delivery.value or b"")[: refused.limit // 2], headers)
