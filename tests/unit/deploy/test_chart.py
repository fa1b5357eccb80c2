"""The Helm chart, as Helm itself renders it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.admission.settings import AdmissionSettings
from services.controller.settings import ControllerSettings
from services.gateway.settings import GatewaySettings
from services.scheduler.settings import SchedulerSettings
from services.workflows.settings import WorkflowsSettings
from shared.api import crds
from shared.settings import CommonSettings, load_settings

CHART = Path(__file__).parents[3] / "deploy" / "helm" / "pumice"
HELM = Path(sys.executable).with_name("helm")
pytestmark = pytest.mark.skipif(not HELM.exists(), reason="no helm: its package is for Linux on x86-64 only")
SETTINGS: dict[str, type[CommonSettings]] = {
    "gateway": GatewaySettings,
    "admission": AdmissionSettings,
    "controller": ControllerSettings,
    "scheduler": SchedulerSettings,
    "workflows": WorkflowsSettings,
}
GUARDED = {
    "kafka": {
        "bootstrapServers": "a:9093,b:9093",
        "caSecret": "kafka-ca",
        "username": "pumice",
        "passwordSecret": "kafka-user",
    },
    "telemetry": {"otlpEndpoint": "http://collector:4318"},
    "webhooks": {"enabled": True, "certManager": {"enabled": True}},
    "env": {"PUMICE_LOG_LEVEL": "debug"},
    "services": {"scheduler": {"replicas": 3, "env": {"PUMICE_LOG_LEVEL": "error"}}},
}


def helm(*arguments: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(HELM), *arguments, *(["--values", "-"] if values is not None else [])]
    return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)


def render(values: dict[str, Any] | None = None, *flags: str) -> list[dict[str, Any]]:
    made = helm("template", "pumice", str(CHART), "--namespace", "batch", *flags, values=values)
    assert made.returncode == 0, made.stderr
    return [one for one in yaml.safe_load_all(made.stdout) if one]


def named(manifests: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in manifests if one["kind"] == kind}


def test_the_chart_is_sound():
    checked = helm("lint", str(CHART), "--strict")
    assert checked.returncode == 0, checked.stdout


def test_it_brings_the_definitions_of_all_kinds():
    manifests = render(None, "--include-crds")
    assert set(named(manifests, "CustomResourceDefinition")) == {crd.name for crd in crds.CRDS}


@pytest.mark.parametrize("values", [None, GUARDED], ids=["defaults", "guarded"])
def test_each_service_understands_what_it_is_told(values, monkeypatch, tmp_path):
    deployments = named(render(values), "Deployment")
    assert set(deployments) == {f"pumice-{service}" for service in SETTINGS}
    for service, kind in SETTINGS.items():
        (container,) = deployments[f"pumice-{service}"]["spec"]["template"]["spec"]["containers"]
        assert container["args"] == [f"services.{service}"]
        known = {f"PUMICE_{field.upper()}" for field in kind.model_fields}
        with monkeypatch.context() as environment:
            for variable in container["env"]:
                assert variable["name"] in known or variable["name"].startswith("OTEL_"), variable
                environment.setenv(variable["name"], variable["value"])
            settings = load_settings(kind)
        assert settings.log == (
            "kafka://a:9093,b:9093" if values else "kafka://pumice-kafka-kafka-bootstrap:9092"
        )
        assert settings.operations_port == 9090
        if values:
            assert settings.kafka_access.protocol == "SASL_SSL"
            assert settings.log_level == ("error" if service == "scheduler" else "debug")


def test_pods_run_with_the_least_they_need():
    for name, deployment in named(render(GUARDED), "Deployment").items():
        spec = deployment["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert spec["automountServiceAccountToken"] is (name not in ("pumice-gateway", "pumice-scheduler"))
        mounted = {one["name"] for one in container["volumeMounts"]}
        assert mounted == {one["name"] for one in spec["volumes"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            ports = {one["name"] for one in container["ports"]}
            assert container[probe]["httpGet"]["port"] in ports


def test_whoever_may_run_twice_has_a_disruption_budget_and_the_others_never_do():
    manifests = render()
    deployments = named(manifests, "Deployment")
    twice = {name for name, one in deployments.items() if one["spec"]["replicas"] > 1}
    assert set(named(manifests, "PodDisruptionBudget")) == twice
    once = {name for name, one in deployments.items() if one["spec"]["strategy"]["type"] == "Recreate"}
    assert once == {"pumice-controller", "pumice-workflows"} == set(deployments) - twice


def test_everything_selects_what_is_there():
    manifests = render()
    pods = {
        name: one["spec"]["template"]["metadata"]["labels"]
        for name, one in named(manifests, "Deployment").items()
    }
    for name, service in named(manifests, "Service").items():
        assert service["spec"]["selector"].items() <= pods[name].items()
    accounts = set(named(manifests, "ServiceAccount"))
    for one in named(manifests, "Deployment").values():
        assert one["spec"]["template"]["spec"]["serviceAccountName"] in accounts
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for binding in named(manifests, kind).values():
            assert {subject["name"] for subject in binding["subjects"]} <= accounts
            assert {subject["namespace"] for subject in binding["subjects"]} == {"batch"}
            assert binding["roleRef"]["name"] in named(manifests, binding["roleRef"]["kind"])


def test_the_webhooks_call_the_service_of_the_release_and_leave_its_namespace_alone():
    manifests = render(GUARDED)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        configuration = named(manifests, kind)["pumice"]
        assert configuration["metadata"]["annotations"] == {
            "cert-manager.io/inject-ca-from": "batch/pumice-admission"
        }
        for webhook in configuration["webhooks"]:
            assert webhook["clientConfig"]["service"]["namespace"] == "batch"
            if "namespaceSelector" in webhook:
                (expression,) = webhook["namespaceSelector"]["matchExpressions"]
                assert expression["values"] == ["kube-system", "batch"]
    assert not named(render({"webhooks": {"enabled": False}}), "ValidatingWebhookConfiguration")


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"services": {"controller": {"replicas": 2}}}, "controller"),
        ({"kafka": {"bootstrapServers": "kafka://a:9092"}}, "bootstrapServers"),
        ({"kafka": {"bootstrapServers": "a:9092", "username": "me"}}, "passwordSecret"),
        ({"env": {"MY_OWN": "x"}}, "MY_OWN"),
        ({"webhook": {}}, "webhook"),
    ],
)
def test_wrong_values_are_refused_by_name(values, complaint):
    made = helm("template", "pumice", str(CHART), values=values)
    assert made.returncode != 0
    assert complaint in made.stderr
