"""Lifecycle policies: an event or an exit code, and what to do then."""

from __future__ import annotations

from collections.abc import Iterator

from services.admission.core.violations import Violation, did_you_mean, listing
from shared.api.batch import INTERNAL_ACTIONS, INTERNAL_EVENTS, JobAction, JobEvent, LifecyclePolicy
from shared.api.duration import parse_duration

EVENTS = frozenset(str(event) for event in JobEvent if event not in INTERNAL_EVENTS)
ACTIONS = frozenset(str(action) for action in JobAction if action not in INTERNAL_ACTIONS)


def policy_rules(policies: list[LifecyclePolicy], path: str) -> Iterator[Violation]:
    """Each policy has one kind of trigger and an action; no trigger is used twice."""
    events: dict[str, str] = {}
    codes: set[int] = set()
    for index, policy in enumerate(policies):
        at = f"{path}[{index}]"
        triggers = policy.triggers
        yield from _trigger(policy, at)
        yield from _events(policy, at, events)
        if policy.exit_code is not None and not triggers:
            yield from _exit_code(policy.exit_code, f"{at}.exitCode", codes)
        yield from _action(policy.action, f"{at}.action", needed=bool(triggers))
        if policy.timeout is not None:
            yield from duration_rule(policy.timeout, f"{at}.timeout")
    if JobEvent.ANY in events and len(events) > 1:
        yield Violation(
            "any-event-not-alone",
            events[JobEvent.ANY],
            'a policy for "*" covers every event: take out the other events, or name them instead of "*"',
        )


def _trigger(policy: LifecyclePolicy, path: str) -> Iterator[Violation]:
    if policy.triggers and policy.exit_code is not None:
        yield Violation("policy-event-and-exit-code", path, "event and exitCode exclude each other")
    if not policy.triggers and policy.exit_code is None:
        yield Violation("policy-without-trigger", path, "needs an event, events or an exitCode")


def _events(policy: LifecyclePolicy, path: str, seen: dict[str, str]) -> Iterator[Violation]:
    places = [(policy.event, f"{path}.event")] if policy.event else []
    places += [(event, f"{path}.events[{position}]") for position, event in enumerate(policy.events)]
    own: set[str] = set()
    for event, at in places:
        if event in {str(internal) for internal in INTERNAL_EVENTS}:
            yield Violation("internal-event", at, f'"{event}" is internal; use one of {listing(EVENTS)}')
        elif event not in EVENTS:
            message = f'there is no event "{event[:80]}"; use one of {listing(EVENTS)}'
            yield Violation("unknown-event", at, message + did_you_mean(event, EVENTS))
        elif event in seen and event not in own:  # twice in one policy is harmless
            yield Violation("duplicate-event", at, f'"{event}" has a policy already, at {seen[event]}')
        else:
            own.add(event)
            seen.setdefault(event, at)


def _exit_code(code: int, path: str, seen: set[int]) -> Iterator[Violation]:
    if code == 0:
        yield Violation("exit-code-zero", path, "0 is success: a policy needs another exit code")
    elif code in seen:
        yield Violation("duplicate-exit-code", path, f"exit code {code} has a policy already")
    seen.add(code)


def _action(action: str, path: str, *, needed: bool) -> Iterator[Violation]:
    if action in {str(internal) for internal in INTERNAL_ACTIONS}:
        yield Violation("internal-action", path, f'"{action}" is internal; use one of {listing(ACTIONS)}')
    elif action not in ACTIONS and (needed or action):
        message = f'there is no action "{action[:80]}"' if action else "action is required"
        suggestion = did_you_mean(action, ACTIONS)
        yield Violation("unknown-action", path, f"{message}; use one of {listing(ACTIONS)}{suggestion}")


def duration_rule(text: str, path: str) -> Iterator[Violation]:
    """A duration must be written as Go does."""
    try:
        parse_duration(text)
    except ValueError as error:
        yield Violation("invalid-duration", path, str(error))
