"""A wrong setting is one line that names it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field

from shared.errors import ConfigurationError
from shared.settings import CommonSettings, load_settings, read_mapping


class Example(CommonSettings):
    port: int = Field(8080, ge=0, le=65535)


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path, monkeypatch):
    file = tmp_path / "pumice.yaml"
    file.write_text("port: 1\nlog: memory://\n")
    monkeypatch.setenv("PUMICE_PORT", "2")
    settings = load_settings(Example, read_mapping(file))
    assert (settings.port, settings.log, settings.context) == (2, "memory://", None)


def test_an_override_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("PUMICE_PORT", "2")
    assert load_settings(Example, port=3).port == 3


def test_a_wrong_value_in_the_environment_is_named_with_its_variable(monkeypatch):
    monkeypatch.setenv("PUMICE_PORT", "many")
    with pytest.raises(ConfigurationError, match=r"^PUMICE_PORT: .*got 'many'"):
        load_settings(Example)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port: 99999999\n", "port: .*65535"),
        ("prot: 1\n", "unknown setting prot"),
        ("- 1\n", "not a mapping"),
        ("a: [", "configuration file"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, message: str):
    file = tmp_path / "pumice.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        load_settings(Example, read_mapping(file), source=f"configuration file {file}")


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"gone\.yaml: .*No such file"):
        read_mapping(tmp_path / "gone.yaml")
