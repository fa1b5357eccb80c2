"""From a document to a configuration: every word is looked up, every value read, every problem kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import Final

from services.scheduler.core.configuration import actions, asking, placement, rescheduling, sharing
from services.scheduler.core.configuration.found import Code, Configuration, Named
from services.scheduler.core.configuration.measuring import METRICS, Source, flat
from services.scheduler.core.configuration.terms import SWITCHES, Action, Argument, Plugin, Stand
from services.scheduler.core.load import FRESH

PLUGINS: Final[Mapping[str, Plugin]] = {one.name: one for one in (*sharing.PLUGINS, *placement.PLUGINS)}
ACTIONS: Final[Mapping[str, Action]] = {one.name: one for one in actions.ACTIONS}
_TOP: Final = ("actions", "tiers", "configurations", "metrics")
_ON_ERROR: Final = ("skip", "fatal")


def read(document: object, own: Collection[str] = ()) -> Configuration:
    """Read a document. ``own``: the names of plugins that are not Volcano's and may be named too."""
    found = Configuration()
    if not isinstance(document, dict):
        found.complain("", "not a mapping with actions and tiers", Code.UNREADABLE)
        return found
    for key in document:
        if key not in _TOP:
            found.complain(str(key), f"unknown part{_like(str(key), _TOP)}", Code.UNKNOWN)
    _read_actions(found, document.get("actions"))
    _read_tiers(found, document.get("tiers"), frozenset(own))
    _read_configurations(found, document.get("configurations"))
    _read_metrics(found, document.get("metrics"))
    _check_together(found)
    return found


# ---------------------------------------------------------------------- parts of the file


def _read_actions(found: Configuration, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        found.complain("actions", "must name actions, separated by commas", Code.VALUE)
        return
    names = [name.strip() for name in value.split(",")]
    for number, name in enumerate(names):
        path = f"actions[{number}]"
        action = ACTIONS.get(name)
        if action is None:
            found.complain(path, f"unknown action {name!r}{_like(name, ACTIONS)}", Code.UNKNOWN)
        else:
            _stand(found, path, f"action {name}", action.stand, action.why)
    found.actions = tuple(dict.fromkeys(names))
    if "allocate" not in names:
        found.complain(
            "actions", "allocate is missing: gangs are always placed where there is room", Code.ALWAYS
        )


def _read_tiers(found: Configuration, value: object, own: frozenset[str]) -> None:
    for path, tier in _items(found, "tiers", value):
        for key in tier:
            if key != "plugins":
                found.complain(f"{path}.{key}", "unknown part; did you mean plugins?", Code.UNKNOWN)
        for at, plugin in _items(found, f"{path}.plugins", tier.get("plugins")):
            _read_plugin(found, at, plugin, own)


def _read_plugin(found: Configuration, path: str, raw: Mapping[object, object], own: frozenset[str]) -> None:
    name = raw.get("name")
    known = PLUGINS.get(name) if isinstance(name, str) else None
    if known is None and name not in own:
        near = _like(str(name), [*PLUGINS, *sorted(own)])
        words = "must name a plugin" if not isinstance(name, str) else f"unknown plugin {name!r}{near}"
        found.complain(f"{path}.name", words, Code.UNKNOWN)
        return
    if str(name) in found.plugins:
        found.complain(f"{path}.name", f"plugin {name} is named twice", Code.TWICE)
        return
    if known is None:
        named = _read_own(found, path, str(name), raw)
    else:
        _stand(found, f"{path}.name", f"plugin {name}", known.stand, known.why)
        switches = _read_switches(found, path, raw, known)
        arguments = _read_arguments(found, f"{path}.arguments", raw.get("arguments"), known.arguments)
        named = Named(known.name, switches, arguments, path=path)
    found.plugins[named.name] = named


def _read_own(found: Configuration, path: str, name: str, raw: Mapping[object, object]) -> Named:
    """Read a plugin that is not Volcano's: its arguments are for itself to check."""
    for key in raw:
        if key not in ("name", "arguments", "onError"):
            near = _like(str(key), ("arguments", "onError"))
            found.complain(f"{path}.{key}", f"unknown part of an own plugin{near}", Code.UNKNOWN)
    on_error = raw.get("onError", _ON_ERROR[0])
    if on_error not in _ON_ERROR:
        found.complain(
            f"{path}.onError", f"must be one of {', '.join(_ON_ERROR)}; is {on_error!r}", Code.VALUE
        )
        on_error = _ON_ERROR[0]
    arguments = raw.get("arguments") or {}
    if not isinstance(arguments, dict) or not all(isinstance(key, str) for key in arguments):
        found.complain(f"{path}.arguments", "must be a mapping", Code.VALUE)
        arguments = {}
    return Named(name, {}, arguments, str(on_error), path)


def _read_switches(
    found: Configuration, path: str, raw: Mapping[object, object], plugin: Plugin
) -> dict[str, bool]:
    switches: dict[str, bool] = {}
    for key, value in raw.items():
        if key in ("name", "arguments"):
            continue
        at = f"{path}.{key}"
        if not isinstance(key, str) or key not in SWITCHES:
            near = _like(str(key), [*SWITCHES, "arguments"])
            found.complain(at, f"unknown switch{near}", Code.UNKNOWN)
            continue
        if not isinstance(value, bool):
            found.complain(at, f"must be true or false; is {value!r}", Code.VALUE)
            continue
        vote = plugin.votes.get(key)
        if vote is not None and vote.stand is Stand.ALWAYS and not value:
            why = f": {vote.why}" if vote.why else ""
            found.complain(at, f"cannot be switched off: it is always done{why}", Code.ALWAYS)
        elif vote is not None and vote.stand is Stand.REFUSED and value != SWITCHES[key]:
            found.complain(at, f"refused: {vote.why}", Code.REFUSED)
        switches[key] = value
    return switches


def _read_configurations(found: Configuration, value: object) -> None:
    for path, raw in _items(found, "configurations", value):
        for key in raw:
            if key not in ("name", "arguments"):
                near = _like(str(key), ("name", "arguments"))
                found.complain(f"{path}.{key}", f"unknown part{near}", Code.UNKNOWN)
        name = raw.get("name")
        action = ACTIONS.get(name) if isinstance(name, str) else None
        if action is None:
            found.complain(
                f"{path}.name", f"unknown action {name!r}{_like(str(name), ACTIONS)}", Code.UNKNOWN
            )
        elif action.name in found.settings:
            found.complain(f"{path}.name", f"action {name} is configured twice", Code.TWICE)
        else:
            at = f"{path}.arguments"
            found.settings[action.name] = _read_arguments(found, at, raw.get("arguments"), action.arguments)
            if raw.get("arguments") and action.name not in found.actions:
                words = f"taken, but {action.name} is not among the actions: they change nothing"
                found.notes.append(f"{at}: {words}")


def _read_metrics(found: Configuration, value: object) -> None:
    usage = found.plugin("usage")
    if not value:
        if usage is not None:
            words = "plugin usage taken, but no part metrics says where figures come from: without any it"
            found.notes.append(f"{usage.path}.name: {words} changes nothing")
        return
    if not isinstance(value, dict):
        found.complain("metrics", "must be a mapping", Code.VALUE)
        return
    before = len(found.problems)
    read = _read_arguments(found, "metrics", flat(value), METRICS)
    address, interval = read["address"], read["interval"]
    if len(found.problems) > before:
        return
    if not isinstance(address, str) or not isinstance(interval, timedelta):
        found.complain("metrics.address", "is missing: where is the source?", Code.MISSING)
        return
    if usage is None and found.plugin("rescheduling") is None:
        words = "without the plugins usage and rescheduling figures change nothing"
        found.notes.append(f"metrics: taken, but {words}")
    elif interval >= FRESH:
        words = (
            f"figures count for {FRESH.total_seconds() / 60:g} minutes, then none do until they are told anew"
        )
        found.notes.append(f"metrics.interval: taken, but {words}")
    found.source = Source(address, interval, verify=not read["tls.insecureSkipVerify"])


def _check_together(found: Configuration) -> None:
    asking.check(found)
    rescheduling.check(found)
    placement.check(found)
    drf, proportion = found.plugin("drf", "enableHierarchy"), found.plugin("proportion")
    if drf is not None and proportion is not None:
        words = (
            "drf with hierarchy and proportion exclude each other: name capacity, or proportion without it"
        )
        found.complain(f"{drf.path}.enableHierarchy", words, Code.CONFLICT)
    capacity = found.plugin("capacity")
    if capacity is not None and proportion is not None:
        words = "capacity and proportion exclude each other: each says what queues deserve"
        found.complain(f"{capacity.path}.name", words, Code.CONFLICT)


# ---------------------------------------------------------------------- words and values


def _read_arguments(
    found: Configuration, path: str, raw: object, known: tuple[Argument, ...]
) -> dict[str, object]:
    values: dict[str, object] = {one.name: one.unnamed for one in known}
    if raw is None:
        return values
    if not isinstance(raw, dict):
        found.complain(path, "must be a mapping", Code.VALUE)
        return values
    exact = {one.name: one for one in known if not one.is_prefix}
    for key, value in raw.items():
        name, at = str(key), f"{path}.{key}"
        argument = exact.get(name) or next((one for one in known if _begins(one, name)), None)
        if argument is None:
            near = _like(name, [*exact, *(one.name for one in known if one.is_prefix)])
            found.complain(at, f"unknown argument{near}", Code.UNKNOWN)
            continue
        try:
            got = argument.kind.read(value)
        except ValueError as error:
            found.complain(at, f"must be {error}; is {value!r}", Code.VALUE)
            continue
        if got not in argument.harmless:
            _stand_of(found, at, argument)
        if argument.is_prefix:
            values[argument.name] = {**_keys(values[argument.name]), name.removeprefix(argument.name): got}
        else:
            values[argument.name] = got
    return values


def _keys(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, dict) else {}


def _begins(argument: Argument, name: str) -> bool:
    return argument.is_prefix and name.startswith(argument.name) and name != argument.name


def _stand_of(found: Configuration, path: str, argument: Argument) -> None:
    if argument.stand is Stand.ALWAYS:
        found.complain(path, "cannot be switched off: it is always done", Code.ALWAYS)
    else:
        _stand(found, path, "", argument.stand, argument.why)


def _stand(found: Configuration, path: str, what: str, stand: Stand, why: str) -> None:
    if stand is Stand.REFUSED:
        found.complain(path, f"{what} refused: {why}".strip(), Code.REFUSED)
    elif stand is Stand.LACKING:
        found.notes.append(f"{path}: {what} taken, but {why}".replace(":  ", ": "))


def _items(found: Configuration, path: str, value: object) -> Iterable[tuple[str, dict[object, object]]]:
    """Yield the mappings of a list with their paths; an absent list has none."""
    if value is None:
        return
    if not isinstance(value, list):
        found.complain(path, "must be a list", Code.VALUE)
        return
    for number, one in enumerate(value):
        at = f"{path}[{number}]"
        if isinstance(one, dict):
            yield at, one
        else:
            found.complain(at, "must be a mapping", Code.VALUE)


def _like(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name.lower(), [*known], 1, 0.6) or [
        one for one in known if one.lower() == name.lower()
    ]
    return f"; did you mean {near[0]}?" if near else ""
