"""Which devices a request may be served with by what they are: model, id and mode.

Asked of each device once, and again of those of nodes whose devices have changed since.
"""

from __future__ import annotations

import numpy as np

from services.scheduler.core.columns import BoolArray, SlotArray
from services.scheduler.core.nodes import Nodes
from shared.events.contracts import Device, DeviceRequest


class Eligible:
    """The answers for one request, by device and slot."""

    def __init__(self, nodes: Nodes, request: DeviceRequest) -> None:
        self._nodes = nodes
        self._request = request
        self._models = tuple(text.upper() for text in request.models)
        self._not_models = tuple(text.upper() for text in request.not_models)
        self._seen: list[tuple[Device, ...]] = []
        self._answers: BoolArray = np.zeros((0, 0), np.bool_)
        self._version = -1

    @staticmethod
    def matters(request: DeviceRequest) -> bool:
        """Whether a request is choosy at all."""
        return bool(request.models or request.not_models or request.ids or request.not_ids or request.mode)

    def at(self, slots: SlotArray, most: int) -> BoolArray:
        """Return the answers for the first ``most`` devices of nodes: [device, node]."""
        nodes = self._nodes
        if self._answers.shape != (most, nodes.exists.size):
            self._answers = np.zeros((most, nodes.exists.size), np.bool_)
            self._seen = []
            self._version = -1
        if self._version != nodes.devices_version:
            self._version = nodes.devices_version
            self._refresh()
        answers: BoolArray = self._answers[:, slots]
        return answers

    def _refresh(self) -> None:
        self._seen += [()] * (len(self._nodes.devices) - len(self._seen))
        for slot, devices in enumerate(self._nodes.devices):
            if devices is not self._seen[slot]:
                self._seen[slot] = devices
                self._answers[:, slot] = False
                # Devices behind the last healthy one of all have no columns.
                known = devices[: len(self._answers)]
                self._answers[: len(known), slot] = [self._takes(device) for device in known]

    def _takes(self, device: Device) -> bool:
        request, model = self._request, device.model.upper()
        if request.mode and request.mode != device.mode:
            return False
        if self._models and not any(text in model for text in self._models):
            return False
        if any(text in model for text in self._not_models):
            return False
        return (not request.ids or device.id in request.ids) and device.id not in request.not_ids
