"""Makes, repairs and takes away what jobs need beside pods, and keeps an eye on it.

Only objects with our label are watched, and of each only the metadata is kept: the digest in it says whether
the content is right. Of claims all are watched, for a job may name one that somebody else makes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Final

from services.controller.adapters.api import Api
from services.controller.adapters.hands import together
from services.controller.adapters.keys import Keys
from services.controller.core.belongings import Belongings, belongings, has_any, trouble
from services.controller.core.dependents import KINDS, NEEDED, Dependent, Trouble, digest_of
from services.controller.core.exposing import Outside, read_urls, urls_text
from services.controller.core.model import JSON, Wanted
from services.controller.core.plans import Note
from services.controller.core.plugins.ssh import encoded, key_files
from services.controller.core.podview import owner_job
from shared.api import names
from shared.api import resources as r
from shared.api.batch import JobPhase, JobReason
from shared.clock import Clock
from shared.errors import AlreadyExists, Conflict, NotFound, Refused
from shared.kube.informer import Informer
from shared.kube.informers import Informers
from shared.kube.port import Cluster, Resource

OnChange = Callable[[Resource, JSON | None, JSON | None], None]
Tell = Callable[[Note], None]
_BY_JOB: Final = "job"


class Dependents(Informers):
    """The dependents of all jobs."""

    def __init__(
        self, cluster: Cluster, api: Api, *, clock: Clock, keys: Keys, outside: Outside, on_change: OnChange
    ) -> None:
        self._cluster = cluster
        self._api = api
        self._keys = keys
        self._outside = outside
        self._going: set[str] = set()
        """UIDs of objects that were deleted and may still be in the store."""
        self._known: dict[str, tuple[tuple[object, ...], Belongings]] = {}
        """What jobs should have, by UID, and what that was made from."""
        informers = {
            resource: Informer(
                cluster,
                resource,
                clock=clock,
                on_change=self._listener(resource, on_change),
                labels="" if resource is r.PVCS else names.DEPENDENT,
                transform=_claim if resource is r.PVCS else _metadata_only,
                indexes={_BY_JOB: _owner_uid},
                rng=random.Random(resource.plural),  # noqa: S311 - jitter, the same on each run
            )
            for resource in KINDS
        }
        super().__init__(informers)

    def trouble(self, wanted: Wanted) -> Trouble | None:
        """Say why a job cannot have what it needs, as far as that is known without asking anybody."""
        if not has_any(wanted):
            return None
        claims = self[r.PVCS].store
        named = (volume.get("volumeClaimName") for volume in wanted.spec.get("volumes") or ())
        there = frozenset(name for name in named if name and (wanted.namespace, name) in claims)
        return trouble(wanted, there)

    async def keep(self, wanted: Wanted, phase: JobPhase | None, tell: Tell) -> Trouble | None:
        """Bring about what a job should have in a phase; return what keeps it from being run.

        Raises what passes: Conflict, NotFound, Unavailable.
        """
        there = self._of(wanted)
        if not there and not has_any(wanted):
            return None
        wants = self._belongings(wanted, phase)
        told = await together(self._ensure(wanted, one) for one in wants.needed)
        await self._remove(there, wants)
        await self._expose(wanted, wants, tell)
        return next((one for one in told if one is not None), None)

    def forget_job(self, uid: str) -> None:
        """Drop what is kept of a job that is gone."""
        self._known.pop(uid, None)

    def _belongings(self, wanted: Wanted, phase: JobPhase | None) -> Belongings:
        """Return what a job should have; made anew only when that may have changed."""
        basis = (
            wanted.raw["metadata"].get("generation"),
            wanted.annotations.get(names.EXPOSE),
            phase in NEEDED,
        )
        known = self._known.get(wanted.uid)
        if known is None or known[0] != basis:
            known = self._known[wanted.uid] = (basis, belongings(wanted, phase, self._outside))
        return known[1]

    async def _expose(self, wanted: Wanted, wants: Belongings, tell: Tell) -> None:
        """Make services and ingress and write the URLs; what fails is told, and stops nothing."""
        told = await together(self._ensure(wanted, one, tell) for one in wants.exposed)
        reasons = [wants.exposing_fails, *(one.message for one in told if one is not None)]
        for reason in filter(None, reasons):
            tell(Note(JobReason.EXPOSE_ERROR, reason, warning=True))
        text = None if any(reasons) else urls_text(wants.urls)
        if text != wanted.annotations.get(names.URLS):
            body = {"metadata": {"uid": wanted.uid, "annotations": {names.URLS: text}}}
            await self._api.patch(r.JOBS, wanted.namespace, wanted.name, body)

    async def _ensure(self, wanted: Wanted, one: Dependent, tell: Tell | None = None) -> Trouble | None:
        """Have one object there, with the right content."""
        name = one.body["metadata"]["name"]
        found = self.store(one.resource).get((wanted.namespace, name))
        try:
            if found is None:
                if one.resource is r.INGRESSES and tell is not None:
                    await self._check_ingress(wanted, one, tell)
                return await self._create(wanted, one)
            return await self._correct(wanted, one, found)
        except Refused as error:
            return Trouble(_reason(one), f"{one.resource.kind} {name}: {error}")

    async def _create(self, wanted: Wanted, one: Dependent) -> Trouble | None:
        body = one.body
        if one.keys:
            body = {**body, "data": {**body["data"], **encoded(key_files(await self._keys()))}}
        try:
            self.fold(one.resource, await self._api.create(one.resource, wanted.namespace, body))
        except AlreadyExists:
            found = await self._api.read(one.resource, wanted.namespace, body["metadata"]["name"])
            return await self._correct(wanted, one, found)
        return None

    async def _correct(self, wanted: Wanted, one: Dependent, found: JSON) -> Trouble | None:
        """Bring an object that is there in line; one of another owner is left alone."""
        meta, name = found["metadata"], found["metadata"]["name"]
        owner = owner_job(found)
        if owner != (wanted.name, wanted.uid):
            if owner is not None and owner[0] == wanted.name:
                raise Conflict(f"{one.resource.kind} {name} of an earlier job of this name is still there")
            text = f"{one.resource.kind} {wanted.namespace}/{name} is there already and is not this job's"
            return Trouble(_reason(one), text)
        if meta.get("deletionTimestamp"):
            if one.resource is r.PVCS:
                return None
            raise Conflict(f"{one.resource.kind} {name} is being deleted")
        if names.DEPENDENT in (meta.get("labels") or {}) and digest_of(found) == one.digest:
            return None
        body = dict(one.body)
        if one.resource is r.PVCS:
            body.pop("spec")  # of a claim hardly anything may change
        body["metadata"] = {**body["metadata"], "uid": meta["uid"]}
        self.fold(one.resource, await self._api.patch(one.resource, wanted.namespace, name, body))
        return None

    async def _check_ingress(self, wanted: Wanted, one: Dependent, tell: Tell) -> None:
        """Say beforehand why an ingress would not be served: no such class, or another job has the URL."""
        name = self._outside.ingress_class
        if name:
            try:
                await self._cluster.get(r.INGRESSCLASSES, None, name)
            except NotFound:
                text = f"there is no ingress class {name}: the URLs work when somebody makes it"
                tell(Note(JobReason.EXPOSE_ERROR, text, warning=True))
        ours = set(read_urls(one.body["metadata"]["annotations"]).values())
        for other in self[r.INGRESSES].store.values():
            taken = ours & set(read_urls(other["metadata"].get("annotations") or {}).values())
            if taken and _owner_uid(other) != [wanted.uid]:
                meta = other["metadata"]
                text = f"{min(taken)} is taken by ingress {meta['namespace']}/{meta['name']}"
                raise Refused(text)

    async def _remove(self, there: list[tuple[Resource, JSON]], wants: Belongings) -> None:
        """Delete what the job had and should not have any more; claims stay as long as the job."""
        kept = {one.id for one in (*wants.needed, *wants.exposed)}
        surplus = [
            (resource, obj["metadata"])
            for resource, obj in there
            if resource is not r.PVCS
            and (resource.plural, obj["metadata"]["name"]) not in kept
            and obj["metadata"]["uid"] not in self._going
        ]
        await together(self._delete(resource, meta) for resource, meta in surplus)

    async def _delete(self, resource: Resource, meta: JSON) -> None:
        self._going.add(meta["uid"])
        try:
            await self._api.delete(resource, meta["namespace"], meta["name"], uid=meta["uid"])
        except BaseException:
            self._going.discard(meta["uid"])
            raise

    def _of(self, wanted: Wanted) -> list[tuple[Resource, JSON]]:
        """Return the objects of a job that are there."""
        return [(resource, obj) for resource in KINDS for obj in self[resource].by(_BY_JOB, wanted.uid)]

    def _listener(
        self, resource: Resource, on_change: OnChange
    ) -> Callable[[JSON | None, JSON | None], None]:
        def changed(old: JSON | None, new: JSON | None) -> None:
            if new is None and old is not None:
                self._going.discard(old["metadata"]["uid"])
            on_change(resource, old, new)

        return changed


def _owner_uid(obj: JSON) -> Iterable[str]:
    owner = owner_job(obj)
    return [owner[1]] if owner else []


def _metadata_only(obj: JSON) -> JSON:
    """Keep what we look at; the keys of a Secret stay out of memory."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {key: obj[key] for key in ("apiVersion", "kind") if key in obj} | {"metadata": meta}


def _claim(obj: JSON) -> JSON:
    """Keep of a claim also what it asks for, and whether it has its volume."""
    phase = (obj.get("status") or {}).get("phase") or ""
    return _metadata_only(obj) | {"spec": obj.get("spec") or {}, "status": {"phase": phase}}


def _reason(one: Dependent) -> JobReason:
    return JobReason.PVC_ERROR if one.resource is r.PVCS else JobReason.PLUGIN_ERROR
