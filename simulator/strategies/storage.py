"""Config maps, secrets, claims, volumes and storage classes."""

from __future__ import annotations

import base64
from typing import Any, Final

from shared.api.quantity import Quantity
from simulator.core.errors import Cause, invalid, required
from simulator.core.kinds import Lookup, Strategy
from simulator.strategies.shared_rules import keep_status, only_status

JSON = dict[str, Any]


def _default_secret(obj: JSON) -> None:
    obj["type"] = obj.get("type") or "Opaque"
    if text := obj.pop("stringData", None):
        data = obj.setdefault("data", {})
        data.update({key: base64.b64encode(value.encode()).decode() for key, value in text.items()})


def _frozen_data(new: JSON, old: JSON) -> list[Cause]:
    causes: list[Cause] = []
    if old.get("immutable"):
        if not new.get("immutable"):
            causes.append(
                Cause(
                    "FieldValueForbidden",
                    "Forbidden: field is immutable when `immutable` is set",
                    "immutable",
                )
            )
        causes += [
            Cause("FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set", name)
            for name in ("data", "binaryData")
            if new.get(name) != old.get(name)
        ]
    if old.get("type") != new.get("type"):
        causes.append(invalid("type", new.get("type"), "field is immutable"))
    return causes


CONFIGMAP: Final = Strategy(validate_update=_frozen_data)


SECRET: Final = Strategy(default=_default_secret, validate_update=_frozen_data)


def _default_claim(obj: JSON) -> None:
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _admit_claim(obj: JSON, lookup: Lookup) -> None:
    if "storageClassName" in obj["spec"]:
        return
    for found in lookup.every("storageclasses.storage.k8s.io"):
        if (found["metadata"].get("annotations") or {}).get(
            "storageclass.kubernetes.io/is-default-class"
        ) == "true":
            obj["spec"]["storageClassName"] = found["metadata"]["name"]


def _validate_claim(obj: JSON) -> list[Cause]:
    spec = obj["spec"]
    causes: list[Cause] = []
    if not spec.get("accessModes"):
        causes.append(required("spec.accessModes", "at least 1 access mode is required"))
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        causes.append(required("spec.resources[storage]"))
    elif Quantity.parse(storage).nanos <= 0:
        causes.append(invalid("spec.resources[storage]", storage, "must be greater than zero"))
    return causes


# No claim-protection controller runs here, so the finalizer that it would take off is not put on.
CLAIM: Final = Strategy(
    default=_default_claim,
    admit=_admit_claim,
    prepare_create=lambda obj: obj.update(status={"phase": "Pending"}),
    validate=_validate_claim,
    prepare_update=keep_status,
    prepare_status=only_status,
    returns_deleted=True,
)


def _default_volume(obj: JSON) -> None:
    spec = obj["spec"]
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")


def _first_phase(obj: JSON) -> None:
    moment = obj["metadata"]["creationTimestamp"]
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": moment}


VOLUME: Final = Strategy(
    default=_default_volume,
    prepare_create=_first_phase,
    prepare_update=keep_status,
    prepare_status=only_status,
    returns_deleted=True,
)


def _default_storage(obj: JSON) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


STORAGECLASS: Final = Strategy(default=_default_storage, returns_deleted=True)
