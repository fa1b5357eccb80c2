"""What clients can see of the Go types of the built-in kinds: ``types.json`` and how to read it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).with_name("types.json")
_WRAPPERS: Final = re.compile(r"^(\*|\[\]|map\[string\])+")


@dataclass(frozen=True, slots=True)
class Field:
    """A JSON field of a struct. ``merge`` is None (replaced), "" (a set) or the key of a strategic merge."""

    type: str
    number: int
    omitempty: bool = False
    omitzero: bool = False
    inline: bool = False
    merge: str | None = None
    retain: bool = False
    keys: tuple[str, ...] = ()
    is_set: bool = False
    atomic: bool = False

    @property
    def inner(self) -> str:
        """Return the type without pointer, list and map."""
        return _WRAPPERS.sub("", self.type)


def _field(text: str) -> Field:
    type_, number, flags = text.split("|")
    parts = [flag.partition("=") for flag in flags.split(",") if flag]
    options = {name: value for name, _, value in parts}
    return Field(
        type_,
        int(number),
        "omitempty" in options,
        "omitzero" in options,
        "inline" in options,
        options.get("merge"),
        "retain" in options,
        tuple(options["keys"].split("+")) if "keys" in options else (),
        "set" in options,
        "atomic" in options,
    )


Structs = dict[str, dict[str, Field]]


def load() -> Structs:
    """Return every struct's fields by their JSON names; embedded structs keep a ``+`` before theirs."""
    raw: dict[str, dict[str, str]] = json.loads(_FILE.read_text(encoding="utf-8"))
    return {name: {key: _field(text) for key, text in fields.items()} for name, fields in raw.items()}


def flat(structs: Structs, name: str) -> dict[str, Field]:
    """Return a struct's fields with those of embedded structs among them, as JSON has them."""
    fields: dict[str, Field] = {}
    for key, field in structs[name].items():
        if field.inline:
            fields |= flat(structs, field.inner)
        else:
            fields[key] = field
    return fields
