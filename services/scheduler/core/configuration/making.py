"""Makes the plugins that a configuration names and that are not Volcano's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from services.scheduler.core.configuration.found import Code, Configuration, Named
from services.scheduler.core.own import Own
from shared.plugins import Maker, Plugin


def make_own(found: Configuration, makers: Mapping[str, Maker]) -> tuple[Own, ...]:
    """Return them in the order of the file; one that cannot be made is a problem."""
    made = (_made(found, one, makers[one.name]) for one in found.plugins.values() if one.name in makers)
    return tuple(own for own in made if own is not None)


def _made(found: Configuration, named: Named, make: Maker) -> Own | None:
    path = f"{named.path}.arguments"
    try:
        arguments = json.dumps(named.arguments, sort_keys=True)
        plugin = make(named.arguments)
    except Exception as error:  # noqa: BLE001 - whatever it raises, the file is not taken
        words = str(error) if isinstance(error, ValueError) else f"raised {type(error).__name__}: {error}"
        found.complain(path, " ".join(f"plugin {named.name}: {words}".split()), Code.VALUE)
        return None
    if not isinstance(plugin, Plugin):
        words = f"plugin {named.name}: its maker returned a {type(plugin).__name__}, no shared.plugins.Plugin"
        found.complain(named.path, words, Code.VALUE)
        return None
    on_error: Literal["skip", "fatal"] = "fatal" if named.on_error == "fatal" else "skip"
    return Own(named.name, arguments, on_error, plugin)
