"""Recorded sequences: both servers answer each request alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential.comparing import Pair
from tests.differential.sequences import Sequence, load

SEQUENCES = list(load(Path(__file__).parent / "recorded"))


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence.name)
def test_both_servers_answer_alike(pair: Pair, sequence: Sequence) -> None:
    differing = pair.play(pair.sides(), sequence.steps)
    assert not differing, "\n\n".join(differing)
