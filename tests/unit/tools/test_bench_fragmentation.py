"""The fragmentation benchmark: lists with bad rows, wrong use, and that a small list is run to its end."""

from __future__ import annotations

import gzip
import json

import pytest

from bench.fragmentation import main

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,32000,65536,2,T4\nn2,32000,65536,1,A10\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1000,1024,1,500,\nb,1000,1024,2,1000,T4\nc,500,64,0,0,\n"


def run(tmp_path, capsys, nodes=NODES, pods=PODS, *more):
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "pods.csv.gz").write_bytes(gzip.compress(pods.encode()))
    files = ["--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv.gz")]
    code = main([*files, "--seeds", "2", "-o", "json", *more])
    out, err = capsys.readouterr()
    return code, out, err


def test_every_policy_is_run_and_reported(tmp_path, capsys) -> None:
    code, out, err = run(tmp_path, capsys, NODES, PODS, "--report", str(tmp_path / "report"))
    assert (code, err) == (0, "")
    rows = json.loads(out)["tables"]["Policies"]
    assert [row["policy"] for row in rows] == ["default", "gradient", "binpack", "spread"]
    assert all(0 < row["at 130 %"] <= 100 for row in rows)
    assert {path.name for path in (tmp_path / "report").iterdir()} == {
        "fragmentation.json",
        "fragmentation.md",
        "allocated.svg",
    }


def test_bad_rows_are_told_by_line_and_the_rest_goes_on(tmp_path, capsys) -> None:
    nodes = NODES + "n2,1,1,1,A10\nn3,x,1,1,T4\n"
    pods = PODS + "d,1,1,2,500,\ne,-1,1,0,0,\nf,1,1\ng,1,1,1,0,\n"
    code, out, err = run(tmp_path, capsys, nodes, pods, "--policy", "binpack")
    assert code == 0
    assert json.loads(out)["parameters"]["nodes"] == 2
    lines = [line.split(": line ")[1] for line in err.splitlines()]
    assert lines == [
        "4: the second node n2",
        "5: cpu_milli is 'x', not a whole number from 0 to 1099511627776",
        "5: gpu_milli is 500: a pod with 2 GPUs has them whole",
        "6: cpu_milli is '-1', not a whole number from 0 to 1099511627776",
        "7: num_gpu is '', not a whole number from 0 to 64",
        "8: gpu_milli is 0, num_gpu 1",
    ]


@pytest.mark.parametrize(
    ("nodes", "pods", "more", "says"),
    [
        ("sn,cpu_milli\nn1,1\n", PODS, [], "has no column memory_mib, gpu, model"),
        (NODES, "", [], "has no column name, cpu_milli, memory_mib, num_gpu, gpu_milli"),
        (NODES, PODS.splitlines()[0] + "\n", [], "has no row that can be read"),
        (NODES.replace(",2,", ",0,").replace(",1,", ",0,"), PODS, [], "no node has a GPU"),
        (NODES, PODS, ["--policy", "best"], "invalid choice: 'best'"),
        (NODES, PODS, ["--pods", "/nowhere.csv"], "/nowhere.csv: No such file or directory"),
        (NODES, PODS, ["--seeds", "0"], "'0' is no whole number from 1 on"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(tmp_path, capsys, nodes, pods, more, says) -> None:
    code, out, err = run(tmp_path, capsys, nodes, pods, *more)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
