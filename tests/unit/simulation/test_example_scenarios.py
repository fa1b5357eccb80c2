"""The scenarios in examples/ come out as their comments say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from services.simulation.adapters.files import scenario_of
from services.simulation.core.engine import Simulation
from tools.knobs import scenarios


def expected(path: Path) -> dict[str, Any]:
    """Return the YAML in the comment after ``# Expected:``."""
    _, _, rest = path.read_text(encoding="utf-8").partition("# Expected:\n")
    lines: list[str] = []
    for line in rest.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").removeprefix(" "))
    found = yaml.safe_load("\n".join(lines))
    assert isinstance(found, dict), f"{path.name} says what is expected"
    return found


def check(expected: Any, found: Any, path: str) -> None:
    """Everything that is expected is there; an empty list is empty."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert name in found, f"{path}.{name}"
            check(value, found[name], f"{path}.{name}")
    elif isinstance(expected, list):
        assert len(expected) == len(found), f"{path}: {found}"
        for index, value in enumerate(expected):
            check(value, found[index], f"{path}[{index}]")
    elif isinstance(expected, float | int) and not isinstance(expected, bool):
        assert found == pytest.approx(expected), f"{path}: {found}"
    else:
        assert found == expected, f"{path}: {found}"


def told(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return an outcome, and what each pod got of its node: ``devices`` and ``numa``."""
    events = outcome["events"]
    of_node = {
        what: {one["object"].removeprefix("Pod "): one[what] for one in events if what in one}
        for what in ("devices", "numa")
    }
    return {**outcome, **of_node}


@pytest.mark.parametrize("path", scenarios(), ids=lambda path: path.stem)
def test_an_example_comes_out_as_its_comment_says(path: Path) -> None:
    scenario = scenario_of([str(path)])
    assert scenario.notes == ()
    outcome = Simulation().run(scenario).as_json()
    check(expected(path), told(outcome), path.stem)
    assert Simulation().run(scenario).as_json() == outcome
