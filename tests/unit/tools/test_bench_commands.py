"""What a benchmark says to wrong input: one line that names it, and an exit code."""

from __future__ import annotations

import pytest

from bench import pipeline, placement


@pytest.mark.parametrize(
    ("main", "arguments", "line"),
    [
        (
            placement.main,
            ["--nodes", "-3"],
            "bench.placement: argument --nodes: '-3' is no whole number from 1",
        ),
        (placement.main, ["--gang", "0"], "bench.placement: argument --gang: '0' is no whole number from 1"),
        (
            pipeline.main,
            ["--repeats", "x"],
            "bench.pipeline: argument --repeats: 'x' is no whole number from 1",
        ),
        (pipeline.main, ["--log", "ftp://there"], "bench.pipeline: log address 'ftp://there' is none of"),
        (pipeline.main, ["--frob"], "bench.pipeline: unrecognized arguments: --frob"),
    ],
)
def test_wrong_use_is_one_line(main, arguments, line, capsys):
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert said.count("\n") == 1
