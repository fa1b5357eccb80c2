"""Claims on volumes: those that a job names, and those that are made for it.

The name of a claim that is made follows from the job's UID and the volume's place: whoever comes after a
crash makes no second one. (Volcano draws it at random and writes it into the job's spec.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b

from services.controller.core.dependents import Dependent, Trouble, dependent, volume_name
from services.controller.core.model import JSON, Wanted
from shared.api import resources as r
from shared.api.batch import JobReason
from shared.events.contracts import Binding


def claim_name(job: Wanted, index: int) -> str:
    """Return the claim of the volume at ``index``: the one it names, else the one made for it."""
    volume = job.spec["volumes"][index]
    if volume.get("volumeClaimName"):
        return str(volume["volumeClaimName"])
    digest = blake2b(f"{job.uid}/{index}".encode(), digest_size=6).hexdigest()
    return f"{job.name}-pvc-{digest}"


def claims(job: Wanted) -> dict[str, bool]:
    """Return the names of the job's claims, and whether each is made for it."""
    volumes = job.spec.get("volumes") or ()
    return {claim_name(job, index): not volume.get("volumeClaimName") for index, volume in enumerate(volumes)}


def claim_objects(job: Wanted) -> Iterator[Dependent]:
    """Return the claims to be made for a job."""
    for index, volume in enumerate(job.spec.get("volumes") or ()):
        if volume.get("volumeClaim") and not volume.get("volumeClaimName"):
            yield dependent(job, r.PVCS, claim_name(job, index), {"spec": volume["volumeClaim"]})


def places_of_claims(job: Wanted, bindings: Iterable[Binding]) -> dict[str, str]:
    """Return the node of each claim's first pod; ``bindings`` are where the pods go."""
    own = list(claims(job))
    by_task = {
        task.name: [
            *own,
            *(
                volume.persistent_volume_claim.claim_name
                for volume in task.spec.template.spec.volumes
                if volume.persistent_volume_claim
            ),
        ]
        for task in job.tasks
    }
    places: dict[str, str] = {}
    for binding in bindings:
        for claim in by_task.get(binding.task, ()):
            places.setdefault(claim, binding.node)
    return places


def places_of_pods(placed: Iterable[tuple[JSON, str]]) -> dict[str, str]:
    """Return the node of each claim's first pod; ``placed`` are pods as they are and their nodes."""
    places: dict[str, str] = {}
    for pod, node in placed:
        for volume in (pod.get("spec") or {}).get("volumes") or ():
            source = volume.get("persistentVolumeClaim") or {}
            if source.get("claimName"):
                places.setdefault(source["claimName"], node)
    return places


def missing_claim(job: Wanted, exists: Callable[[str], bool]) -> Trouble | None:
    """Say which named claim is not there."""
    for index, volume in enumerate(job.spec.get("volumes") or ()):
        name = volume.get("volumeClaimName")
        if name and not exists(name):
            where = f"spec.volumes[{index}].volumeClaimName"
            text = f"{where}: there is no claim {name} in namespace {job.namespace}: the job waits for it"
            return Trouble(JobReason.PVC_ERROR, text)
        if not name and not volume.get("volumeClaim"):
            text = f"spec.volumes[{index}]: needs a volumeClaimName or a volumeClaim"
            return Trouble(JobReason.PVC_ERROR, text)
    return None


def mount_claims(job: Wanted, spec: JSON) -> None:
    """Mount the job's volumes into every container of a pod (init containers get none, as in Volcano)."""
    volumes = job.spec.get("volumes") or ()
    if not volumes:
        return
    mounted: dict[str, str] = {}
    for index, volume in enumerate(volumes):
        claim = claim_name(job, index)
        if claim not in mounted:
            mounted[claim] = volume_name(f"{job.name}-{claim}" if claim in _names(spec) else claim)
            source = {"name": mounted[claim], "persistentVolumeClaim": {"claimName": claim}}
            spec["volumes"] = [*(spec.get("volumes") or []), source]
        for container in spec.get("containers") or ():
            mount = {"name": mounted[claim], "mountPath": volume.get("mountPath") or ""}
            container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]


def _names(spec: JSON) -> set[str]:
    return {volume.get("name", "") for volume in spec.get("volumes") or ()}
