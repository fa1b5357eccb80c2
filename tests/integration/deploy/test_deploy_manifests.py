"""What is deployed, checked by what it is for: a real API server, and the wheels that the image installs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from services.installer.adapters.cluster import KINDS
from shared.api import resources as r
from shared.kube.port import Cluster, Patch, Resource
from simulator.cluster import CRDS
from tests.fixtures.kube import install_crds

ROOT = Path(__file__).parents[3]
HELM = Path(sys.executable).with_name("helm")
OTHERS = {
    ("apps/v1", "Deployment"): Resource("apps", "v1", "deployments", "Deployment"),
    ("policy/v1", "PodDisruptionBudget"): r.PDBS,
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.mark.skipif(not HELM.exists(), reason="no helm: its package is for Linux on x86-64 only")
async def test_a_real_api_server_takes_everything_that_the_chart_renders(kube: Cluster, namespace: str):
    await install_crds(kube)
    command = [str(HELM), "template", "pumice", str(ROOT / "deploy/helm/pumice"), "--namespace", namespace]
    made = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    kinds = KINDS | OTHERS
    count = 0
    for manifest in yaml.safe_load_all(made.stdout):
        resource = kinds[manifest["apiVersion"], manifest["kind"]]
        metadata = manifest["metadata"]
        where = metadata.get("namespace")
        strict = {"fieldManager": "test", "force": "true", "dryRun": "All", "fieldValidation": "Strict"}
        await kube.patch(resource, where, metadata["name"], manifest, kind=Patch.APPLY, params=strict)
        count += 1
    assert count > 20


def test_the_wheel_has_all_that_its_services_need(tmp_path: Path):
    """As in the image: nothing of the project is there but what the wheel contains."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("pumice_server-*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    for service in ("gateway", "admission", "controller", "scheduler", "workflows"):
        ran = _run(installed, f"import services.{service}.app as app; print(app.__file__)")
        assert ran.strip().startswith(str(installed))
    simulated = "from simulator.cluster import CRDS; from simulator.builtin import KINDS; print(len(CRDS), bool(KINDS))"
    assert _run(installed, simulated).split() == [str(len(CRDS)), "True"]


def _run(installed: Path, code: str) -> str:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(installed)!r}); {code}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=installed)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_compose_file_starts_what_there_is():
    compose = yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text())
    commands = {
        name: one.get("command", [])[:1] for name, one in compose["services"].items() if name != "kafka"
    }
    services = {path.parent.name for path in (ROOT / "services").glob("*/__main__.py")}
    assert commands == {"simulator": ["simulator"]} | {name: [f"services.{name}"] for name in services}
    for one in compose["services"].values():
        for volume in one.get("volumes", []):
            name = volume.partition(":")[0].removeprefix("$")
            assert name in compose["volumes"] or name.startswith("{")
