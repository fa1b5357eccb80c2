"""LimitRanges and ResourceQuotas, watched: a gang that they hold is asked about again when they change."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from services.controller.core.limits import Change, judge
from services.controller.core.model import JSON
from shared.api import resources as r
from shared.clock import Clock
from shared.kube.informer import Informer
from shared.kube.informers import Informers
from shared.kube.port import Cluster

KINDS: Final = (r.LIMITRANGES, r.RESOURCEQUOTAS)


class Limits(Informers):
    """Calls ``on_change(namespace, change)`` for changes that concern pods which are to be made."""

    def __init__(self, cluster: Cluster, *, clock: Clock, on_change: Callable[[str, Change], None]) -> None:
        self._on_change = on_change
        super().__init__(
            {
                resource: Informer(
                    cluster,
                    resource,
                    clock=clock,
                    on_change=self._changed,
                    transform=_trim,
                    rng=random.Random(resource.plural),  # noqa: S311 - jitter, the same on each run
                )
                for resource in KINDS
            }
        )

    def _changed(self, old: JSON | None, new: JSON | None) -> None:
        one, change = new or old, judge(old, new)
        if one is not None and change is not Change.NOTHING:
            self._on_change(one["metadata"]["namespace"], change)


def _trim(obj: JSON) -> JSON:
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": meta}
