"""One broker that is its own controller (KRaft), on loopback, in a folder of its own."""

from __future__ import annotations

import socket
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_JVM = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # starts sooner; throughput is not what this broker is for
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
"""Fixed: a random one begins with "-" now and then, which the format tool takes for an option."""

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={listeners}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={logs}
auto.create.topics.enable=false
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
# A group of one test should not wait for members that never come, nor for a dead one.
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
# A killed broker is taken for alive until its session ends; with the default it is back in 13 s.
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
# Compaction within seconds, so that it can be waited for.
log.cleaner.backoff.ms=1000
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=8388608
# Small.
num.network.threads=2
num.io.threads=2
background.threads=2
num.replica.fetchers=1
log.segment.bytes=16777216
log.index.size.max.bytes=524288
"""
_API_VERSIONS = b"\x00\x00\x00\x0d" + b"\x00\x12\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x03cli"
"""An ApiVersions request, version 0, correlation id 1: the first thing a ready broker answers."""


class Broker:
    """A broker whose data is in ``folder``. It can be stopped, killed and started again.

    ``listeners`` are other ways in besides the plain one on ``port``, which must be among them.
    """

    def __init__(
        self,
        folder: Path,
        *,
        java: str,
        jars: Path,
        port: int = 0,
        listeners: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self._listeners = listeners or f"PLAINTEXT://127.0.0.1:{self.port}"
        self._controller = free_port()
        self._java = (java, *_JVM, "-cp", f"{jars}/*")
        self._extra = dict(properties or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def log_file(self) -> Path:
        """Where the broker writes its warnings."""
        return self.folder / "broker.log"

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process that was started last; 0 before that."""
        return 0 if self._process is None else self._process.pid

    def start(self, timeout: float = 60.0) -> None:
        """Start, and return when it answers. Raises RuntimeError with the end of its log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self._write_properties()
        if not (self.folder / "logs" / "meta.properties").exists():
            self._run("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties))
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(properties)],
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us: we stop it in order
            )
        deadline = time.monotonic() + timeout
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"Kafka did not start:\n{self.log_file.read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self, timeout: float = 30.0) -> None:
        """Stop in order; kill what does not."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wait(self) -> int:
        """Wait until the process ends; returns its exit code."""
        return 0 if self._process is None else self._process.wait()

    def _write_properties(self) -> Path:
        text = _PROPERTIES.format(
            listeners=self._listeners, controller=self._controller, logs=self.folder / "logs"
        )
        text += "".join(f"{name}={value}\n" for name, value in self._extra.items())
        path = self.folder / "server.properties"
        path.write_text(text)
        return path

    def _run(self, *arguments: str) -> None:
        ran = subprocess.run([*self._java, *arguments], capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise RuntimeError(f"{arguments[0]} failed:\n{(ran.stdout + ran.stderr)[-2000:]}")

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 0.2) as connection:
                connection.settimeout(2.0)
                connection.sendall(_API_VERSIONS)
                return len(connection.recv(4)) == 4  # noqa: PLR2004 - the answer's length field
        except OSError:
            return False


def free_port() -> int:
    """Return a port of loopback on which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
