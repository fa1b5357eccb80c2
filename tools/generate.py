"""Writes all that is generated; with ``--check`` fails when something on disk is not what it would write."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from shared.api import crds
from shared.events import schemas
from tools import chart, lifecycle, policy, reference

ROOT = Path(__file__).resolve().parents[1]


def files() -> dict[Path, str]:
    """Return the text of every generated file by its path."""
    made = {schemas.HOME / name: text for name, text in schemas.documents().items()}
    made |= {crds.DIRECTORY / crds.file_name(crd): crds.render(crd) for crd in crds.CRDS}
    made[lifecycle.PAGE] = lifecycle.page()
    made[policy.PAGE] = policy.page()
    pages = {
        "commands.md": reference.commands(),
        "metrics.md": reference.metrics(),
        "settings.md": reference.settings(),
        "topics.md": reference.topics(),
    }
    made |= {ROOT / "docs" / "reference" / name: text for name, text in pages.items()}
    made |= chart.files()
    return made


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is stale")
    check = parser.parse_args().check
    problems = schemas.incompatible_changes() if check else []
    for path, text in files().items():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            problems.append(f"{path.relative_to(ROOT)} is stale: make generate")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for problem in problems:
        sys.stderr.write(problem + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
