"""Arguments of job plugins mean what Go's flag package makes of them; a wrong one is named."""

from __future__ import annotations

import pytest

from services.controller.core.plugins.arguments import Flags, PluginError

DEFAULTS = {"master": "master", "port": 22, "quiet": False, "loud": True}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ("master", 22, False, True)),
        (["--master=boss"], ("boss", 22, False, True)),
        (["-master=boss"], ("boss", 22, False, True)),
        (["--master", "boss", "-port", "2022"], ("boss", 2022, False, True)),
        (["--master="], ("", 22, False, True)),
        (["--master=a=b"], ("a=b", 22, False, True)),
        (["--quiet", "--loud=false"], ("master", 22, True, False)),
        (["--quiet=T", "--loud=0"], ("master", 22, True, False)),
        (["--port=0x16"], ("master", 22, False, True)),
        (["--port=010"], ("master", 8, False, True)),
        (["--port=1", "--port=2"], ("master", 2, False, True)),
        (["--port=2", "--"], ("master", 2, False, True)),
    ],
)
def test_arguments_are_read_as_go_reads_flags(arguments, expected):
    flags = Flags("mpi", arguments, DEFAULTS, strict=True)
    read = (flags.text("master"), flags.number("port"), flags.switch("quiet"), flags.switch("loud"))
    assert read == expected


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--boss=x"], 'no argument "--boss=x"; there are --master, --port, --quiet, --loud'),
        (["---port=1"], 'no argument "---port=1"'),
        (["port=1"], '"port=1" is no flag: write --name=value'),
        (["-"], '"-" is no flag'),
        (["--port"], "--port needs a value"),
        (["--port=many"], '--port is a number, not "many"'),
        (["--port=99999999999999999999"], "--port is a number"),
        (["--quiet=maybe"], '--quiet is true or false, not "maybe"'),
    ],
)
def test_a_wrong_argument_is_named_with_its_field(arguments, says):
    with pytest.raises(PluginError) as error:
        Flags("mpi", arguments, DEFAULTS, strict=True)
    assert str(error.value).startswith("spec.plugins[mpi]: ")
    assert says in str(error.value)


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_is_one_of_tcps(port):
    with pytest.raises(PluginError, match="a port from 1 to 65535"):
        Flags("mpi", [f"--port={port}"], DEFAULTS, strict=True).port("port")


def test_a_job_that_runs_already_goes_on_without_what_is_wrong_as_in_volcano():
    flags = Flags("mpi", ["--port=70000", "--boss=x", "--master=late"], DEFAULTS, strict=False)
    assert (flags.port("port"), flags.text("master")) == (22, "master")
