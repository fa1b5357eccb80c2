"""Admission's webhooks are there while Kafka is not, and its topics are followed as soon as Kafka is."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from shared.api.resources import JOBS, NAMESPACES, QUEUES
from shared.clock import SystemClock
from shared.errors import AlreadyExists, Refused
from shared.kube.client import connect
from tests.fixtures.kafka import start_broker
from tests.fixtures.processes import Process
from tests.fixtures.services import free_port
from tests.fixtures.waiting import eventually
from tests.fixtures.webhooks import NAMESPACE, install, is_trusted
from tests.unit.admission.worlds import spoiled

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(240)]


class Parts:
    """A simulator and admission as processes; Kafka may come later."""

    def __init__(self, directory: Path) -> None:
        self.kubeconfig = directory / "kubeconfig"
        self.kafka, self.webhooks, self.operations = free_port(), free_port(), free_port()
        self.simulator = Process(
            "simulator", "-m", "simulator", "--port", str(free_port()), "--kubeconfig", str(self.kubeconfig),
            directory=directory,
        )  # fmt: skip
        env = {
            "PUMICE_LOG": f"kafka://127.0.0.1:{self.kafka}",
            "PUMICE_KUBECONFIG": str(self.kubeconfig),
            "PUMICE_WEBHOOK_PORT": str(self.webhooks),
            "PUMICE_WEBHOOK_HOST": "127.0.0.1",
            "PUMICE_WEBHOOK_NAMES": '["127.0.0.1"]',
            "PUMICE_OPERATIONS_HOST": "127.0.0.1",
            "PUMICE_OPERATIONS_PORT": str(self.operations),
        }
        self.admission = Process("admission", "-m", "services.admission", directory=directory, env=env)

    async def waiting(self) -> dict[str, str]:
        """Return what admission's operations port says that is missing."""
        async with httpx.AsyncClient(verify=False) as http:
            answer = await http.get(f"http://127.0.0.1:{self.operations}/readyz")
            return json.loads(answer.text)["waiting"]

    async def probe(self) -> int:
        async with httpx.AsyncClient(verify=False) as http:
            with suppress(httpx.HTTPError):
                return (await http.get(f"https://127.0.0.1:{self.webhooks}/readyz")).status_code
        return 0


async def until(check, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if await check():
                return
            await asyncio.sleep(0.1)


async def test_webhooks_answer_before_there_is_a_broker_and_topics_are_read_after(tmp_path):
    parts = Parts(tmp_path)
    await parts.simulator.start()
    await eventually(parts.kubeconfig.exists, what="the simulator's kubeconfig")
    cluster = connect(str(parts.kubeconfig), clock=SystemClock())
    broker = None
    try:
        for name in (NAMESPACE, "team"):
            with suppress(AlreadyExists):
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                await cluster.create(NAMESPACES, None, body)
        queue = {
            "apiVersion": QUEUES.api_version,
            "kind": "Queue",
            "metadata": {"name": "research"},
            "spec": {},
        }
        await cluster.create(QUEUES, None, queue)
        await parts.admission.start()

        async def serves() -> bool:
            return await parts.probe() == 200

        await until(serves)
        await install(cluster, f"https://127.0.0.1:{parts.webhooks}")
        await is_trusted(cluster)
        with pytest.raises(Refused, match=r"spec\.queue"):
            await cluster.create(JOBS, "team", spoiled(("spec/queue", "nowhere")))
        assert (await cluster.create(JOBS, "team", spoiled()))["spec"]["schedulerName"] == "volcano"
        assert "admission.log" in await parts.waiting()
        said = "the log is away, webhooks work without it"
        await eventually(lambda: said in parts.admission.output, what="the line that says so")

        broker = await asyncio.to_thread(start_broker, tmp_path / "kafka", port=parts.kafka)

        async def follows() -> bool:
            return await parts.waiting() == {"admission.view": "no queue yet: the controller has not started"}

        await until(follows, 120)
        assert "the log is there" in parts.admission.output
        assert await parts.admission.stop() == 0
        assert parts.admission.unclean == []
    finally:
        await cluster.close()
        for process in (parts.admission, parts.simulator):
            if process.running:
                await process.stop()
        if broker is not None:
            broker.stop()
