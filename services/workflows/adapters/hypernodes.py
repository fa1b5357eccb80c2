"""The controllers of hypernodes: their counts, and their discovery from the labels of nodes."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from services.workflows.adapters.hands import Hands
from services.workflows.adapters.views import key_of
from services.workflows.core.discovery import SOURCE, Config, changes, discover, read_config
from services.workflows.core.hypernodes import status
from services.workflows.core.model import Note, difference
from shared.api import names
from shared.api import resources as r
from shared.api.topology import HyperNode
from shared.errors import AlreadyExists, NotFound, Refused
from shared.hypernodes.tree import Topology
from shared.kube.port import JSON

HYPERNODE: Final = "hypernode:"
DISCOVERY: Final = "discovery:"
_INVALID: Final = "InvalidTopology"
_REFUSED: Final = "FailedDiscovery"


class HyperNodeController:
    """Keeps the counts and conditions of hypernodes true."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._topology = Topology()

    def node_changed(self, old: JSON | None, new: JSON | None) -> None:
        """Note a change of a node."""
        if old is not None and new is not None and _labels(old) == _labels(new):
            return
        name = (new or old or {})["metadata"]["name"]
        self._touch(self._topology.set_node(name, None if new is None else _labels(new)))

    def hypernode_changed(self, old: JSON | None, new: JSON | None) -> None:
        """Note a change of a hypernode."""
        name = (new or old or {})["metadata"]["name"]
        if old is not None and new is not None and old.get("spec") == new.get("spec"):
            self._touch({name})
            return
        spec = None
        if new is not None:
            try:
                spec = HyperNode.model_validate(new)
            except ValidationError as error:
                self._hands.telemetry.log.warning(
                    "hypernode cannot be read: %s", error, extra={"object": name}
                )
        self._touch(self._topology.set_hypernode(name, spec))

    def _touch(self, hypernodes: set[str]) -> None:
        for name in sorted(hypernodes):
            self._hands.add_after(HYPERNODE + name, 0)

    async def handle(self, key: str) -> None:
        """Write one hypernode's status."""
        name = key.removeprefix(HYPERNODE)
        raw, verdict = self._hands.views.get(r.HYPERNODES, name), self._topology.verdict(name)
        if raw is None or verdict is None:
            return
        wanted = status(HyperNode.model_validate(raw), verdict, self._hands.clock.now())
        if patch := difference(raw.get("status"), wanted):
            await self._hands.api.patch(r.HYPERNODES, None, name, {"status": patch}, subresource="status")


class DiscoveryController:
    """Makes hypernodes of labels, where the ConfigMap asks for it."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        settings = hands.settings
        self._config_map = key_of(settings.discovery_namespace, settings.discovery_config_map)
        self._config = Config()

    def config_changed(self, new: JSON | None) -> None:
        """Note a change of the ConfigMap."""
        self._config = read_config(new)
        self._hands.add_after(DISCOVERY, 0)

    def node_changed(self, old: JSON | None, new: JSON | None) -> None:
        """Note a change of a node; only the labels that make hypernodes count."""
        before, after = (self._own_labels(node) for node in (old, new))
        if before != after:
            self._hands.add_after(DISCOVERY, self._hands.settings.discovery_delay_seconds)

    def hypernode_changed(self, old: JSON | None, new: JSON | None) -> None:
        """Note that somebody changed or deleted a hypernode that was made here."""
        if _labels(new or old or {}).get(names.NETWORK_TOPOLOGY_SOURCE) == SOURCE:
            self._hands.add_after(DISCOVERY, self._hands.settings.discovery_delay_seconds)

    def _own_labels(self, node: JSON | None) -> dict[str, str]:
        labels = _labels(node or {})
        return {label: labels[label] for label in self._config.labels if label in labels}

    async def handle(self, key: str) -> None:
        """Bring the discovered hypernodes up to date."""
        hands = self._hands
        config_map = hands.views.get(r.CONFIGMAPS, self._config_map)
        if config_map is None:
            hands.told.forget(key)
            return
        problems = [Note(_INVALID, problem, warning=True) for problem in self._config.problems]
        refused: list[Note] = []
        if self._config.enabled:
            refused = await self._write()
        hands.tell(config_map, hands.told.fresh(key, (*problems, *refused)))
        if refused:
            raise Refused(refused[0].message)

    async def _write(self) -> list[Note]:
        views, api = self._hands.views, self._hands.api
        existing = {
            name: raw
            for (_, name), raw in views.store(r.HYPERNODES).items()
            if _labels(raw).get(names.NETWORK_TOPOLOGY_SOURCE) == SOURCE
        }
        nodes = ((name, _labels(raw)) for (_, name), raw in views.store(r.NODES).items())
        wanted = changes(discover(self._config, nodes, existing.values()), existing)
        refused: list[Note] = []
        for hypernode in wanted.creates:
            try:
                await api.create(r.HYPERNODES, None, hypernode)
            except AlreadyExists:
                text = f"hypernode {hypernode['metadata']['name']} exists and is not of this source"
                refused.append(Note(_REFUSED, text, warning=True))
            except Refused as error:
                refused.append(Note(_REFUSED, str(error), warning=True))
        for name, patch in wanted.updates:
            try:
                await api.patch(r.HYPERNODES, None, name, patch)
            except NotFound:
                continue  # the watch tells, and it is made again
        for name in wanted.deletes:
            await api.remove(r.HYPERNODES, existing[name])
        return refused


def _labels(obj: JSON) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}
