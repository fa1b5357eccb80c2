"""What is wrong with a flow by itself, whatever exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Final

from shared.api.batch import DNS_SUBDOMAIN
from shared.api.flow import JobFlow

_NAME: Final = re.compile(DNS_SUBDOMAIN)
_MAX_NAME: Final = 63
"""The job's name is a label of its pods."""


def job_name(flow: str, template: str) -> str:
    """Return the name of a flow's job."""
    return f"{flow}-{template}"


def problems(flow: JobFlow) -> Iterator[str]:
    """Yield why a flow cannot run as it is written, for people."""
    known = {step.name for step in flow.spec.flows}
    for index, step in enumerate(flow.spec.flows):
        name = job_name(flow.metadata.name, step.name)
        if len(name) > _MAX_NAME:
            message = f"job {name} would have {len(name)} characters, {_MAX_NAME} are allowed"
            yield f"spec.flows[{index}].name: {message}"
        elif not _NAME.fullmatch(name):
            yield f"spec.flows[{index}].name: {name!r} cannot be the name of a job"
        for place, target in enumerate(step.depends_on.targets if step.depends_on else ()):
            if target not in known:
                yield f"spec.flows[{index}].dependsOn.targets[{place}]: there is no flow {target!r}"
    graph: dict[str, set[str]] = {}
    for step in flow.spec.flows:
        needs = graph.setdefault(step.name, set())
        needs.update(step.depends_on.targets if step.depends_on else ())
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        yield f"spec.flows: flows wait for each other: {' → '.join(reversed(circle))}"
