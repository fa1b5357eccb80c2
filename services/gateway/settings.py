"""What the gateway can be told."""

from __future__ import annotations

from pydantic import Field

from shared.settings import CommonSettings


class GatewaySettings(CommonSettings):
    """Environment variables ``PUMICE_<FIELD>``; times are in seconds, sizes in bytes."""

    host: str = Field(
        "127.0.0.1",
        description="Address to listen on. Loopback, because requests are not authenticated; "
        "0.0.0.0 behind a proxy that does.",
    )
    port: int | None = Field(
        8080, ge=0, le=65535, description="Port of the API; 0 takes a free one, null serves nothing."
    )
    max_body: int = Field(
        3 * 1024 * 1024,
        ge=1024,
        description="Longest request body. Kubernetes stores no object over 1.5 MiB; YAML is longer.",
    )
    log_patience: float = Field(
        5.0, gt=0, description="Wait this long for the log to take a message, then answer 503."
    )
    default_wait: float = Field(30.0, gt=0, description="Timeout of ?wait= when the request gives none.")
    max_wait: float = Field(
        3600.0, gt=0, description="Longest timeout of ?wait=; proxies cut idle requests off before that."
    )
    heartbeat: float = Field(
        15.0, gt=0, description="Pause between comments in an idle event stream; proxies cut at 30 to 60 s."
    )
    keep_jobs: int = Field(
        10_000,
        ge=0,
        description="Jobs that ended and are gone from Kubernetes kept in memory (about 5 kB each).",
    )
    keep_for: float = Field(
        7 * 24 * 3600.0, gt=0, description="Keep such jobs no longer than this: the log keeps a week as well."
    )
    prune_pause: float = Field(60.0, gt=0, description="Pause between two rounds of forgetting.")
    keep_alive: float = Field(
        75.0,
        gt=0,
        description="Close a connection that is idle for this long. Longer than clients keep theirs, or a "
        "request on its way meets a connection that is being closed.",
    )
    shutdown_patience: float = Field(
        3.0, gt=0, description="Give open requests this long to end when the gateway stops."
    )
    user_header: str = Field(
        "",
        description="Header in which an authenticating proxy names the user, e.g. X-Forwarded-User; "
        "empty: submissions are anonymous.",
    )
