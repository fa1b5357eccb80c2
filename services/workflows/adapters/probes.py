"""Asks the pods of a flow's targets: an HTTP request or a connection, as the kubelet's probes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import aiohttp

from services.workflows.core.probing import Answers, Check
from shared.api import names
from shared.api import resources as r
from shared.kube.port import JSON, Cluster

_GOOD: Final = range(200, 400)


class PodProber:
    """Lists the pods of each job that is asked about, and asks those that run.

    Pods are read only while a flow waits for a probe: nobody here watches them.
    """

    def __init__(self, cluster: Cluster, *, timeout: float, concurrency: int) -> None:
        self._cluster = cluster
        self._timeout = timeout
        self._gate = asyncio.Semaphore(concurrency)

    async def __call__(self, checks: Sequence[Check]) -> Answers:
        """Return how many pods passed each check. Raises Unavailable when the pods cannot be read."""
        jobs = dict.fromkeys((check.namespace, check.job) for check in checks)
        hosts = {job: await self._hosts(*job) for job in jobs}
        timeout = aiohttp.ClientTimeout(total=self._timeout)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            counts: dict[Check, int] = {}
            for check in checks:
                asked = hosts[check.namespace, check.job].get(check.task, [])
                counts[check] = await self._count(session, check, asked)
            return counts

    async def _hosts(self, namespace: str, job: str) -> Mapping[str, list[str]]:
        """Return the addresses of a job's running pods by task."""
        pods = await self._cluster.list(r.PODS, namespace, labels=f"{names.JOB_NAME}={job}")
        hosts: dict[str, list[str]] = {}
        for pod in pods.items:
            marks = {**(pod["metadata"].get("labels") or {}), **(pod["metadata"].get("annotations") or {})}
            address = _address(pod)
            if address and marks.get(names.JOB_NAME) == job:
                hosts.setdefault(marks.get(names.TASK_SPEC) or "", []).append(address)
        return hosts

    async def _count(self, session: aiohttp.ClientSession, check: Check, hosts: Iterable[str]) -> int:
        return sum(await asyncio.gather(*(self._passes(session, check, host) for host in hosts)))

    async def _passes(self, session: aiohttp.ClientSession, check: Check, host: str) -> bool:
        async with self._gate:
            try:
                if check.path is None:
                    await self._connect(host, check.port)
                    return True
                return await self._get(session, check, host)
            except (OSError, TimeoutError, aiohttp.ClientError, ValueError):
                return False

    async def _connect(self, host: str, port: int) -> None:
        async with asyncio.timeout(self._timeout):
            _, writer = await asyncio.open_connection(host, port)
        writer.close()

    async def _get(self, session: aiohttp.ClientSession, check: Check, host: str) -> bool:
        shown = f"[{host}]" if ":" in host else host
        headers = dict([check.header]) if check.header else {}
        url = f"http://{shown}:{check.port}{check.path}"
        async with session.get(url, headers=headers, allow_redirects=False) as answer:
            return answer.status in _GOOD


def _address(pod: JSON) -> str:
    status = pod.get("status") or {}
    return str(status.get("podIP") or "") if status.get("phase") == "Running" else ""
