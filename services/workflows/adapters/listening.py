"""Which objects must be looked at when something changes in the cluster."""

from __future__ import annotations

from services.workflows.adapters.cron import PREFIX as CRON
from services.workflows.adapters.flows import FLOW, TEMPLATE, FlowController
from services.workflows.adapters.hands import Hands
from services.workflows.adapters.hypernodes import DiscoveryController, HyperNodeController
from services.workflows.adapters.views import key_of, template_of
from shared.api import resources as r
from shared.api.meta import controller_of
from shared.keyed import KeyedQueue
from shared.kube.port import JSON, Resource


class Listener:
    """Puts what a change concerns into the queue; a change costs what it concerns."""

    def __init__(
        self,
        hands: Hands,
        queue: KeyedQueue,
        flows: FlowController,
        hypernodes: HyperNodeController,
        discovery: DiscoveryController,
    ) -> None:
        self._hands = hands
        self._queue = queue
        self._flows = flows
        self._hypernodes = hypernodes
        self._discovery = discovery

    def changed(self, resource: Resource, old: JSON | None, new: JSON | None) -> None:
        """Take in a change of one object."""
        meta = (new or old or {})["metadata"]
        namespace, name = meta.get("namespace") or "", meta["name"]
        if resource is r.JOBS:
            self._job(namespace, old, new)
        elif resource is r.JOBFLOWS:
            self._queue.add(FLOW + key_of(namespace, name))
        elif resource is r.CRONJOBS:
            self._queue.add(CRON + key_of(namespace, name))
        elif resource is r.JOBTEMPLATES:
            self._queue.add(TEMPLATE + key_of(namespace, name))
            if (old or {}).get("spec") != (new or {}).get("spec"):
                for flow in self._hands.views.flows_of_template(namespace, name):
                    self._queue.add(FLOW + flow)
        elif resource is r.NODES:
            self._hypernodes.node_changed(old, new)
            self._discovery.node_changed(old, new)
        elif resource is r.HYPERNODES:
            self._hypernodes.hypernode_changed(old, new)
            self._discovery.hypernode_changed(old, new)
        elif resource is r.CONFIGMAPS and name == self._hands.settings.discovery_config_map:
            self._discovery.config_changed(new)

    def _job(self, namespace: str, old: JSON | None, new: JSON | None) -> None:
        job = new or old or {}
        came_or_went = old is None or new is None
        owner = controller_of(job)
        if owner is not None and owner.get("kind") == "JobFlow":
            key = FLOW + key_of(namespace, owner["name"])
            if came_or_went or _step(old) != _step(new):
                self._queue.add(key)
            else:
                self._queue.add_after(key, self._hands.settings.status_delay_seconds)
        elif (
            owner is not None
            and owner.get("kind") == "CronJob"
            and (came_or_went or _step(old) != _step(new))
        ):
            self._queue.add(CRON + key_of(namespace, owner["name"]))
        if came_or_went and (template := template_of(job)):
            self._queue.add(TEMPLATE + key_of(namespace, template.removeprefix(f"{namespace}.")))
        if new is None and (flow := self._flows.blocked_by(key_of(namespace, job["metadata"]["name"]))):
            self._queue.add(flow)


def _step(job: JSON | None) -> tuple[object, object]:
    """Return what of a job matters at once: its phase, and whether it is being deleted."""
    body = job or {}
    state = (body.get("status") or {}).get("state") or {}
    return state.get("phase"), (body.get("metadata") or {}).get("deletionTimestamp")
