"""Programs of others that are built from their Go modules once, then kept in a cache."""

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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent
_FLAGS: Final = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-tags=providerless")
_PROGRESS_SECONDS: Final = 30.0
_LAST_LINES: Final = 200


class Missing(Exception):  # noqa: N818 - it is what it says: something this machine lacks
    """Something is missing that a build needs; the message names it in one line."""


@dataclass(frozen=True, slots=True)
class GoProgram:
    """What to build, and how people are told of it."""

    name: str
    """Its file in the cache begins with it."""
    title: str
    """As messages call it."""
    module: Path
    """Folder of the Go module that pins all that it is made of."""
    sources: tuple[str, ...]
    """The module's files."""
    package: str
    """The Go package to build, of the module or of one that it needs."""
    release: str
    """The Go module of which the version is the program's."""
    effort: str
    """How long the first build takes."""
    variables: Callable[[str], dict[str, str]]
    """Variables of its packages that say which version it is, from the version."""

    @property
    def version(self) -> str:
        """The version, as go.mod pins it."""
        return self.pinned(rf"^(?:require )?\s*{re.escape(self.release)} v(\S+)")

    def pinned(self, pattern: str) -> str:
        """Return what a pattern finds in go.mod. Raises Missing."""
        found = re.search(pattern, (self.module / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
        if found is None:
            raise Missing(f"{self.module / 'go.mod'} has no line like {pattern}")
        return found[1]


def _kubernetes_variables(version: str) -> dict[str, str]:
    major, minor, _ = version.split(".", 2)
    values = {
        "gitVersion": f"v{version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    return {f"k8s.io/component-base/version.{name}": value for name, value in values.items()}


def _volcano_variables(version: str) -> dict[str, str]:
    return {"volcano.sh/volcano/pkg/version.Version": f"v{version}"}


CONTROL_PLANE: Final = GoProgram(
    name="kube",
    title="the control plane",
    module=_FOLDER,
    sources=("go.mod", "go.sum", "main.go", "namespaces.go"),
    package=".",
    release="k8s.io/kubernetes",
    effort="some 8 minutes on 2 cores",
    variables=_kubernetes_variables,
)
"""etcd, kube-apiserver, kube-controller-manager, kube-scheduler, an emptier of namespaces: 2,200 packages."""

VCCTL: Final = GoProgram(
    name="vcctl",
    title="vcctl",
    module=_FOLDER / "vcctl",
    sources=("go.mod", "go.sum"),
    package="volcano.sh/volcano/cmd/cli",
    release="volcano.sh/volcano",
    effort="up to 2 minutes on 2 cores",
    variables=_volcano_variables,
)
"""Volcano's own command line, some 550 packages."""


def kubernetes_version() -> str:
    """Return the version of Kubernetes that the control plane is."""
    return CONTROL_PLANE.version


def program_path(program: GoProgram = CONTROL_PLANE) -> Path:
    """Return where a program is kept: ``PUMICE_CACHE`` or ``~/.cache/pumice``, by what it is built from."""
    base = os.environ.get("PUMICE_CACHE")
    root = Path(base) if base else Path.home() / ".cache" / "pumice"
    digest = hashlib.sha256(" ".join((platform.system(), platform.machine(), *_FLAGS)).encode())
    for name in program.sources:
        digest.update((program.module / name).read_bytes())
    return root / f"{program.name}-{program.version}-{digest.hexdigest()[:12]}"


def build_program(say: Callable[[str], None] | None = None, program: GoProgram = CONTROL_PLANE) -> Path:
    """Return a program, built if it is not there; of two who build it, one waits. Raises Missing.

    ``say`` is told how far it is (default: a line on standard error now and then).
    """
    say = say or _say
    path = program_path(program)
    if path.is_file():
        return path
    go = find_go(program)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path.with_name(path.name + ".lock"), program, say):
        if not path.is_file():
            say(f"building {program.title} {program.version} from Go modules, once: {program.effort}")
            _build(go, program, path, say)
    return path


def find_go(program: GoProgram = CONTROL_PLANE) -> str:
    """Return the go command; where GOTOOLCHAIN lets it switch to a newer one by itself, that one counts.

    Raises Missing.
    """
    needed = program.pinned(r"^go (\d+\.\d+)")
    go = shutil.which("go")
    if go is None:
        path = program_path(program)
        raise Missing(f"go is missing (version {needed} or newer), and {program.title} is not in {path}")
    said = subprocess.run(
        [go, "env", "GOVERSION"], cwd=program.module, capture_output=True, text=True, check=False
    ).stdout.strip()
    found = re.match(r"go(\d+)\.(\d+)", said)
    if found is None or [int(part) for part in found.groups()] < [int(part) for part in needed.split(".")]:
        raise Missing(f"Go {needed} or newer is missing ({go} is {said or 'too old to say what it is'})")
    return go


def _build(go: str, program: GoProgram, path: Path, say: Callable[[str], None]) -> None:
    built = path.with_name(path.name + ".partial")
    built.unlink(missing_ok=True)  # of a build that was killed
    flags = ("-v", *_FLAGS, "-ldflags", _linker_flags(program), "-o", str(built))
    # What is built must not depend on whether this machine has a C compiler.
    environment = os.environ | {"CGO_ENABLED": "0"}
    with subprocess.Popen(
        (go, "build", *flags, program.package),
        cwd=program.module,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None  # noqa: S101 - it is a pipe
        try:
            lines = _follow(running.stdout, say)
        except BaseException:
            running.terminate()  # or leaving the block would wait for it
            raise
    if running.returncode != 0:
        told = [line for line in lines if not re.fullmatch(r"[\w./~-]+", line)] or ["no output"]
        raise Missing(f"go could not build {program.title}: {'; '.join(told)[-500:]}")
    built.replace(path)  # atomic: nobody sees half a program


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


def _linker_flags(program: GoProgram) -> str:
    variables = program.variables(program.version).items()
    return " ".join(("-s", "-w", *(f"-X {name}={value}" for name, value in variables)))


@contextmanager
def _alone(path: Path, program: GoProgram, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock on a file; it goes with the process, however that ends."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that builds {program.title}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    sys.stderr.write(f"kube: {line}\n")
    sys.stderr.flush()
