"""Opening a log by its address."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.clock import SystemClock
from shared.errors import ConfigurationError
from shared.log.connect import open_log
from shared.log.kafka import KafkaLog
from shared.log.memory import MemoryLog
from shared.log.sqlite import SqliteLog


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory://", MemoryLog),
        ("sqlite:///data/log.db", SqliteLog),
        ("sqlite:////var/lib/log.db?synchronous=full", SqliteLog),
        ("kafka://one:9092,two:9092", KafkaLog),
    ],
)
def test_the_scheme_chooses_the_adapter(url, kind):
    assert isinstance(open_log(url, clock=SystemClock(), client_id="test"), kind)


def test_three_slashes_are_a_relative_path_and_four_an_absolute_one():
    relative = open_log("sqlite:///data/log.db", clock=SystemClock(), client_id="test")
    absolute = open_log("sqlite:////data/log.db", clock=SystemClock(), client_id="test")
    assert relative._broker._store._path == Path("data/log.db")
    assert absolute._broker._store._path == Path("/data/log.db")


@pytest.mark.parametrize(
    "url", ["", "kafka://", "redis://x", "sqlite://", "sqlite:///", "sqlite:///x?synchronous=off", "memory"]
)
def test_anything_else_is_refused_in_one_line_that_names_it(url):
    with pytest.raises(ConfigurationError) as refused:
        open_log(url, clock=SystemClock(), client_id="test")
    assert repr(url) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_who_only_reads_makes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "there" / "log.sqlite"
    with pytest.raises(ConfigurationError, match=f"there is no file {file}"):
        open_log(f"sqlite:///{file}", clock=SystemClock(), client_id="test", make=False)
    assert not file.parent.exists()
    file.parent.mkdir()
    file.touch()
    open_log(f"sqlite:///{file}", clock=SystemClock(), client_id="test", make=False)
