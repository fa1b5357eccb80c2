"""What a rule finds wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, slots=True)
class Violation:
    """One mistake.

    ``code`` is stable and in kebab-case, for programs; ``path`` is the field in Kubernetes' form
    (``spec.tasks[0].template.spec.containers[0].image``); ``message`` says what is wrong and what to do.
    """

    code: str
    path: str
    message: str


def listing(names: Iterable[str]) -> str:
    """Return names for a message: sorted, in quotes, at most ten."""
    quoted = [f'"{name}"' for name in sorted(names)]
    return ", ".join(quoted[:10]) + (f" and {len(quoted) - 10} more" if len(quoted) > 10 else "")  # noqa: PLR2004


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suggestion to append to a message, or nothing."""
    close = get_close_matches(name, sorted(known), n=1)
    return f'; did you mean "{close[0]}"?' if close else ""
