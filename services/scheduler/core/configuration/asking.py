"""The words of Volcano's ``extender``."""

from __future__ import annotations

from typing import Final

from services.scheduler.core.configuration.found import Code, Configuration
from services.scheduler.core.configuration.terms import Argument, Plugin, Stand, Vote, flag
from services.scheduler.core.configuration.values import DURATION, RESOURCES, TEXT, url

VERBS: Final = {
    "predicate": "enablePredicate",
    "prioritize": "enableNodeOrder",
    "preemptable": "enablePreemptable",
    "reclaimable": "enableReclaimable",
}
"""What it can be asked, and the switch of each."""


def _refused(name: str, says: str, why: str) -> Argument:
    return Argument(f"extender.{name}Verb", TEXT, None, f"path: {says}", Stand.REFUSED, (), why)


_ENTRY: Final = "a gang is let in by the decision that places it"
_TOLD: Final = "what is tried is taken back unseen; what was decided is told on bind-decisions"
_NO_SESSION: Final = "there are no sessions: the state is told on cluster-state"

EXTENDER: Final = Plugin(
    "extender",
    "a program is asked over HTTP, beforehand: which nodes take pods, which are better, who may be evicted",
    votes={switch: Vote() for switch in VERBS.values()},
    arguments=(
        Argument(
            "extender.urlPrefix",
            url("address", "an address such as http://127.0.0.1:8080/extender"),
            None,
            "where it listens",
        ),
        Argument(
            "extender.httpTimeout", DURATION, "1s", "for how long an answer is waited for; 0s: no limit"
        ),
        Argument("extender.predicateVerb", TEXT, None, "path: whether a node takes a pod"),
        Argument("extender.prioritizeVerb", TEXT, None, "path: how much nodes are liked"),
        Argument("extender.preemptableVerb", TEXT, None, "path: who may be evicted in a gang's queue"),
        Argument("extender.reclaimableVerb", TEXT, None, "path: who may be evicted in other queues"),
        flag("extender.ignorable", "nodes that it could not be asked about take pods", default=False),
        Argument("extender.managedResources", RESOURCES, None, "it is asked about pods with these only"),
        _refused("queueOverused", "whether a queue has too much", "that changes with each gang of a cycle"),
        _refused("jobEnqueueable", "whether a gang may enter", _ENTRY),
        _refused("jobEnqueued", "that a gang entered", _ENTRY),
        _refused("jobReady", "whether a gang may start", "a gang is whole or not at all"),
        _refused("allocateFunc", "that a pod was placed", _TOLD),
        _refused("deallocateFunc", "that a pod was taken back", _TOLD),
        _refused("onSessionOpen", "that a session begins", _NO_SESSION),
        _refused("onSessionClose", "that a session ends", _NO_SESSION),
    ),
)


def check(found: Configuration) -> None:
    """See to it that an extender that is named can be asked something."""
    extender = found.plugin("extender")
    if extender is None:
        return
    path = f"{extender.path}.arguments"
    address = f"{path}.extender.urlPrefix"
    told = any(problem.path == address for problem in found.problems)
    if extender.arguments["extender.urlPrefix"] is None and not told:
        found.complain(address, "must say where the extender listens", Code.MISSING)
    verbs = [f"extender.{verb}Verb" for verb in VERBS]
    if not any(extender.arguments[verb] for verb in verbs):
        found.complain(path, f"must name what is asked: {' or '.join(verbs)}", Code.MISSING)
