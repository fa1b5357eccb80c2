"""The controllers of flows and templates: look at one at a time, when something changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from prometheus_client import Counter
from pydantic import ValidationError

from services.workflows.adapters.hands import Hands
from services.workflows.adapters.views import key_of
from services.workflows.core.flow_graph import job_name
from services.workflows.core.flows import FlowReason, Plan, Scene, decide
from services.workflows.core.model import JobView, Note, difference
from services.workflows.core.probing import Answers, Check
from shared.api import resources as r
from shared.api.flow import JobFlow
from shared.errors import AlreadyExists, Refused
from shared.kube.port import JSON

FLOW: Final = "flow:"
TEMPLATE: Final = "template:"
Prober = Callable[[Sequence[Check]], Awaitable[Answers]]
"""Asks pods and returns how many passed each check."""


class FlowController:
    """Makes the jobs of flows and keeps statuses true."""

    def __init__(self, hands: Hands, prober: Prober) -> None:
        self._hands = hands
        self._prober = prober
        self._blocked: dict[str, str] = {}
        """Flows by the jobs of others that have their jobs' names."""
        self._entered: Final = Counter(
            "pumice_workflows_flow_phases",
            "Flows that entered a phase.",
            ["phase"],
            registry=hands.telemetry.registry,
        )

    def blocked_by(self, job: str) -> str | None:
        """Return the key of the flow that waits until a job of another is gone."""
        return self._blocked.pop(job, None)

    async def handle(self, key: str) -> None:
        """Look at one flow; what is created in a look is seen by the same look."""
        hands, name = self._hands, key.removeprefix(FLOW)
        raw = hands.views.get(r.JOBFLOWS, name)
        if raw is None:
            hands.told.forget(key)
            return
        try:
            flow = JobFlow.model_validate(raw)
        except ValidationError as error:
            hands.telemetry.log.warning("job flow cannot be read: %s", error, extra={"object": name})
            return
        plan = await self._decide(key, flow)
        refused = await self._create(flow, raw, plan)
        if plan.creates:
            plan = await self._decide(key, flow)
        hands.tell(raw, hands.told.fresh(key, (*plan.notes, *refused)))
        await self._write(flow, raw, plan)
        for job in plan.deletes:
            await self._delete(job)
        if refused:
            raise Refused(refused[0].message)

    async def _decide(self, key: str, flow: JobFlow) -> Plan:
        scene = self._scene(flow)
        plan = decide(flow, scene)
        if plan.checks:
            plan = decide(flow, Scene(scene.jobs, scene.templates, await self._prober(plan.checks)))
            self._hands.add_after(key, self._hands.settings.probe_seconds)
        for name, job in scene.jobs.items():
            if job.owner_uid != flow.metadata.uid:
                self._blocked[key_of(flow.metadata.namespace, name)] = key
        return plan

    def _scene(self, flow: JobFlow) -> Scene:
        views, meta = self._hands.views, flow.metadata
        jobs = {job.name: job for job in views.jobs_of(meta.uid)}
        templates: dict[str, JSON] = {}
        for step in flow.spec.flows:
            name = job_name(meta.name, step.name)
            if name not in jobs and (other := views.job(meta.namespace, name)) is not None:
                jobs[name] = other
            if template := views.get(r.JOBTEMPLATES, key_of(meta.namespace, step.name)):
                templates[step.name] = template.get("spec") or {}
        return Scene(jobs, templates)

    async def _create(self, flow: JobFlow, raw: JSON, plan: Plan) -> list[Note]:
        """Create what is due; return what the API server refused."""
        hands, refused = self._hands, list[Note]()
        for job in plan.creates:
            name = job["metadata"]["name"]
            try:
                await hands.api.create(r.JOBS, flow.metadata.namespace, job)
            except AlreadyExists:
                await hands.api.read(r.JOBS, flow.metadata.namespace, name)
            except Refused as error:
                text = f"job {name} was refused: {error}"
                refused.append(Note(FlowReason.FAILED_CREATE, text, warning=True))
            else:
                hands.tell(raw, [Note(FlowReason.CREATED, f"create a job named {name}!")])
        return refused

    async def _write(self, flow: JobFlow, raw: JSON, plan: Plan) -> None:
        patch = difference(raw.get("status"), plan.status)
        if not patch:
            return
        meta = flow.metadata
        await self._hands.api.patch(
            r.JOBFLOWS, meta.namespace, meta.name, {"status": patch}, subresource="status"
        )
        if plan.phase is not flow.status.state.phase:
            self._entered.labels(plan.phase.value).inc()

    async def _delete(self, job: JobView) -> None:
        obj = self._hands.views.store(r.JOBS).get((job.namespace, job.name))
        if obj is None or obj["metadata"].get("uid") != job.uid:
            return
        await self._hands.api.remove(r.JOBS, obj)


async def sync_template(hands: Hands, key: str) -> None:
    """Keep the list of jobs that were made from a JobTemplate."""
    name = key.removeprefix(TEMPLATE)
    raw = hands.views.get(r.JOBTEMPLATES, name)
    if raw is None:
        return
    namespace, _, own = name.partition("/")
    jobs = hands.views.jobs_from_template(namespace, own)
    if jobs != ((raw.get("status") or {}).get("jobDependsOnList") or []):
        patch = {"status": {"jobDependsOnList": jobs}}
        await hands.api.patch(r.JOBTEMPLATES, namespace, own, patch, subresource="status")
