"""Checks the documents: links lead somewhere, no machine's path or address is in them, targets exist.

``python -m tools.docs`` prints a line for each problem and fails when there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
_MAKE: Final = re.compile(r"`make ([a-z]+)")
_MODULE: Final = re.compile(r"python -m ([a-z_.]+)")
_MACHINE: Final = re.compile(r"(?<![\w.])/(?:root|home|work|Users)/\w+")


def documents() -> list[Path]:
    """Return every Markdown file that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for path in map(ROOT.joinpath, listed.splitlines()) if path.is_file()]


def problems_in(path: Path) -> Iterator[str]:
    """Yield what is wrong in one document."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT)
    for target in _LINK.findall(text):
        if not target.startswith(("http://", "https://", "mailto:")):
            yield from _broken_link(path, target, str(name))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for target in _MAKE.findall(text):
        if target not in targets:
            yield f"{name}: there is no target `make {target}`"
    for module in _MODULE.findall(text):
        if module.split(".")[0] in ("services", "shared", "simulator", "bench", "tools") and not _exists(
            module
        ):
            yield f"{name}: there is no module {module}"
    for found in _MACHINE.findall(text):
        yield f"{name}: a path of one machine: {found}"


def _broken_link(path: Path, target: str, name: str) -> Iterator[str]:
    file, _, anchor = target.partition("#")
    there = (path.parent / file).resolve() if file else path
    if not there.exists():
        yield f"{name}: broken link to {target}"
    elif anchor and there.suffix == ".md" and anchor not in _anchors(there):
        yield f"{name}: no heading #{anchor} in {file or 'this document'}"


def _anchors(path: Path) -> set[str]:
    headings = _HEADING.findall(path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def _exists(module: str) -> bool:
    path = ROOT.joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def main() -> int:
    """Check every document."""
    problems = [problem for path in documents() for problem in problems_in(path)]
    for problem in problems:
        sys.stderr.write(problem + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
