"""Volumes of a pod and where containers mount them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from services.admission.core.formats import config_key, dns_label, dns_subdomain
from services.admission.core.pod.checks import (
    Violations,
    named,
    one_of,
    required,
    stays_inside,
    unique,
    within,
)
from services.admission.core.violations import Violation, did_you_mean
from shared.api.pods import Container
from shared.api.quantity import Quantity, QuantityError
from shared.api.volumes import KeyToPath, Volume

_HUGE: Final = "HugePages"
_MEDIA: Final = frozenset({"Memory", _HUGE})
_HOST_PATH_TYPES: Final = frozenset(
    {"DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"}
)
_PROPAGATION: Final = frozenset({"None", "HostToContainer", "Bidirectional"})
_MODE_MAX: Final = 0o777


def volumes(values: list[Volume], path: str) -> Violations:
    """Volumes have different names and one source each."""
    seen: set[str] = set()
    for index, volume in enumerate(values):
        at = f"{path}[{index}]"
        yield from named(volume.name, f"{at}.name", dns_label)
        yield from unique(volume.name, f"{at}.name", seen)
        yield from _source(volume, at)


def _source(volume: Volume, path: str) -> Violations:
    sources = [
        volume.config_map,
        volume.secret,
        volume.empty_dir,
        volume.host_path,
        volume.persistent_volume_claim,
        volume.nfs,
        *(volume.model_extra or {}).values(),
    ]
    count = sum(source is not None for source in sources)
    if count == 0:
        yield Violation("required", path, "must have a source (emptyDir, persistentVolumeClaim, configMap …)")
    elif count > 1:
        yield Violation("forbidden", path, f"must have one source; it has {count}")
    if (config := volume.config_map) is not None:
        yield from named(config.name, f"{path}.configMap.name", dns_subdomain)
        yield from within(config.default_mode, f"{path}.configMap.defaultMode", 0, _MODE_MAX)
        yield from _items(config.items, f"{path}.configMap.items")
    if (secret := volume.secret) is not None:
        yield from required(secret.secret_name, f"{path}.secret.secretName")
        yield from within(secret.default_mode, f"{path}.secret.defaultMode", 0, _MODE_MAX)
        yield from _items(secret.items, f"{path}.secret.items")
    if (claim := volume.persistent_volume_claim) is not None:
        yield from required(claim.claim_name, f"{path}.persistentVolumeClaim.claimName")
    yield from _local(volume, path)


def _local(volume: Volume, path: str) -> Violations:
    if (empty := volume.empty_dir) is not None:
        if not empty.medium.startswith(f"{_HUGE}-"):
            yield from one_of(empty.medium, f"{path}.emptyDir.medium", _MEDIA)
        yield from _size(empty.size_limit, f"{path}.emptyDir.sizeLimit")
    if (host := volume.host_path) is not None:
        yield from required(host.path, f"{path}.hostPath.path")
        yield from stays_inside(host.path, f"{path}.hostPath.path")
        yield from one_of(host.type, f"{path}.hostPath.type", _HOST_PATH_TYPES)
    if (nfs := volume.nfs) is not None:
        yield from required(nfs.server, f"{path}.nfs.server")
        yield from required(nfs.path, f"{path}.nfs.path")
        if nfs.path and not nfs.path.startswith("/"):
            yield Violation("invalid", f"{path}.nfs.path", "must be an absolute path")


def _size(text: str | float | None, path: str) -> Violations:
    if text is None:
        return
    try:
        if Quantity.parse(text) < Quantity(0):
            yield Violation("invalid", path, f"{text} must not be negative")
    except QuantityError as error:
        yield Violation("invalid-quantity", path, str(error))


def _items(items: list[KeyToPath], path: str) -> Violations:
    for index, item in enumerate(items):
        at = f"{path}[{index}]"
        yield from named(item.key, f"{at}.key", config_key)
        yield from required(item.path, f"{at}.path")
        yield from stays_inside(item.path, f"{at}.path")
        if item.path.startswith("/"):
            yield Violation("invalid", f"{at}.path", "must be a relative path")
        yield from within(item.mode, f"{at}.mode", 0, _MODE_MAX)


def mounts(container: Container, path: str, known: Collection[str]) -> Violations:
    """Mounts and devices name volumes of the pod, each at a place of its own."""
    places: set[str] = set()
    for index, mount in enumerate(container.volume_mounts):
        at = f"{path}.volumeMounts[{index}]"
        yield from _volume_name(mount.name, f"{at}.name", known)
        yield from required(mount.mount_path, f"{at}.mountPath")
        yield from unique(mount.mount_path, f"{at}.mountPath", places)
        for field, text in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
            yield from stays_inside(text, f"{at}.{field}")
            if text.startswith("/"):
                yield Violation("invalid", f"{at}.{field}", "must be a relative path")
        if mount.sub_path and mount.sub_path_expr:
            yield Violation("invalid", f"{at}.subPathExpr", "subPath and subPathExpr exclude each other")
        yield from one_of(mount.mount_propagation, f"{at}.mountPropagation", _PROPAGATION)
    for index, device in enumerate(container.volume_devices):
        at = f"{path}.volumeDevices[{index}]"
        yield from _volume_name(device.name, f"{at}.name", known)
        yield from required(device.device_path, f"{at}.devicePath")
        yield from unique(device.device_path, f"{at}.devicePath", places)
        yield from stays_inside(device.device_path, f"{at}.devicePath")


def _volume_name(name: str, path: str, known: Collection[str]) -> Violations:
    yield from required(name, path)
    if name and name not in known:
        yield Violation("not-found", path, f'the pod has no volume "{name[:80]}"{did_you_mean(name, known)}')
