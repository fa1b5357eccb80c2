"""From text to a document: YAML whose keys are named once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, but a key that is there twice is an error: one of the two would be lost."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value} is there twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def parse(text: str) -> object:
    """Return what a YAML text says; None for an empty one. Raises ValueError, one line with its place."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{place}{error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        words = " ".join(str(error).split()) if not isinstance(error, RecursionError) else "nested too deeply"
        raise ValueError(words) from error
