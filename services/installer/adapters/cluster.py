"""Carries an installation into a cluster and out of it, and says what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from services.installer.core.objects import LABELS, Installation
from services.installer.core.volcano import Volcano, find
from shared.api import resources as r
from shared.api.base import JSON
from shared.clock import Clock
from shared.errors import NotFound, StartupError
from shared.kube.port import Cluster, Patch, Resource

Say = Callable[[str], None]
_MANAGER: Final = "pumice-install"
_APPLY: Final = {"fieldManager": _MANAGER, "force": "true"}
_OURS: Final = ",".join(f"{key}={value}" for key, value in LABELS.items())
_DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
_ROLES: Final = (
    Resource(
        "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
    ),
    Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    Resource("rbac.authorization.k8s.io", "v1", "roles", "Role"),
)
_WEBHOOKS: Final = (r.MUTATING_WEBHOOKS, r.VALIDATING_WEBHOOKS)
_REMOVED: Final = (*_WEBHOOKS, *_ROLES, r.SERVICEACCOUNTS)
"""What uninstall takes out, in this order: nobody is asked by a webhook while the rest goes."""
KINDS: Final = {(one.api_version, one.kind): one for one in (*r.ALL, *_ROLES)}
_PAUSE: Final = 0.1
_PATIENCE: Final = 30.0


async def install(cluster: Cluster, wanted: Installation, *, take_over: bool, clock: Clock, say: Say) -> None:
    """Put everything there; what is there already is made as it should be.

    Raises StartupError when a Volcano runs that we are not to take over from, and what the API server
    refuses (Refused).
    """
    await _settle_volcano(cluster, take_over=take_over, say=say)
    if not wanted.webhooks:
        await _take_out(cluster, _WEBHOOKS)
    for crd in wanted.crds:
        await _apply(cluster, crd)
    await _until_served(cluster, [crd["metadata"]["name"] for crd in wanted.crds], clock)
    say(f"{len(wanted.crds)} definitions of our kinds")
    for one in wanted.objects:
        await _apply(cluster, one)
    say(f"{_count(wanted.objects)}")
    for queue in wanted.queues:
        await _make(cluster, queue)
    say(f"queues {' and '.join(queue['metadata']['name'] for queue in wanted.queues)}")
    for one in wanted.webhooks:
        await _apply(cluster, one)
    if wanted.webhooks:
        say("webhooks: jobs and queues are refused until admission answers them")


async def uninstall(cluster: Cluster, *, with_crds: bool, say: Say) -> None:
    """Take out what install put there, except definitions, queues and namespace, unless told otherwise."""
    await _take_out(cluster, _REMOVED)
    say("took out webhooks, roles and service accounts")
    crds = (await cluster.list(r.CRDS, labels=_OURS)).items
    left = [f"{count} {name}" for name, count in await _objects_of(cluster, crds)]
    if with_crds:
        for crd in crds:
            await _delete(cluster, r.CRDS, crd)
        say(f"took out {len(crds)} definitions and their objects: {', '.join(left) or 'there were none'}")
    elif crds:
        say(f"left: {len(crds)} definitions with {', '.join(left) or 'no objects'} (--crds takes them too)")
    for namespace in (await cluster.list(r.NAMESPACES, labels=_OURS)).items:
        name = namespace["metadata"]["name"]
        say(f"left: namespace {name} (kubectl delete namespace {name})")


async def _take_out(cluster: Cluster, kinds: Iterable[Resource]) -> None:
    for resource in kinds:
        for one in (await cluster.list(resource, labels=_OURS)).items:
            await _delete(cluster, resource, one)


async def _settle_volcano(cluster: Cluster, *, take_over: bool, say: Say) -> None:
    deployments = (await cluster.list(_DEPLOYMENTS)).items
    configurations = [one for kind in _WEBHOOKS for one in (await cluster.list(kind)).items]
    volcano = find(deployments, configurations)
    if volcano.runs and not take_over:
        names = ", ".join(f"{namespace}/{name}" for namespace, name in volcano.deployments)
        raise StartupError(f"Volcano runs here ({names}): --take-over scales it to nothing and goes on")
    await _stop(cluster, volcano, say)


async def _stop(cluster: Cluster, volcano: Volcano, say: Say) -> None:
    for namespace, name in volcano.deployments:
        await cluster.patch(_DEPLOYMENTS, namespace, name, {"spec": {"replicas": 0}})
        say(f"scaled Volcano's {namespace}/{name} to 0")
    for kind, name in volcano.webhooks:
        resource = next(one for one in _WEBHOOKS if one.kind == kind)
        await cluster.delete(resource, None, name)
        say(f"took out Volcano's {kind} {name}")


async def _apply(cluster: Cluster, obj: JSON) -> None:
    resource = KINDS[obj["apiVersion"], obj["kind"]]
    metadata = obj["metadata"]
    await cluster.patch(
        resource, metadata.get("namespace"), metadata["name"], obj, kind=Patch.APPLY, params=_APPLY
    )


async def _make(cluster: Cluster, queue: JSON) -> None:
    """Create a queue unless there is one: its settings are its owner's.

    It is looked for first: a webhook of an earlier installation, with nobody behind it, stops every creation.
    """
    try:
        await cluster.get(r.QUEUES, None, queue["metadata"]["name"])
    except NotFound:
        await cluster.create(r.QUEUES, None, queue)


async def _until_served(cluster: Cluster, names: Iterable[str], clock: Clock) -> None:
    """Wait until the API server serves the kinds that were just defined."""
    end = clock.monotonic() + _PATIENCE
    for name in names:
        while not _established(await cluster.get(r.CRDS, None, name)):
            if clock.monotonic() > end:
                raise StartupError(f"the API server does not serve {name} after {_PATIENCE:g} s")
            await clock.sleep(_PAUSE)


def _established(crd: JSON) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


async def _objects_of(cluster: Cluster, crds: Iterable[JSON]) -> list[tuple[str, int]]:
    """Return how many objects there are of each kind that has any."""
    found: list[tuple[str, int]] = []
    for crd in crds:
        spec = crd["spec"]
        resource = Resource(
            spec["group"],
            spec["versions"][0]["name"],
            spec["names"]["plural"],
            spec["names"]["kind"],
            namespaced=spec["scope"] == "Namespaced",
        )
        count = len((await cluster.list(resource)).items)
        if count:
            found.append((resource.plural, count))
    return found


async def _delete(cluster: Cluster, resource: Resource, obj: JSON) -> None:
    metadata = obj["metadata"]
    try:
        await cluster.delete(resource, metadata.get("namespace"), metadata["name"], uid=metadata["uid"])
    except NotFound:
        return


def _count(objects: Iterable[JSON]) -> str:
    kinds = [one["kind"] for one in objects]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
