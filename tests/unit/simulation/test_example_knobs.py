"""Each word of a configuration that is a choice is shown by a scenario, which comes out differently without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from services.simulation.adapters.files import scenario_of
from services.simulation.core.engine import Simulation
from tests.unit.simulation.test_example_scenarios import check, expected, told
from tools.knobs import by_knob, knobs

ELSEWHERE: Final = {
    "extender": "a program has to answer: examples/extender",
}
"""What no scenario shows, and why; of a plugin with all its arguments and switches."""
CASES: Final = [(path, knob) for knob, paths in sorted(by_knob().items()) for path in paths]
_CONFIGURATION: Final = "volcano-scheduler.conf"


def _without(documents: list[dict[str, Any]], knob: str) -> list[dict[str, Any]]:
    """Return documents without one word of the configuration in them."""
    name, _, word = knob.partition(" ")
    hits = 0
    for document in documents:
        text = (document.get("data") or {}).get(_CONFIGURATION) if document["kind"] == "ConfigMap" else None
        if text is None:
            continue
        given = yaml.safe_load(text)
        if not word:
            actions = [one.strip() for one in given["actions"].split(",")]
            hits += actions.count(name)
            given["actions"] = ", ".join(one for one in actions if one != name)
        for tier in given.get("tiers") or ():
            for plugin in [one for one in tier["plugins"] if one["name"] == name]:
                if not word:
                    tier["plugins"].remove(plugin)
                    hits += 1
                elif plugin.pop(word, None) is not None:
                    hits += 1
                else:
                    hits += _drop(plugin.get("arguments") or {}, word)
        for one in given.get("configurations") or ():
            if one["name"] == name and word:
                hits += _drop(one.get("arguments") or {}, word)
        document["data"][_CONFIGURATION] = yaml.safe_dump(given)
    assert hits, f"the configuration has {knob}"
    return documents


def _drop(arguments: dict[str, Any], word: str) -> int:
    prefix = word.removesuffix("<key>")
    names = [name for name in arguments if name == word or (prefix != word and name.startswith(prefix))]
    for name in names:
        del arguments[name]
    return len(names)


@pytest.mark.parametrize(("path", "knob"), CASES, ids=lambda value: getattr(value, "stem", value))
def test_a_scenario_comes_out_differently_without_what_it_shows(
    path: Path, knob: str, tmp_path: Path
) -> None:
    documents = [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]
    changed = tmp_path / path.name
    changed.write_text(yaml.safe_dump_all(_without(documents, knob)), encoding="utf-8")
    outcome = Simulation().run(scenario_of([str(changed)])).as_json()
    with pytest.raises(AssertionError):
        check(expected(path), told(outcome), path.stem)


def test_each_choice_is_shown_by_a_scenario() -> None:
    shown = set(by_knob())
    missing = [knob for knob in knobs() if knob not in shown and knob.partition(" ")[0] not in ELSEWHERE]
    assert missing == []
