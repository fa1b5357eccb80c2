"""What a benchmark says to wrong input: one line that names it, and an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import cluster, pipeline, placement, transport


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
        (
            cluster.main,
            ["--burst", "100"],
            "bench.cluster: argument --burst: '100' is not GANGSxSIZE, as in 100x20",
        ),
        (
            cluster.main,
            ["--nodes", "10", "--burst", "5x20"],
            "bench.cluster: argument --burst: 5x20 asks for 100 GPUs of 80",
        ),
        (cluster.main, ["--log", "memory"], "bench.cluster: argument --log: 'memory' is not kafka://"),
        (cluster.main, ["--through", "carrier"], "bench.cluster: argument --through: invalid choice"),
        (cluster.main, ["--kubeconfig", "/nowhere", "--log", "kafka://:0"], "bench.cluster: log address"),
        (
            transport.main,
            ["--pods", "0"],
            "bench.transport: argument --pods: '0' is no whole number from 1",
        ),
        (pipeline.main, ["--frob"], "bench.pipeline: unrecognized arguments: --frob"),
    ],
)
def test_wrong_use_is_one_line(main, arguments, line, capsys):
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert said.count("\n") == 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="memory is read from /proc")
def test_the_transport_is_measured_by_each_way_that_is_installed(capsys):
    assert transport.main(["--pods", "20", "--repeats", "1", "-o", "json"]) == 0
    (rows,) = json.loads(capsys.readouterr().out)["tables"].values()
    ways = {row["as"].partition(" ")[0] for row in rows}
    assert ways >= {"dictionaries", "models", "generated"}
    assert all(row["µs in a list"]["median"] > 0 and row["µs in a watch"]["median"] > 0 for row in rows)
