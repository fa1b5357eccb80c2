"""What holds for the project as a whole: packages, generated files, documents."""

from __future__ import annotations

from pathlib import Path

import pytest

import bench
import services
import shared
import simulator
from tools import docs, generate

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("package", [services, shared, simulator, bench])
def test_packages_with_common_names_are_ours(package):
    assert package.__file__ == str(ROOT / package.__name__ / "__init__.py")


def test_generated_files_are_fresh():
    stale = [
        str(path.relative_to(ROOT))
        for path, text in generate.files().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: make generate"


def test_documents_name_only_what_exists():
    assert [problem for path in docs.documents() for problem in docs.problems_in(path)] == []


def test_the_readme_begins_with_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.index("make demo") < text.index("make test") < text.index("pumice up")


def test_ci_calls_the_readmes_test_command():
    assert "\nmake test\n" in (ROOT / ".ci/run").read_text(encoding="utf-8")
