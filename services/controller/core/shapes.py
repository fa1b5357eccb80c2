"""The part of a pod that scheduling depends on, from Kubernetes' form to the contracts'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from services.controller.core.devices import device_requests
from services.controller.core.model import JSON, Priorities
from services.controller.core.numa import numa_request
from services.controller.core.podclaims import noted
from shared.api import names
from shared.api.placement import Affinity, NodeSelectorRequirement, NodeSelectorTerm, Toleration
from shared.api.pods import PodSpec
from shared.api.podspec import pod_requests
from shared.api.volumes import PersistentVolumeClaim, Volume
from shared.events import contracts as c

_BY_LABEL: Final = (names.PREEMPTABLE, names.COOLDOWN_TIME)
_EFFECTS: Final = frozenset({"", "NoSchedule", "PreferNoSchedule", "NoExecute"})


def shape_of(spec: PodSpec, annotations: Mapping[str, str], priorities: Priorities) -> c.Shape:
    """Return the shape of a pod or template. Raises ValueError for a request that cannot be read or had."""
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    required = node_affinity and node_affinity.required_during_scheduling_ignored_during_execution
    preferred = node_affinity.preferred_during_scheduling_ignored_during_execution if node_affinity else []
    devices = device_requests(spec, annotations)
    return c.Shape(
        requests={
            name: amount
            for name, amount in sorted(pod_requests(spec).items())
            # It says how large a part of a GPU is: no node has any of it.
            if amount and name != names.VGPU_MEMORY_PERCENTAGE
        },
        node_selector=dict(sorted(spec.node_selector.items())),
        required_terms=tuple(node_term(term) for term in required.node_selector_terms) if required else None,
        preferred_terms=tuple(
            c.PreferredTerm(weight=wish.weight, term=node_term(wish.preference)) for wish in preferred
        ),
        tolerations=tuple(_toleration(t) for t in spec.tolerations if t.effect in _EFFECTS),
        devices=devices[0] if devices else None,
        more_devices=devices[1:],
        numa=numa_request(spec, annotations),
        priority=priority_of(spec, priorities),
        preemptable=preemptable(annotations),
        revocable=revocable(annotations),
        scheduling_gated=bool(spec.scheduling_gates),
        images=_images(spec),
        extras=_extras(spec),
    )


def marks(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, str]:
    """Return a pod's annotations, with what it says by label where Volcano reads either: annotations win."""
    return {key: labels[key] for key in _BY_LABEL if key in labels} | dict(annotations)


def marks_of(pod: JSON) -> dict[str, str]:
    """Return :func:`marks` of a pod."""
    meta = pod["metadata"]
    return marks(meta.get("labels") or {}, meta.get("annotations") or {})


def priority_of(spec: PodSpec, priorities: Priorities) -> int:
    """Return a pod's priority: what the API server resolved, else its class' value."""
    return spec.priority if spec.priority is not None else priorities.of(spec.priority_class_name)


def preemptable(annotations: Mapping[str, str]) -> bool:
    """Say whether a pod may be preempted: by default yes, and no when the annotation is unreadable."""
    return names.PREEMPTABLE not in annotations or is_true(annotations[names.PREEMPTABLE])


def revocable(annotations: Mapping[str, str]) -> bool:
    """Say whether a pod may run on nodes of zones: it says so, or that it may be preempted."""
    zone = annotations.get(names.REVOCABLE_ZONE)
    return is_true(annotations.get(names.PREEMPTABLE, "")) if zone is None else zone == "*"


def is_true(text: str) -> bool:
    """Say whether a text says yes, as Volcano reads it."""
    return text in ("1", "t", "T", "TRUE", "true", "True")


def node_term(term: NodeSelectorTerm) -> c.NodeTerm:
    """Return a term of Kubernetes' as the contracts have it."""
    return c.NodeTerm(
        expressions=tuple(_requirement(one) for one in term.match_expressions),
        fields=tuple(_requirement(one) for one in term.match_fields),
    )


def _requirement(one: NodeSelectorRequirement) -> c.Requirement:
    return c.Requirement.model_validate(
        {"key": one.key, "operator": one.operator, "values": tuple(one.values)}
    )


def _toleration(one: Toleration) -> c.Toleration:
    return c.Toleration.model_validate(
        {
            "key": one.key,
            "operator": one.operator or "Equal",
            "value": one.value,
            "effect": one.effect,
            "toleration_seconds": one.toleration_seconds,
        }
    )


def _images(spec: PodSpec) -> tuple[str, ...]:
    """Return the images of a pod's containers, as nodes name them; nothing where none is said."""
    images = [container.image for container in (*spec.init_containers, *spec.containers)]
    return tuple(sorted(map(_tagged, images))) if any(images) else ()


def _tagged(image: str) -> str:
    return image if ":" in image.rpartition("/")[2] else f"{image}:latest"


def _own_claim(volume: Volume) -> JSON | None:
    """Return the claim that is made for a pod's volume, if it is of that kind. Raises ValueError."""
    source = (volume.model_extra or {}).get("ephemeral")
    if source is None:
        return None
    try:
        found = PersistentVolumeClaim.model_validate(source["volumeClaimTemplate"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"volume {volume.name}: its claim's template cannot be read: {error}") from error
    return {"name": volume.name, "spec": found.spec.dump()}


def _extras(spec: PodSpec) -> JSON:
    """Return what the present scheduler does not look at, in Kubernetes' own form."""
    affinity: Affinity | None = spec.affinity
    found: dict[str, Any] = {
        "podAffinity": affinity.pod_affinity.dump() if affinity and affinity.pod_affinity else None,
        "podAntiAffinity": affinity.pod_anti_affinity.dump()
        if affinity and affinity.pod_anti_affinity
        else None,
        "topologySpreadConstraints": [one.dump() for one in spec.topology_spread_constraints],
        "claims": sorted(
            volume.persistent_volume_claim.claim_name
            for volume in spec.volumes
            if volume.persistent_volume_claim
        ),
        "resourceClaims": noted(one.dump() for one in spec.resource_claims),
        "ephemeral": [own for volume in spec.volumes if (own := _own_claim(volume)) is not None],
        "hostPorts": sorted(
            [port.protocol or "TCP", port.host_ip or "0.0.0.0", number]  # noqa: S104 - Kubernetes' default
            for container in spec.containers
            for port in container.ports
            # In the node's network the API server takes each port for a host port.
            if (number := port.host_port or (port.container_port if spec.host_network else 0))
        ),
    }
    return {key: value for key, value in found.items() if value}
