"""How the Kafka adapter behaves in time and size."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Times in seconds, sizes in bytes; beside each the reason of its default."""

    start_patience: float = 10.0
    """How long ``start`` waits for the broker: enough for one that starts with us, short for a typo."""
    patience: float | None = None
    """How long any other call waits for an absent broker; None: until cancelled, as services want it."""
    session_timeout: float = 6.0
    """Silence after which a member's partitions go to others: the least a broker accepts by default."""
    heartbeat_interval: float = 1.0
    """Also how soon a member learns of a rebalance."""
    rebalance_timeout: float = 30.0
    """How long ``on_revoked`` may take before the group goes on without the member."""
    request_timeout: float = 40.0
    """After that an unanswered request is given up and sent again; above the rebalance's timeout."""
    transaction_timeout: float = 60.0
    """The broker aborts a transaction that is open for longer and fences its producer; until then a
    dead producer's open transaction holds readers back."""
    transaction_retry: float = 0.01
    """Pause before a step of a transaction is asked for again: the broker refuses it for the few
    milliseconds in which the transaction before becomes visible."""
    close_timeout: float = 5.0
    """How long a close may take while the broker is away."""
    retry_interval: float = 0.2
    """Pause between attempts to reach an absent broker."""
    fetch_wait: float = 0.1
    """How long the broker holds a consumer's empty fetch; a resumed partition waits up to that long."""
    reader_fetch_wait: float = 0.5
    """The same for a reader: none of its partitions is ever resumed, so nothing waits for the end of a fetch,
    and most fetches of an idle platform are those of readers."""
    batch_bytes: int = 131_072
    """A partition's batch. It fills while the last one is on its way; nothing lingers."""
    record_bytes: int = 1_000_000
    """Limit of one record (key, value, headers) of a topic that has none of its own: with its overhead
    below the broker's 1,048,588."""
    request_bytes: int = 33_554_432
    """The client's own limit of a message: above every topic's, below the broker's 100 MiB for a request."""
    replication_factor: int = -1
    """Of created topics; -1 is the broker's default."""
