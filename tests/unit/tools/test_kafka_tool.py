"""The script that runs a broker: what it says when something is missing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from tools.kafka.jars import kafka_version

ROOT = Path(__file__).parents[3]


def test_a_port_in_use_is_one_line():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        ran = _run("up", "--port", str(port))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"kafka: port {port} is in use\n"


def test_missing_maven_is_one_line_that_names_it_and_the_cache(tmp_path: Path):
    ran = _run("fetch", PATH="", PUMICE_CACHE=str(tmp_path))
    folder = tmp_path / f"kafka-{kafka_version()}"
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"kafka: mvn is missing, and the jars are not in {folder}\n"


def test_jars_in_the_cache_need_no_maven(tmp_path: Path):
    folder = tmp_path / f"kafka-{kafka_version()}"
    folder.mkdir()
    ran = _run("fetch", PATH="", PUMICE_CACHE=str(tmp_path))
    assert (ran.returncode, ran.stdout) == (0, f"{folder}\n")


def test_missing_java_is_one_line(tmp_path: Path):
    (tmp_path / f"kafka-{kafka_version()}").mkdir()
    ran = _run("up", "--port", "0", PATH="", JAVA_HOME=str(tmp_path), PUMICE_CACHE=str(tmp_path))
    assert ran.returncode == 1
    assert ran.stderr == "kafka: java is missing (Kafka needs version 17 or newer)\n"


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.kafka", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
