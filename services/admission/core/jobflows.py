"""Rules for job flows: who waits for whom, as Volcano's ``/jobflows/validate`` has them."""

from __future__ import annotations

from collections.abc import Iterator

from services.admission.core.graphs import cycle
from services.admission.core.violations import Violation, did_you_mean
from shared.api.flow import JobFlow


def validate_jobflow(flow: JobFlow) -> list[Violation]:
    """Return every reason why this flow may not be. A name that comes twice counts as it was given last."""
    return list(_rules(flow))


def _rules(flow: JobFlow) -> Iterator[Violation]:
    graph = {one.name: one.depends_on.targets if one.depends_on else [] for one in flow.spec.flows}
    last = {one.name: index for index, one in enumerate(flow.spec.flows)}
    for index, one in enumerate(flow.spec.flows):
        for position, target in enumerate(one.depends_on.targets if one.depends_on else []):
            if target not in graph:
                at = f"spec.flows[{index}].dependsOn.targets[{position}]"
                message = f'there is no flow "{target[:80]}"{did_you_mean(target, graph)}'
                yield Violation("unknown-target", at, message)
    if circle := cycle(graph):
        message = f"flows wait for each other: {' → '.join([*circle, circle[0]])}"
        yield Violation("cyclic-dependency", f"spec.flows[{last[circle[0]]}].dependsOn", message)
