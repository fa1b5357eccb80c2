"""What pods are told of the GPUs and CPUs chosen for them, by the same write that puts them on nodes."""

from __future__ import annotations

from services.controller.adapters.hands import Hands
from services.controller.adapters.shape_cache import Shapes
from services.controller.adapters.views import job_key
from services.controller.core.devices import device_annotations
from services.controller.core.model import Wanted
from services.controller.core.numa import numa_annotations
from shared.api import resources as r
from shared.events.contracts import Binding, Shape


class Marks:
    """Makes the annotations that say what a pod has of its node."""

    def __init__(self, hands: Hands, shapes: Shapes) -> None:
        self._hands = hands
        self._shapes = shapes

    def of(self, namespace: str, binding: Binding, wanted: Wanted | None = None) -> dict[str, str]:
        """Return a pod's annotations; of one that is not there yet, by what its job's gang says of its task.

        Raises ValueError when the node does not have these GPUs any more, or the pod asks for none.
        """
        told = numa_annotations(binding.numa)
        if not binding.devices:
            return told
        shape = self._shape(namespace, binding, wanted)
        if shape is None:
            raise ValueError("nothing says which parts of GPUs it asks for")
        node = self._hands.views.get(r.NODES, "", binding.node)
        return told | device_annotations(shape, binding.devices, node, self._hands.clock.now())

    def _shape(self, namespace: str, binding: Binding, wanted: Wanted | None) -> Shape | None:
        views = self._hands.views
        raw = views.get(r.PODS, namespace, binding.pod)
        if raw is not None:
            return self._shapes.of(raw, views.priorities)
        gang = None if wanted is None else views.gang(job_key(namespace, wanted.name))
        tasks = () if gang is None else gang.tasks
        return next((task.shape for task in tasks if task.name == binding.task), None)
