"""What every plugin is made of, and the few things that several of them do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from services.controller.core.dependents import Dependent
from services.controller.core.model import JSON, Task, Wanted
from shared.api import names


class Plugin(Protocol):
    """A plugin of one job, its arguments read."""

    def check(self, job: Wanted) -> None:
        """Raise PluginError when the job lacks what the plugin needs."""

    def objects(self, job: Wanted) -> Iterable[Dependent]:
        """Return the objects that must be there before the job's pods."""
        ...

    def mutate(self, job: Wanted, task: Task, index: int, pod: JSON) -> None:
        """Change the body of a pod that is about to be created."""


class Pods:
    """Base of the plugins that only change pods."""

    def check(self, job: Wanted) -> None:
        """Accept every job."""

    def objects(self, job: Wanted) -> Iterable[Dependent]:
        """Return nothing."""
        del job
        return ()


def host(job: Wanted, task: Task, index: int) -> str:
    """Return the name under which a pod is found: a template's own hostname and subdomain come first.

    With the headless service that the svc plugin makes, it is known before the pod has an address.
    """
    spec = task.spec.template.spec
    hostname = spec.hostname or names.pod_name(job.name, task.name, index)
    return f"{hostname}.{spec.subdomain or job.name}"


def hosts(job: Wanted, task: Task) -> list[str]:
    """Return the names of a task's pods; one for all when the template names the host."""
    count = min(1, task.replicas) if task.spec.template.spec.hostname else task.replicas
    return [host(job, task, index) for index in range(count)]


def find_task(job: Wanted, name: str) -> Task | None:
    """Return a task by its name."""
    return next((task for task in job.tasks if task.name == name), None)


def containers(pod: JSON, *, init: bool = True) -> list[JSON]:
    """Return a pod's containers, and before them, unless told otherwise, the init containers."""
    spec = pod["spec"]
    before = spec.get("initContainers") or [] if init else []
    return [*before, *(spec.get("containers") or [])]


def add_env(container: JSON, *variables: JSON) -> None:
    """Append variables; of two with one name the last counts, as in Kubernetes."""
    container["env"] = [*(container.get("env") or []), *variables]


def add_port(container: JSON, name: str, port: int) -> None:
    """Declare a port unless the container has it."""
    ports = container.get("ports") or []
    if all(one.get("containerPort") != port for one in ports):
        container["ports"] = [*ports, {"name": name, "containerPort": port}]


def add_volume(pod: JSON, volume: JSON, mount: JSON) -> None:
    """Add a volume, mounted into every container and init container."""
    spec = pod["spec"]
    spec["volumes"] = [*(spec.get("volumes") or []), volume]
    for container in containers(pod):
        container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]
