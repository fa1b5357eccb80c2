"""Errors by status and body, and the watch decoder, however the bytes are cut."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import AlreadyExists, Conflict, Gone, NotFound, Refused, Unavailable
from shared.kube.answers import WatchDecoder, error_of, retry_after


def status(code: int, reason: str, message: str = "the server's words", **details) -> bytes:
    return orjson.dumps(
        {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    )


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
        (400, "BadRequest", Refused),
        (401, "Unauthorized", Refused),
        (403, "Forbidden", Refused),
        (405, "MethodNotAllowed", Refused),
        (413, "RequestEntityTooLarge", Refused),
        (415, "UnsupportedMediaType", Refused),
        (422, "Invalid", Refused),
    ],
)
def test_each_status_has_its_error_with_the_servers_words(code, reason, expected):
    error = error_of(code, status(code, reason), "GET /x")
    assert type(error) is expected
    assert str(error) == "GET /x: the server's words"
    if isinstance(error, Refused):
        assert (error.status, error.reason) == (code, reason)


def test_a_version_that_the_server_does_not_know_yet_needs_a_new_list():
    body = status(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}])
    assert isinstance(error_of(504, body, "WATCH /x"), Gone)


@pytest.mark.parametrize("body", [b"<html>bad gateway</html>", b"", b"[]", b"\xff\xfe"])
def test_an_answer_that_is_no_status_is_still_an_error(body):
    assert isinstance(error_of(502, body, "GET /x"), Unavailable)


def test_retry_after_is_seconds_or_nothing():
    assert [retry_after(value) for value in ("1", "0.5", None, "", "Wed, 21 Oct 2026 07:28:00 GMT")] == [
        1.0,
        0.5,
        None,
        None,
        None,
    ]


def line(kind: str, name: str, size: int = 0) -> bytes:
    return orjson.dumps({"type": kind, "object": {"metadata": {"name": name}, "pad": "x" * size}}) + b"\n"


@given(st.lists(st.integers(0, 400), max_size=20), st.lists(st.integers(1, 300), min_size=1, max_size=40))
def test_events_come_out_whole_and_in_order_however_the_stream_is_cut(sizes, cuts):
    body = b"".join(line("ADDED", str(number), size) for number, size in enumerate(sizes))
    decoder = WatchDecoder("WATCH /x")
    names, start, turn = [], 0, 0
    while start < len(body):
        end = start + cuts[turn % len(cuts)]
        names += [event.object["metadata"]["name"] for event in decoder.feed(body[start:end])]
        start, turn = end, turn + 1
    assert names == [str(number) for number in range(len(sizes))]


def test_an_error_event_ends_the_stream_with_its_meaning():
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
    events = WatchDecoder("WATCH /x").feed(line("ADDED", "a") + orjson.dumps(gone) + b"\n")
    assert next(events).object["metadata"]["name"] == "a"
    with pytest.raises(Gone, match="WATCH /x: too old"):
        next(events)


def test_a_line_that_is_no_event_counts_as_a_broken_stream():
    with pytest.raises(Unavailable, match="not a watch event"):
        list(WatchDecoder("WATCH /x").feed(b"upstream timed out\n"))
