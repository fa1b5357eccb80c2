"""Durations as Go reads and writes them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("0s", 0), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("1.5h", 5400), ("300ms", 0.3), ("-1m", -60),
     ("+5s", 5), (".5s", 0.5), ("1.s", 1), ("2us", 2e-6), ("2µs", 2e-6), ("1000ns", 1e-6), ("1h1s1h", 7201)],
)  # fmt: skip
def test_a_duration_is_read(text, seconds):
    assert parse_duration(text).total_seconds() == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "s", "1d", "1h 5m", "h1", "1..5s", "--1s", "1e3s", "-", "9999999h", "1" * 40 + "s"]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (1, "1s"), (61.5, "1m1.5s"), (3600, "1h0m0s"), (90000, "25h0m0s"), (0.3, "300ms"), (0.0015, "1.5ms"),
     (0.000007, "7µs"), (-2, "-2s")],
)  # fmt: skip
def test_a_duration_is_written_as_go_does(seconds, text):
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.timedeltas(timedelta(days=-1000), timedelta(days=1000)))
def test_a_written_duration_is_read_back(duration):
    assert parse_duration(format_duration(duration)) == duration
