"""Rules for hypernodes, as Volcano's ``/hypernodes/validate`` and the CRD have them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Final

from services.admission.core.formats import dns_subdomain
from services.admission.core.pod.checks import named, one_of, required
from services.admission.core.pod.scheduling import label_selector
from services.admission.core.violations import Violation, listing
from shared.api.topology import HyperNode, MemberSelector, MemberType

_TYPES: Final = frozenset(str(kind) for kind in MemberType)
_NOT_RE2: Final = re.compile(r"(?<!\\)(?:\\\\)*(\(\?(?:<?[=!]|>|P=|\()|\\[1-9]|[*+?}]\+)")
"""Look-around, back references, conditions, possessive repetition: what Volcano's RE2 has not."""


def validate_hypernode(node: HyperNode) -> list[Violation]:
    """Return every reason why this hypernode may not be."""
    return list(_rules(node))


def _rules(node: HyperNode) -> Iterator[Violation]:
    if not node.spec.members:
        yield Violation("required", "spec.members", "a hypernode needs at least one member")
    for index, member in enumerate(node.spec.members):
        at = f"spec.members[{index}]"
        yield from required(member.type, f"{at}.type")
        yield from one_of(member.type, f"{at}.type", _TYPES)
        yield from _selector(member.selector, f"{at}.selector")


def _selector(selector: MemberSelector, path: str) -> Iterator[Violation]:
    ways = {
        "exactMatch": selector.exact_match,
        "regexMatch": selector.regex_match,
        "labelMatch": selector.label_match,
    }
    given = [name for name, value in ways.items() if value is not None]
    if not given:
        yield Violation("member-without-selector", path, f"needs one of {listing(ways)}")
    elif len(given) > 1:
        yield Violation("member-selector-conflict", path, f"{listing(given)} exclude each other")
    if selector.exact_match is not None:
        yield from named(selector.exact_match.name, f"{path}.exactMatch.name", dns_subdomain)
    if selector.regex_match is not None:
        at = f"{path}.regexMatch.pattern"
        yield from required(selector.regex_match.pattern, at)
        yield from _pattern(selector.regex_match.pattern, at)
    yield from label_selector(selector.label_match, f"{path}.labelMatch")


def _pattern(text: str, path: str) -> Iterator[Violation]:
    if foreign := _NOT_RE2.search(text):
        message = f'"{text[:80]}" uses "{foreign[1]}", which RE2 does not know'
        yield Violation("invalid-pattern", path, message)
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(text)
    except (re.error, FutureWarning, DeprecationWarning, OverflowError, RecursionError) as error:
        yield Violation("invalid-pattern", path, f'"{text[:80]}" is no regular expression: {error}')
