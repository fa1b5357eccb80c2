"""The keys of labels that placing depends on, as they were learnt from the pods there were."""

from __future__ import annotations

from collections.abc import Callable

from services.controller.core.kin import asked_keys
from shared.events.contracts import Shape


class LabelKeys:
    """Keys that some pod asked for. Calls ``on_growth`` when there is a new one: facts are others then."""

    def __init__(self) -> None:
        self.known: frozenset[str] = frozenset()
        self.on_growth: Callable[[], None] = lambda: None

    def learn(self, shape: Shape) -> None:
        """Take in what a pod of this shape asks other pods for."""
        new = asked_keys(shape.extras) - self.known if shape.extras else frozenset[str]()
        if new:
            self.known |= new
            self.on_growth()
