"""svc: pods of a job find each other by name, and nobody else reaches them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from services.controller.core.dependents import Dependent, dependent, selector, volume_name
from services.controller.core.model import JSON, Task, Wanted
from services.controller.core.plugins.arguments import Flags, PluginError
from services.controller.core.plugins.base import add_env, add_volume, containers, hosts
from shared.api import names
from shared.api import resources as r

NAME: Final = "svc"
MOUNT: Final = "/etc/volcano"
_HOSTNAME_LIMIT: Final = 63


@dataclass(frozen=True, slots=True)
class Svc:
    """A headless service, the hosts of each task as files and variables, and a network policy."""

    publish_not_ready: bool = False
    disable_network_policy: bool = False
    inject_hosts_env: bool = True

    @classmethod
    def read(cls, arguments: Sequence[str], *, strict: bool = True) -> Svc:
        """Read the arguments."""
        flags = Flags(
            NAME,
            arguments,
            {
                "publish-not-ready-addresses": False,
                "disable-network-policy": False,
                "inject-hosts-env": True,
            },
            strict=strict,
        )
        return cls(
            flags.switch("publish-not-ready-addresses"),
            flags.switch("disable-network-policy"),
            flags.switch("inject-hosts-env"),
        )

    def check(self, job: Wanted) -> None:
        """A pod's name becomes its host name: it must be able to."""
        for task in job.tasks:
            longest = names.pod_name(job.name, task.name, max(0, task.replicas - 1))
            if not task.spec.template.spec.hostname and (len(longest) > _HOSTNAME_LIMIT or "." in longest):
                raise PluginError(
                    f"spec.plugins[{NAME}]: {longest} cannot be a host name: "
                    f"at most {_HOSTNAME_LIMIT} characters, no dots"
                )

    def objects(self, job: Wanted) -> Iterator[Dependent]:
        """Return the ConfigMap of hosts, the headless service, and the network policy unless switched off."""
        yield dependent(job, r.CONFIGMAPS, config_map(job), {"data": host_files(job)})
        spec: JSON = {"clusterIP": "None", "selector": selector(job)}
        if self.publish_not_ready:
            spec["publishNotReadyAddresses"] = True
        yield dependent(job, r.SERVICES, job.name, {"spec": spec})
        if not self.disable_network_policy:
            own = {"matchLabels": selector(job)}
            policy = {
                "podSelector": own,
                "ingress": [{"from": [{"podSelector": own}]}],
                "policyTypes": ["Ingress"],
            }
            yield dependent(job, r.NETWORKPOLICIES, job.name, {"spec": policy})

    def mutate(self, job: Wanted, task: Task, index: int, pod: JSON) -> None:
        """Name the host, give the variables, mount the files."""
        del task, index
        spec, source = pod["spec"], config_map(job)
        spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
        spec["subdomain"] = spec.get("subdomain") or job.name
        if self.inject_hosts_env:
            variables = [_from_config_map(source, key) for one in job.tasks for key in _variables(one.name)]
            for container in containers(pod):
                add_env(container, *variables)
        volume = volume_name(source)
        add_volume(pod, {"name": volume, "configMap": {"name": source}}, {"name": volume, "mountPath": MOUNT})


def is_closed(job: Wanted) -> bool:
    """Say whether the plugin's network policy lets nobody but the job's own pods in."""
    arguments = (job.spec.get("plugins") or {}).get(NAME)
    return arguments is not None and not Svc.read(arguments, strict=False).disable_network_policy


def config_map(job: Wanted) -> str:
    """Return the name of the ConfigMap of hosts."""
    return f"{job.name}-{NAME}"


def host_files(job: Wanted) -> dict[str, str]:
    """Return for each task its hosts as a file (a line each) and as values of variables."""
    found: dict[str, str] = {}
    for task in job.tasks:
        listed = hosts(job, task)
        hosts_key, number_key = _variables(task.name)
        found[f"{task.name.replace('-', '_')}.host"] = "\n".join(listed)
        found[hosts_key] = ",".join(listed)
        found[number_key] = str(len(listed))
    return found


def _variables(task: str) -> tuple[str, str]:
    key = task.replace("-", "_").upper()
    return f"VC_{key}_HOSTS", f"VC_{key}_NUM"


def _from_config_map(name: str, key: str) -> JSON:
    return {"name": key, "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}}
