"""One process of the control plane, with its output in a file."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_TAIL: Final = 2000


class Part:
    """A process that can be stopped, killed and started again. It never outlives this one."""

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log_file = folder / f"{name}.log"
        self._command = list(command)
        self._env = os.environ | dict(env or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process that was started last; 0 before that."""
        return 0 if self._process is None else self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it was started and is there no more."""
        return self._process is not None and self._process.poll() is not None

    @property
    def log_tail(self) -> str:
        """The end of what it said, over all its lives."""
        return self.log_file.read_text(errors="replace")[-_TAIL:] if self.log_file.exists() else ""

    def start(self) -> None:
        """Start it; nothing is waited for."""
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,  # it ends when this is closed, as it is when we are gone
                stdout=log,
                stderr=log,
                env=self._env,
                start_new_session=True,  # Ctrl-C is for us: we stop it in order
            )

    def stop(self, seconds: float) -> None:
        """Ask it to stop; kill it when it has not after ``seconds``."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._gone()

    def kill(self) -> None:
        """Kill -9."""
        if self._process is not None:
            self._process.kill()
            self._gone()

    def wait(self) -> int:
        """Wait until it ends; returns its exit code."""
        return 0 if self._process is None else self._process.wait()

    def _gone(self) -> None:
        assert self._process is not None  # noqa: S101 - only called with one
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
