"""The parts of kubernetes_asyncio that we use, imported without the rest of it.

``import kubernetes_asyncio`` loads some 800 generated model classes: about 3 s of CPU and 70 MiB that no
service here needs. So its configuration modules are loaded below bare packages, which are taken out of
``sys.modules`` again: whoever imports kubernetes_asyncio elsewhere gets the whole of it, untouched.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubernetes_asyncio.client.configuration import Configuration
    from kubernetes_asyncio.config.config_exception import ConfigException
    from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger
else:
    _ROOT = "kubernetes_asyncio"

    def _ours(name: str) -> bool:
        return name == _ROOT or name.startswith(_ROOT + ".")

    def _bare_package(name: str, folder: Path) -> ModuleType:
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
        return package

    def _load() -> tuple[ModuleType, ModuleType, ModuleType, ModuleType]:
        spec = find_spec(_ROOT)
        if spec is None or not spec.submodule_search_locations:
            msg = f"No module named {_ROOT!r}"
            raise ModuleNotFoundError(msg, name=_ROOT)
        folder = Path(spec.submodule_search_locations[0])
        before = {name: module for name, module in sys.modules.items() if _ours(name)}
        for name in before:
            del sys.modules[name]
        try:
            _bare_package(_ROOT, folder)
            client = _bare_package(f"{_ROOT}.client", folder / "client")
            configuration = import_module(f"{_ROOT}.client.configuration")
            client.Configuration = configuration.Configuration
            client.ApiClient = object  # named in annotations only
            _bare_package(f"{_ROOT}.config", folder / "config")
            return (
                configuration,
                import_module(f"{_ROOT}.config.config_exception"),
                import_module(f"{_ROOT}.config.incluster_config"),
                import_module(f"{_ROOT}.config.kube_config"),
            )
        finally:
            for name in [name for name in sys.modules if _ours(name)]:
                del sys.modules[name]
            sys.modules.update(before)

    _configuration, _exception, _incluster, _kube_config = _load()
    Configuration = _configuration.Configuration
    ConfigException = _exception.ConfigException
    InClusterConfigLoader = _incluster.InClusterConfigLoader
    KubeConfigLoader = _kube_config.KubeConfigLoader
    KubeConfigMerger = _kube_config.KubeConfigMerger

__all__ = [
    "ConfigException",
    "Configuration",
    "InClusterConfigLoader",
    "KubeConfigLoader",
    "KubeConfigMerger",
]
