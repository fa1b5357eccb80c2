"""What an extender said of nodes: facts, by question. Asking is the shell's (``adapters.extender``).

A question is what pods of one shape are asked about by; which of its nodes are not known is noted here
whenever somebody wants to know it, for the shell to ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shared.events.contracts import ExtenderAnswered, Gang, Shape


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a node; ``words``: what was said against it, or why it was not answered."""

    accepted: bool
    words: str = ""
    answered: bool = True


_ACCEPTED = Verdict(accepted=True)


@dataclass(slots=True)
class Known:
    """All that is known of a question."""

    verdicts: Mapping[str, Verdict]
    scores: Mapping[str, float]
    as_of: datetime
    abstains: bool = False
    unanswered: tuple[str, ...] = field(init=False, compare=False, repr=False)
    """About whom it could not be asked. It is looked at whenever something changes, and mostly nobody."""

    def __post_init__(self) -> None:
        """Note who was not answered about."""
        self.unanswered = tuple(name for name, one in self.verdicts.items() if not one.answered)

    def differ(self, before: Known | None) -> list[str]:
        """Return the nodes of which something else was known before, or nothing."""
        if before is None:
            return list(self.verdicts)
        names = {**before.verdicts, **self.verdicts}
        return [
            name
            for name in names
            if self.verdicts.get(name) != before.verdicts.get(name)
            or self.scores.get(name, 0.0) != before.scores.get(name, 0.0)
            or self.abstains != before.abstains
        ]


@dataclass(slots=True)
class Answers:
    """The answers of one pool's extender."""

    known: dict[str, Known] = field(default_factory=dict[str, Known])
    shapes: dict[str, Shape] = field(default_factory=dict[str, Shape])
    """What each question is about that shapes have now."""
    questions: dict[int, str] = field(default_factory=dict[int, str])
    """By number of a shape; those that the extender does not manage have none."""
    votes: dict[str, tuple[str, Gang]] = field(default_factory=dict[str, tuple[str, Gang]])
    """Which verb, and for which gang, is a question about pods that may be evicted."""
    lacking: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    """By question: nodes, or pods by their UIDs, that somebody wanted to know of."""

    def ask(self, number: int, question: str | None, shape: Shape) -> None:
        """Note which question a shape has."""
        if question is None:
            self.questions.pop(number, None)
        else:
            self.questions[number] = question
            self.shapes.setdefault(question, shape)

    def clear(self) -> None:
        """Forget what was asked by another policy; what was answered stays a fact."""
        self.shapes.clear()
        self.questions.clear()
        self.votes.clear()
        self.lacking.clear()

    def note(self, event: ExtenderAnswered) -> list[str]:
        """Take in an answer; return the nodes of which something else is known now."""
        verdicts = dict.fromkeys(event.accepted, _ACCEPTED)
        for words, names in event.refused.items():
            verdicts |= dict.fromkeys(names, Verdict(accepted=False, words=words))
        for words, names in event.unanswered.items():
            verdicts |= dict.fromkeys(names, Verdict(accepted=False, words=words, answered=False))
        new = Known(verdicts, event.scores, event.as_of, event.abstains)
        changed = new.differ(self.known.get(event.question))
        self.known[event.question] = new
        lacking = self.lacking.get(event.question)
        if lacking is not None:
            for name in verdicts:
                lacking.pop(name, None)
        return changed

    def forget(self, question: str) -> list[str]:
        """Drop an answer; return the nodes of which nothing is known now."""
        known = self.known.pop(question, None)
        return [] if known is None else list(known.verdicts)

    def passes(self, question: str, names: Sequence[str], *, ignorable: bool) -> list[bool]:
        """Say which nodes take the pods; ``ignorable``: also those that could not be asked about."""
        known = self.known.get(question)
        verdicts = {} if known is None else known.verdicts
        found: list[bool] = []
        for name in names:
            verdict = verdicts.get(name)
            if verdict is None:
                self.lacking.setdefault(question, {})[name] = None
            found.append(verdict is not None and (verdict.accepted or (ignorable and not verdict.answered)))
        return found

    def scores(self, question: str, names: Iterable[str]) -> list[float]:
        """Return how much nodes are liked."""
        known = self.known.get(question)
        scores = {} if known is None else known.scores
        return [scores.get(name, 0.0) for name in names]

    def verdict(self, question: str, name: str) -> Verdict | None:
        """Return what is known of a node, None for nothing."""
        known = self.known.get(question)
        return None if known is None else known.verdicts.get(name)
