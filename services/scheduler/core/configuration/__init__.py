"""Volcano's scheduler configuration, read as it is, to a policy of ours.

``terms`` says what words are, ``sharing``, ``placement``, ``measuring`` and ``actions`` are the words (the
page ``docs/policy/configuration.md`` is made from them), ``document`` and ``reader`` read a file, ``areas``
makes a policy of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from services.scheduler.core.configuration.areas import to_policy
from services.scheduler.core.configuration.document import parse
from services.scheduler.core.configuration.found import Code, Problem
from services.scheduler.core.configuration.making import make_own
from services.scheduler.core.configuration.measuring import Source
from services.scheduler.core.configuration.reader import PLUGINS, read
from services.scheduler.core.policy import Policy
from shared.plugins import Maker


@dataclass(frozen=True, slots=True)
class Configured:
    """A policy, what is wrong with the file it was read from (then it must not be used), and remarks.

    With problems ``policy`` is what the rest of the file says.
    """

    policy: Policy
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    """What is named, in the order of the file."""
    source: Source | None = None
    """Where figures of what nodes really use come from."""


def configure(text: str, base: Policy, own: Mapping[str, Maker] | None = None) -> Configured:
    """Read a configuration file.

    ``base`` says what a file cannot; ``own`` makes plugins beside Volcano's, by their names. One that has the
    name of one of Volcano's is not asked: what such a name means is not for who installs a package to change.
    """
    own = {name: make for name, make in (own or {}).items() if name not in PLUGINS}
    try:
        document = parse(text)
    except ValueError as error:
        return Configured(base, (Problem("", str(error), Code.UNREADABLE),))
    found = read(document, own)
    plugins = make_own(found, own)
    policy = to_policy(found, base, plugins)
    names = found.actions, tuple(found.plugins)
    return Configured(policy, tuple(found.problems), tuple(found.notes), *names, found.source)


__all__ = ["Code", "Configured", "Problem", "Source", "configure"]
