"""The program that is all parts of the control plane: built from Go modules once, then kept in a cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MODULE: Final = Path(__file__).parent
_SOURCES: Final = ("go.mod", "go.sum", "main.go", "namespaces.go")
_FLAGS: Final = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-tags=providerless")
_PROGRESS_SECONDS: Final = 30.0
_LAST_LINES: Final = 200


class Missing(Exception):  # noqa: N818 - it is what it says: something this machine lacks
    """Something is missing that the control plane needs; the message names it in one line."""


def kubernetes_version() -> str:
    """Return the version of Kubernetes, as go.mod pins it."""
    return _pinned(r"^\tk8s\.io/kubernetes v(\S+)$")


def program_path() -> Path:
    """Return where the program is kept: ``PUMICE_CACHE`` or ``~/.cache/pumice``, by what it is built from."""
    base = os.environ.get("PUMICE_CACHE")
    root = Path(base) if base else Path.home() / ".cache" / "pumice"
    digest = hashlib.sha256(" ".join((platform.system(), platform.machine(), *_FLAGS)).encode())
    for name in _SOURCES:
        digest.update((_MODULE / name).read_bytes())
    return root / f"kube-{kubernetes_version()}-{digest.hexdigest()[:12]}"


def build_program(say: Callable[[str], None] | None = None) -> Path:
    """Return the program, built if it is not there; of two who build it, one waits. Raises Missing.

    The first build compiles some 2,100 packages: several minutes. ``say`` is told how far it is (default:
    a line on standard error now and then).
    """
    say = say or _say
    program = program_path()
    if program.is_file():
        return program
    go = find_go()
    program.parent.mkdir(parents=True, exist_ok=True)
    with _alone(program.with_name(program.name + ".lock"), say):
        if not program.is_file():
            say(
                f"building Kubernetes {kubernetes_version()} from Go modules, once: some 7 minutes on 2 cores"
            )
            _build(go, program, say)
    return program


def find_go() -> str:
    """Return the go command; where GOTOOLCHAIN lets it switch to a newer one by itself, that one counts.

    Raises Missing.
    """
    needed = _pinned(r"^go (\d+\.\d+)")
    go = shutil.which("go")
    if go is None:
        raise Missing(
            f"go is missing (version {needed} or newer), and the control plane is not in {program_path()}"
        )
    said = subprocess.run(
        [go, "env", "GOVERSION"], cwd=_MODULE, capture_output=True, text=True, check=False
    ).stdout.strip()
    found = re.match(r"go(\d+)\.(\d+)", said)
    if found is None or [int(part) for part in found.groups()] < [int(part) for part in needed.split(".")]:
        raise Missing(f"Go {needed} or newer is missing ({go} is {said or 'too old to say what it is'})")
    return go


def _build(go: str, program: Path, say: Callable[[str], None]) -> None:
    built = program.with_name(program.name + ".partial")
    built.unlink(missing_ok=True)  # of a build that was killed
    command = [go, "build", "-v", *_FLAGS, "-ldflags", _version_flags(), "-o", str(built), "."]
    # What is built must not depend on whether this machine has a C compiler.
    environment = os.environ | {"CGO_ENABLED": "0"}
    with subprocess.Popen(
        command, cwd=_MODULE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None  # noqa: S101 - it is a pipe
        try:
            lines = _follow(running.stdout, say)
        except BaseException:
            running.terminate()  # or leaving the block would wait for it
            raise
    if running.returncode != 0:
        told = [line for line in lines if not re.fullmatch(r"[\w./~-]+", line)] or ["no output"]
        raise Missing(f"go could not build the control plane: {'; '.join(told)[-500:]}")
    built.replace(program)  # atomic: nobody sees half a program


def _follow(output: Iterator[str], say: Callable[[str], None]) -> deque[str]:
    """Read the compiler's output to its end and return its last lines; each package it names is compiled."""
    lines: deque[str] = deque(maxlen=_LAST_LINES)
    begun = last = time.monotonic()
    packages = 0
    for line in output:
        lines.append(line.strip())
        packages += not line.startswith("go: ")
        now = time.monotonic()
        if now - last >= _PROGRESS_SECONDS:
            last = now
            say(f"{packages} packages compiled in {now - begun:.0f} s")
    return lines


def _version_flags() -> str:
    version = kubernetes_version()
    major, minor, _ = version.split(".", 2)
    values = {
        "gitVersion": f"v{version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    named = (f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())
    return " ".join(("-s", "-w", *named))


@contextmanager
def _alone(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock on a file; it goes with the process, however that ends."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that builds the control plane")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _pinned(pattern: str) -> str:
    found = re.search(pattern, (_MODULE / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise Missing(f"{_MODULE / 'go.mod'} has no line like {pattern}")
    return found[1]


def _say(line: str) -> None:
    sys.stderr.write(f"kube: {line}\n")
    sys.stderr.flush()
