"""Logs by their addresses: what is wrong with one is said in a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.clock import SystemClock
from shared.errors import ConfigurationError
from shared.log.connect import open_log


def test_who_only_reads_makes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "there" / "log.sqlite"
    with pytest.raises(ConfigurationError, match=f"there is no file {file}"):
        open_log(f"sqlite:///{file}", clock=SystemClock(), client_id="test", make=False)
    assert not file.parent.exists()
    file.parent.mkdir()
    file.touch()
    open_log(f"sqlite:///{file}", clock=SystemClock(), client_id="test", make=False)
