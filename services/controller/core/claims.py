"""Claims on volumes: those that a job names, and those that are made for it.

The name of a claim that is made follows from the job's UID and the volume's place: whoever comes after a
crash makes no second one. (Volcano draws it at random and writes it into the job's spec.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from services.controller.core.dependents import Dependent, Trouble, dependent, volume_name
from services.controller.core.model import JSON, Wanted
from services.controller.core.podclaims import PodClaim, claims_of_spec
from services.controller.core.volumes import own_claim
from shared.api import resources as r
from shared.api.batch import JobReason
from shared.events.contracts import Binding


@dataclass(frozen=True, slots=True)
class Place:
    """A pod's node, and its claims; ``own`` ones are made when the pod is there."""

    node: str
    claims: tuple[str, ...]
    own: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Claimant:
    """A pod that is decided, and its claims on devices."""

    pod: str
    node: str
    claims: tuple[PodClaim, ...]


_Mounted = tuple[tuple[str, ...], tuple[str, ...]]
"""Claims by name, and volumes that are claims of the pod's own."""
_NONE: Final[_Mounted] = ((), ())


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


def places_of_job(job: Wanted, bindings: Iterable[Binding]) -> dict[str, Place]:
    """Return where a job's pods are to be and what they mount, of those that mount something."""
    shared = tuple(claims(job))
    mounted = _by_task(job)
    if not shared and not any(named or own for named, own in mounted.values()):
        return {}
    places: dict[str, Place] = {}
    for one in bindings:
        named, own = mounted.get(one.task, _NONE)
        if shared or named or own:
            places[one.pod] = _place(one, (*shared, *named), own)
    return places


def pods_first(job: Wanted) -> bool:
    """Whether pods of a job must be there before they have what they claim.

    Their own volumes are made for each when it is there; devices are given to a pod by its UID.
    """
    return any(own for _, own in _by_task(job).values()) or any(
        (raw.get("template") or {}).get("spec", {}).get("resourceClaims") for raw in job.spec["tasks"]
    )


def claimants_of_job(job: Wanted, bindings: Iterable[Binding]) -> list[Claimant]:
    """Return the pods of a job that have claims on devices."""
    written = zip(job.spec["tasks"], job.tasks, strict=True)
    asked = {task.name: claims_of_spec((raw.get("template") or {}).get("spec")) for raw, task in written}
    return [Claimant(one.pod, one.node, claims) for one in bindings if (claims := asked.get(one.task))]


def claimants_of_pods(pods: Mapping[str, JSON], bindings: Iterable[Binding]) -> list[Claimant]:
    """Return the pods that have claims on devices; ``pods`` by name."""
    found = ((one, claims_of_spec((pods.get(one.pod) or {}).get("spec"))) for one in bindings)
    return [Claimant(one.pod, one.node, claims) for one, claims in found if claims]


def places_of_pods(pods: Mapping[str, JSON], bindings: Iterable[Binding]) -> dict[str, Place]:
    """Return where pods are to be and what they mount, of those that mount something; ``pods`` by name."""
    places: dict[str, Place] = {}
    for one in bindings:
        named, own = _mounted((pods.get(one.pod) or {}).get("spec"))
        if named or own:
            places[one.pod] = _place(one, named, own)
    return places


def _place(binding: Binding, named: tuple[str, ...], own: tuple[str, ...]) -> Place:
    made = tuple(own_claim(binding.pod, volume) for volume in own)
    return Place(binding.node, (*named, *made), frozenset(made))


def _by_task(job: Wanted) -> dict[str, _Mounted]:
    written = zip(job.spec["tasks"], job.tasks, strict=True)
    return {task.name: _mounted((raw.get("template") or {}).get("spec")) for raw, task in written}


def _mounted(spec: JSON | None) -> _Mounted:
    volumes = (spec or {}).get("volumes")
    if not volumes:
        return _NONE
    named = [(one.get("persistentVolumeClaim") or {}).get("claimName") for one in volumes]
    own = [one["name"] for one in volumes if one.get("ephemeral")]
    return tuple(filter(None, named)), tuple(own)


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
