"""Writes ``types.json``: struct → JSON field → type, for every struct that a served kind reaches.

Run ``python -m simulator.types.generate`` after an update of kubernetes_asyncio. It is generated rather than
read at start because importing the client's models costs seconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).with_name("types.json")


def generate(roots: set[str]) -> dict[str, dict[str, str]]:
    """Return the types reachable from the named models. Types are written ``list[T]``, ``map[T]`` or ``T``."""
    from kubernetes_asyncio.client import models  # noqa: PLC0415 - slow to import

    found: dict[str, dict[str, str]] = {"V1PartialObjectMetadata": {"metadata": "V1ObjectMeta"}}
    todo = sorted(roots)
    while todo:
        name = todo.pop()
        model: Any = getattr(models, name, None)
        if name in found or model is None:
            continue
        fields = {
            model.attribute_map[attribute]: type_.replace("dict(str, ", "map[").replace(")", "]")
            for attribute, type_ in model.openapi_types.items()
        }
        found[name] = dict(sorted(fields.items()))
        todo += [type_.replace("list[", "").replace("map[", "").rstrip("]") for type_ in fields.values()]
    return dict(sorted(found.items()))


def text(roots: set[str]) -> str:
    """Return the file's content: one struct a line."""
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in generate(roots).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    """Write the file."""
    from simulator.builtin import KINDS  # noqa: PLC0415

    TARGET.write_text(text({kind.type_name for kind in KINDS}), encoding="utf-8")


if __name__ == "__main__":
    main()
