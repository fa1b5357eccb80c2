"""Spans as values, and the W3C trace context of a job.

A job has one trace. Its *root* span ``job`` is named by the traceparent that is kept in the Job's
annotation and travels in every message: trace id and the root's span id. No process holds a span open;
a span is built when its end is known, from events alone. Its id is a hash of what it describes, so
that a service which was killed and says it again says the same span, and the collector keeps one.

Who asked for the job may have a trace of its own. The job then joins that trace, under the asker's
span: the root's parent travels in ``tracestate`` as the member ``pumice`` (``pumice=0``: no parent). A
traceparent without that member is the asker's own, and :func:`job_trace` makes the job's from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MEMBER: Final = "pumice="
_NO_PARENT: Final = "0"
_SAMPLED: Final = 1
_MEMBERS_LIMIT: Final = 32  # W3C: a tracestate has at most 32 members


class TraceContext(NamedTuple):
    """A place in a trace: ids in lower-case hex (32 and 16 digits)."""

    trace_id: str
    span_id: str
    sampled: bool = True


class JobTrace(NamedTuple):
    """What a job's messages and annotations carry."""

    traceparent: str
    tracestate: str


class SpanStatus(StrEnum):
    """How what a span describes ended."""

    UNSET = "unset"
    OK = "ok"
    ERROR = "error"


Attribute = str | bool | int | float


@dataclass(frozen=True, slots=True)
class FinishedSpan:
    """A span with its true start and end. ``links`` are traceparents of spans in other traces."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    service: str
    start: datetime
    end: datetime
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    links: tuple[str, ...] = ()
    status: SpanStatus = SpanStatus.UNSET
    message: str = ""
    sampled: bool = True


def parse_traceparent(text: str | None) -> TraceContext | None:
    """Read a ``traceparent`` by the rules of W3C Trace Context level 1; None when it is not valid."""
    match = _TRACEPARENT.fullmatch(text.strip()) if text else None
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == "ff" or (version == "00" and rest) or not (int(trace_id, 16) and int(span_id, 16)):
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


def format_traceparent(context: TraceContext) -> str:
    """Write a context as ``traceparent``, version 00."""
    return f"00-{context.trace_id}-{context.span_id}-{int(context.sampled):02x}"


def new_traceparent(random_bytes: Callable[[int], bytes], *, sampled: bool = True) -> str:
    """Begin a trace that belongs to no job, e.g. a scheduling cycle's; the caller gives the randomness."""
    while True:
        context = TraceContext(random_bytes(16).hex(), random_bytes(8).hex(), sampled)
        text = format_traceparent(context)
        if parse_traceparent(text):
            return text


def hashed_id(size: int, *parts: str | int) -> str:
    """Return ``size`` bytes in hex, never all zeros, which depend on the parts and on nothing else."""
    text = "\x1f".join(map(str, parts))
    digest = blake2b(text.encode(), digest_size=size).hexdigest()
    return digest if int(digest, 16) else digest[:-1] + "1"


def job_trace(seed: str, traceparent: str | None = None, tracestate: str | None = None) -> JobTrace:
    """Return the trace context of the job named by ``seed`` (its submission's id, or its UID).

    What already is a job's context comes back as it is, so every service may call this on what it
    reads. Another valid traceparent is the asker's: the job joins its trace, below its span.
    """
    asker = parse_traceparent(traceparent)
    if asker is not None and _pumice_member(tracestate) is not None:
        return JobTrace(format_traceparent(asker), tracestate or "")
    trace_id = asker.trace_id if asker else hashed_id(16, "trace", seed)
    parent = asker.span_id if asker else _NO_PARENT
    root = TraceContext(trace_id, hashed_id(8, "job", seed, trace_id, parent), asker is None or asker.sampled)
    others = [
        member
        for part in (tracestate or "").split(",")
        if asker and (member := part.strip()) and not member.startswith(_MEMBER)
    ]
    members = [f"{_MEMBER}{parent}", *others[: _MEMBERS_LIMIT - 1]]
    return JobTrace(format_traceparent(root), ",".join(members))


def root_parent(tracestate: str | None) -> str | None:
    """Return the span id that a job's root span is a child of; None when the job began its trace."""
    parent = _pumice_member(tracestate)
    return parent if parent and re.fullmatch(r"[0-9a-f]{16}", parent) else None


def _pumice_member(tracestate: str | None) -> str | None:
    for part in (tracestate or "").split(","):
        member = part.strip()
        if member.startswith(_MEMBER):
            return member.removeprefix(_MEMBER)
    return None


def phase_span_id(traceparent: str, phase: str, generation: int = 0, occurrence: str = "") -> str:
    """Return the id of the span of one phase of a job.

    ``generation`` is the gang's; ``occurrence`` tells apart what may happen more than once in a
    generation (a decision's id).
    """
    return hashed_id(8, "phase", traceparent, phase, generation, occurrence)
