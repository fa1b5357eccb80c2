"""Writes the lock files from both pyproject files: every version and hash, and no address.

``locks/server.txt`` is what runs; ``locks/dev.txt`` is that and the tools. The second is resolved first
and constrains the first, so that tests run on the very versions that are shipped.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def requirements() -> tuple[list[str], list[str]]:
    """Return what is needed to run, and what is needed besides to develop."""
    server = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    client = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text(encoding="utf-8"))
    build = [*server["build-system"]["requires"], "editables"]
    ours = [*server["project"]["dependencies"], *client["project"]["dependencies"]]
    return [*build, *(one for one in ours if one != "pumice")], server["dependency-groups"]["dev"]


def compile_to(output: Path, wanted: list[str], *extra: str) -> None:
    """Resolve for every platform and supported Python, with hashes."""
    with tempfile.NamedTemporaryFile("w", suffix=".in") as source:
        source.write("\n".join(wanted))
        source.flush()
        command = ["uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-header"]
        command += ["--no-annotate", "--python-version", "3.11", "-o", str(output), *extra, source.name]
        subprocess.run([sys.executable, "-m", *command], check=True, cwd=ROOT)


def main() -> None:
    """Resolve both files anew, within the pyproject files' bounds."""
    run, develop = requirements()
    dev = ROOT / "locks/dev.txt"
    compile_to(dev, run + develop, "--upgrade")
    compile_to(ROOT / "locks/server.txt", run, "--constraints", str(dev))


if __name__ == "__main__":
    main()
