"""Informers of several kinds, followed together: what one service knows of the cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from shared.clock import Clock
from shared.kube.informer import Informer
from shared.kube.port import JSON, Cluster, Resource
from shared.kube.store import Index


def lean(obj: JSON) -> JSON:
    """Drop what nobody here reads, to save memory."""
    return {**obj, "metadata": {key: one for key, one in obj["metadata"].items() if key != "managedFields"}}


def following(
    cluster: Cluster,
    kinds: Iterable[Resource],
    *,
    clock: Clock,
    on_change: Callable[[Resource, JSON | None, JSON | None], None],
    indexes: Mapping[Resource, Mapping[str, Index]],
) -> dict[Resource, Informer]:
    """Return an informer of each kind; all tell ``on_change``, with the kind, and keep lean objects."""
    return {
        resource: Informer(
            cluster,
            resource,
            clock=clock,
            on_change=partial(on_change, resource),
            transform=lean,
            indexes=indexes.get(resource),
            rng=random.Random(resource.plural),  # noqa: S311 - jitter, the same on each run
        )
        for resource in kinds
    }


class Informers:
    """See :class:`shared.kube.informer.Informer`; reads cost no request."""

    def __init__(self, informers: Mapping[Resource, Informer]) -> None:
        self._informers = dict(informers)

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(informer.run())

    async def synced(self) -> None:
        """Return once all first lists are in."""
        for informer in self._informers.values():
            await informer.synced()

    @property
    def waiting(self) -> str:
        """The kinds whose store is not complete and fresh, as text; empty: all are."""
        return ", ".join(kind.plural for kind, informer in self._informers.items() if not informer.healthy)

    def __getitem__(self, resource: Resource) -> Informer:
        """Return a kind's informer."""
        return self._informers[resource]

    def store(self, resource: Resource) -> Mapping[tuple[str, str], JSON]:
        """Return the objects of a kind by (namespace, name)."""
        return self._informers[resource].store

    def fold(self, resource: Resource, obj: JSON) -> None:
        """Take in the answer to one of our writes, of a kind that is followed or not."""
        if resource in self._informers:
            self._informers[resource].upsert(obj)

    def forget(self, resource: Resource, obj: JSON) -> None:
        """Take out what was deleted for good."""
        if resource in self._informers:
            self._informers[resource].forget(obj)
