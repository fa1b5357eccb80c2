"""The annotation that exposes ports of a job."""

from __future__ import annotations

import pytest

from shared.api.expose import Exposed, locate, parse

TASKS = {"master": 1, "worker": 3}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("  ", ()),
        ("8888", (Exposed("port-8888", 8888),)),
        ("jupyter:8888", (Exposed("jupyter", 8888),)),
        (
            "jupyter:8888, tb:6006@worker,\tdebug:1@worker/2",
            (Exposed("jupyter", 8888), Exposed("tb", 6006, "worker"), Exposed("debug", 1, "worker", 2)),
        ),
    ],
)
def test_it_is_read(text, expected):
    assert parse(text) == expected
    assert parse(",".join(map(str, expected))) == expected


@pytest.mark.parametrize(
    "text",
    [
        "jupyter",
        "jupyter:0",
        "jupyter:65536",
        "Jupyter:1",
        "a--b:1",
        "1a:1",
        f"{'n' * 16}:1",
        "a:1@",
        "a:1,,b:2",
    ],
)
def test_what_is_no_port_is_named(text):
    with pytest.raises(ValueError, match="is no port to expose: write name:port"):
        parse(text)


def test_two_ports_have_two_names():
    with pytest.raises(ValueError, match="two exposed ports have the name a"):
        parse("a:1,a:2")


def test_without_a_task_it_is_the_first_ones_first_pod():
    assert locate(parse("a:1,b:2@worker/2"), TASKS) == (
        Exposed("a", 1, "master"),
        Exposed("b", 2, "worker", 2),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [("a:1@boss", "has no task boss; it has master, worker"), ("a:1@worker/3", "task worker has no pod 3")],
)
def test_a_pod_that_the_job_does_not_have_is_named(text, says):
    with pytest.raises(ValueError, match=says):
        locate(parse(text), TASKS)
