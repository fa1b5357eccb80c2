"""Which jobs of a flow are due, and what its status says.

Kept from Volcano: one job for each step, named ``<flow>-<template>``, made when the targets are complete;
the flow fails with its first job that failed or was terminated, and then starts nothing more; names,
labels, lists. Better than there: probes and patches work; a completed job that is deleted (by its TTL, or
by hand) stays completed and is not made again; what keeps a flow from going on is said in an event, and the
flow goes on when it is mended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from services.workflows.core.flow_graph import job_name, problems
from services.workflows.core.flow_status import FlowStatus, flow_status
from services.workflows.core.model import JSON, JobView, Note, new_job
from services.workflows.core.patching import patched
from services.workflows.core.probing import Answers, Ask, Check, holds
from shared.api import names
from shared.api.batch import JobPhase
from shared.api.flow import API_VERSION, Flow, FlowPhase, JobFlow, RetainPolicy

_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
FINAL: Final = frozenset({FlowPhase.SUCCEED, FlowPhase.FAILED})


class FlowReason(StrEnum):
    """Reasons of the Kubernetes events on a flow."""

    CREATED = "Created"
    INVALID_FLOW = "InvalidFlow"
    TEMPLATE_NOT_FOUND = "TemplateNotFound"
    FOREIGN_JOB = "ForeignJob"
    FAILED_CREATE = "FailedCreate"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do. ``checks`` were asked for and have no answer: ask the pods and decide again."""

    status: JSON
    phase: FlowPhase
    creates: tuple[JSON, ...] = ()
    deletes: tuple[JobView, ...] = ()
    notes: tuple[Note, ...] = ()
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """What exists around a flow."""

    jobs: Mapping[str, JobView]
    """The flow's own jobs by name, and those that have the name of one."""
    templates: Mapping[str, JSON]
    """The specs of the JobTemplates that it names, by name."""
    answers: Answers = field(default_factory=dict[Check, int])


def decide(flow: JobFlow, scene: Scene) -> Plan:
    """Decide about a flow."""
    own = {name: job for name, job in scene.jobs.items() if job.owner_uid == flow.metadata.uid}
    stored = flow.status.state.phase
    if stored is FlowPhase.SUCCEED and flow.spec.job_retain_policy == RetainPolicy.DELETE:
        gone = tuple(job for job in own.values() if not job.deleting)
        return Plan(flow.status.dump(), FlowPhase.SUCCEED, deletes=gone)
    wrong = tuple(problems(flow))
    status = flow_status(flow, own, invalid=bool(wrong))
    if wrong:
        notes = tuple(Note(FlowReason.INVALID_FLOW, text, warning=True) for text in wrong)
        return Plan(status.body, status.phase, notes=notes)
    if status.phase in FINAL or status.phase is FlowPhase.TERMINATING:
        return Plan(status.body, status.phase)
    return _next(flow, scene, own, status)


def _next(flow: JobFlow, scene: Scene, own: Mapping[str, JobView], status: FlowStatus) -> Plan:
    """Return the plan of a flow that goes on."""
    creates: dict[str, JSON] = {}
    notes: list[Note] = []
    asked: dict[Check, None] = {}

    def ask(check: Check) -> int:
        if check not in scene.answers:
            asked[check] = None
        return scene.answers.get(check, 0)

    for step in flow.spec.flows:
        name = job_name(flow.metadata.name, step.name)
        if name in own or name in creates or name in status.completed:
            continue
        met = [
            _is_met(step, job_name(flow.metadata.name, target), own, status.completed, ask)
            for target in (step.depends_on.targets if step.depends_on else ())
        ]
        if not all(met):
            continue
        if name in scene.jobs:
            text = f"Job {name} exists and is not of this flow: flow {step.name} waits until it is gone"
            notes.append(Note(FlowReason.FOREIGN_JOB, text, warning=True))
        elif (template := scene.templates.get(step.name)) is None:
            text = f"JobTemplate {step.name} does not exist: flow {step.name} waits for it"
            notes.append(Note(FlowReason.TEMPLATE_NOT_FOUND, text, warning=True))
        else:
            creates[name] = _job(flow, step, template, name)
    return Plan(status.body, status.phase, tuple(creates.values()), (), tuple(notes), tuple(asked))


def _is_met(
    step: Flow,
    target: str,
    own: Mapping[str, JobView],
    completed: frozenset[str],
    ask: Ask,
) -> bool:
    if target in completed:
        return True
    job = own.get(target)
    probe = step.depends_on.probe if step.depends_on else None
    if job is None or job.deleting:
        return False
    return job.phase == JobPhase.COMPLETED if probe is None else holds(probe, job, ask)


def _job(flow: JobFlow, step: Flow, template: JSON, name: str) -> JSON:
    patch = step.patch.job_spec.dump() if step.patch is not None and step.patch.job_spec is not None else {}
    origin = {
        names.CREATED_BY_JOB_TEMPLATE: f"{flow.metadata.namespace}.{step.name}",
        names.CREATED_BY_JOB_FLOW: f"{flow.metadata.namespace}.{flow.metadata.name}",
    }
    return new_job(
        flow,
        "JobFlow",
        API_VERSION,
        name=name,
        spec=patched(template, patch),
        labels={key: value for key, value in origin.items() if _LABEL_VALUE.fullmatch(value)},
        annotations=origin,
    )
