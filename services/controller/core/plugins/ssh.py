"""ssh: pods of a job reach each other by SSH with a key pair of the job's own."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from services.controller.core.dependents import Dependent, KeyPair, dependent, volume_name
from services.controller.core.model import JSON, Task, Wanted
from services.controller.core.plugins.arguments import Flags
from services.controller.core.plugins.base import add_volume, hosts
from shared.api import names
from shared.api import resources as r

NAME: Final = "ssh"
ROOT_PATH: Final = "/root/.ssh"
_PORT: Final = 22
_FILES: Final = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
_IN_VOLUME: Final = ".ssh"


@dataclass(frozen=True, slots=True)
class Ssh:
    """A Secret with keys and client configuration, mounted where SSH looks for it."""

    path: str = ROOT_PATH
    private_key: str = ""
    public_key: str = ""
    port: int = _PORT

    @classmethod
    def read(cls, arguments: Sequence[str], *, strict: bool = True) -> Ssh:
        """Read the arguments. A port that is none is 22, as in Volcano."""
        flags = Flags(
            NAME,
            arguments,
            {
                "ssh-key-file-path": ROOT_PATH,
                "ssh-private-key": "",
                "ssh-public-key": "",
                "ssh-port": _PORT,
            },
            strict=strict,
        )
        port = flags.number("ssh-port")
        return cls(
            flags.text("ssh-key-file-path"),
            flags.text("ssh-private-key"),
            flags.text("ssh-public-key"),
            port if 0 < port <= 65535 else _PORT,  # noqa: PLR2004 - the ports of TCP
        )

    def check(self, job: Wanted) -> None:
        """Accept every job."""

    def objects(self, job: Wanted) -> Iterator[Dependent]:
        """Return the Secret. Keys that the job does not bring are made with it, once."""
        data = {"config": client_config(job, self.port)}
        if self.private_key:
            data |= key_files(KeyPair(self.private_key, self.public_key))
        content = {"type": "Opaque", "data": encoded(data)}
        yield dependent(job, r.SECRETS, _secret(job), content, keys=not self.private_key)

    def mutate(self, job: Wanted, task: Task, index: int, pod: JSON) -> None:
        """Mount the Secret into every container and init container."""
        del task, index
        volume = volume_name(_secret(job))
        source = {
            "secretName": _secret(job),
            "items": [{"key": one, "path": f"{_IN_VOLUME}/{one}"} for one in _FILES],
            "defaultMode": 0o600 if self.path == ROOT_PATH else 0o644,
        }
        mount = {"name": volume, "mountPath": self.path, "subPath": _IN_VOLUME}
        add_volume(pod, {"name": volume, "secret": source}, mount)


def key_files(pair: KeyPair) -> dict[str, str]:
    """Return the files that hold a key pair."""
    return {"id_rsa": pair.private, "id_rsa.pub": pair.public, "authorized_keys": pair.public}


def encoded(data: dict[str, str]) -> dict[str, str]:
    """Return files as the data of a Secret."""
    return {name: b64encode(text.encode()).decode() for name, text in data.items()}


def client_config(job: Wanted, port: int) -> str:
    """Return SSH's configuration: no questions about unknown hosts, and each pod by its short name."""
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.tasks:
        own = task.spec.template.spec.hostname
        for index, address in enumerate(hosts(job, task)):
            short = own or names.pod_name(job.name, task.name, index)
            lines += [f"Host {short}", f"  HostName {address}", f"  Port {port}"]
    return "\n".join(lines) + "\n"


def _secret(job: Wanted) -> str:
    return f"{job.name}-{NAME}"
