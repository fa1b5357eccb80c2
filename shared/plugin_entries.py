"""The scheduler's plugins that are installed, by their entry points."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from shared.plugins import GROUP, Maker, Plugin


def installed() -> dict[str, Maker]:
    """Return the makers of plugins by name. Nothing is imported before a configuration names it."""
    return {entry.name: partial(_make, entry) for entry in entry_points(group=GROUP)}


def _make(entry: EntryPoint, arguments: Mapping[str, object]) -> Plugin:
    maker: Any = entry.load()
    made: Plugin = maker(arguments)
    return made
