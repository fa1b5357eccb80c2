"""The rules for pod templates, each with its code and its path in Kubernetes' form."""

from __future__ import annotations

from typing import Any

import pytest

from services.admission.core.podtemplate import validate_template
from shared.api.pods import PodTemplateSpec
from tests.unit.admission.worlds import put

C = "spec/containers/0"
CP = "t.spec.containers[0]"
A = "spec/affinity"


def found(*changes: tuple[str, Any]) -> list[tuple[str, str]]:
    template: dict[str, Any] = {
        "metadata": {},
        "spec": {
            "containers": [{"name": "main", "image": "i", "resources": {}, "ports": [{}], "env": [{}]}],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }
    template["spec"]["containers"][0]["ports"][0] = {"containerPort": 80}
    template["spec"]["containers"][0]["env"][0] = {"name": "A"}
    for path, value in changes:
        put(template, path, value)
    return [(v.code, v.path) for v in validate_template(PodTemplateSpec.model_validate(template), "t")]


def term(operator: str, values: list[str] | None = None, key: str = "zone") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": values or []}]}


def required_nodes(*terms: dict[str, Any]) -> tuple[str, Any]:
    return (
        f"{A}/nodeAffinity",
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}},
    )


NODES = "t.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
PODS = "t.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"


def anti(**more: Any) -> tuple[str, Any]:
    item = {"topologyKey": "kubernetes.io/hostname", **more}
    return (f"{A}/podAntiAffinity", {"requiredDuringSchedulingIgnoredDuringExecution": [item]})


def spread(**more: Any) -> tuple[str, Any]:
    item = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **more}
    return ("spec/topologySpreadConstraints", [item])


SPREAD = "t.spec.topologySpreadConstraints[0]"
RES = f"{C}/resources"

CASES: list[tuple[list[tuple[str, Any]], list[tuple[str, str]]]] = [
    # metadata
    ([("metadata/labels", {"a b": "x"})], [("invalid", "t.metadata.labels")]),
    ([("metadata/labels", {"a": "x y"})], [("invalid", "t.metadata.labels[a]")]),
    ([("metadata/labels", {"a": "x" * 64})], [("invalid", "t.metadata.labels[a]")]),
    ([("metadata/annotations", {"a/b/c": "x"})], [("invalid", "t.metadata.annotations")]),
    ([("metadata/annotations", {"a": "x" * 262144})], [("invalid", "t.metadata.annotations")]),
    # containers
    ([("spec/containers", [])], [("required", "t.spec.containers")]),
    ([(f"{C}/name", "")], [("required", f"{CP}.name")]),
    ([(f"{C}/name", "Main")], [("invalid", f"{CP}.name")]),
    ([("spec/initContainers", [{"name": "main", "image": "i"}])], [("duplicate", f"{CP}.name")]),
    ([(f"{C}/image", "")], [("required", f"{CP}.image")]),
    ([(f"{C}/image", " i")], [("invalid", f"{CP}.image")]),
    ([(f"{C}/imagePullPolicy", "Sometimes")], [("unsupported", f"{CP}.imagePullPolicy")]),
    ([(f"{C}/terminationMessagePolicy", "Log")], [("unsupported", f"{CP}.terminationMessagePolicy")]),
    ([(f"{C}/restartPolicy", "Always")], [("forbidden", f"{CP}.restartPolicy")]),
    ([("spec/initContainers", [{"name": "a", "image": "i", "restartPolicy": "Never"}])],
     [("unsupported", "t.spec.initContainers[0].restartPolicy")]),
    ([("spec/initContainers", [{"name": "a", "image": "i", "lifecycle": {"preStop": {}}}])],
     [("forbidden", "t.spec.initContainers[0].lifecycle")]),
    ([("spec/initContainers", [{"name": "a", "image": "i", "readinessProbe": {"exec": {"command": ["x"]}}}])],
     [("forbidden", "t.spec.initContainers[0].readinessProbe")]),
    ([("spec/ephemeralContainers", [{"name": "debug"}])], [("forbidden", "t.spec.ephemeralContainers")]),
    # ports
    ([(f"{C}/ports/0/containerPort", 0)], [("required", f"{CP}.ports[0].containerPort")]),
    ([(f"{C}/ports/0/containerPort", 65536)], [("invalid", f"{CP}.ports[0].containerPort")]),
    ([(f"{C}/ports/0/hostPort", -1)], [("invalid", f"{CP}.ports[0].hostPort")]),
    ([(f"{C}/ports/0/protocol", "HTTP")], [("unsupported", f"{CP}.ports[0].protocol")]),
    ([(f"{C}/ports/0/name", "much-too-long-name")], [("invalid", f"{CP}.ports[0].name")]),
    ([(f"{C}/ports/0/name", "1234")], [("invalid", f"{CP}.ports[0].name")]),
    ([(f"{C}/ports", [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}])],
     [("duplicate", f"{CP}.ports[1].name")]),
    ([("spec/hostNetwork", True), (f"{C}/ports/0/hostPort", 81)], [("invalid", f"{CP}.ports[0].hostPort")]),
    ([(f"{C}/ports", [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}])],
     [("duplicate", f"{CP}.ports[1].hostPort")]),
    ([("spec/hostNetwork", True), (f"{C}/ports", [{"containerPort": 1}, {"containerPort": 1}])],
     [("duplicate", f"{CP}.ports[1].hostPort")]),
    # environment
    ([(f"{C}/env/0/name", "")], [("required", f"{CP}.env[0].name")]),
    ([(f"{C}/env/0/name", "1A")], [("invalid", f"{CP}.env[0].name")]),
    ([(f"{C}/env/0/name", "A=B")], [("invalid", f"{CP}.env[0].name")]),
    ([(f"{C}/env/0/valueFrom", {})], [("invalid", f"{CP}.env[0].valueFrom")]),
    ([(f"{C}/env/0/valueFrom", {"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "a", "key": "b"}})],
     [("invalid", f"{CP}.env[0].valueFrom")]),
    ([(f"{C}/env/0/value", "x"), (f"{C}/env/0/valueFrom", {"fieldRef": {"fieldPath": "metadata.name"}})],
     [("invalid", f"{CP}.env[0].valueFrom")]),
    ([(f"{C}/env/0/valueFrom", {"fieldRef": {"fieldPath": "spec.image"}})],
     [("unsupported", f"{CP}.env[0].valueFrom.fieldRef.fieldPath")]),
    ([(f"{C}/env/0/valueFrom", {"fieldRef": {}})], [("required", f"{CP}.env[0].valueFrom.fieldRef.fieldPath")]),
    ([(f"{C}/env/0/valueFrom", {"resourceFieldRef": {"resource": "limits.gpu"}})],
     [("unsupported", f"{CP}.env[0].valueFrom.resourceFieldRef.resource")]),
    ([(f"{C}/env/0/valueFrom", {"configMapKeyRef": {"name": "a", "key": ""}})],
     [("required", f"{CP}.env[0].valueFrom.configMapKeyRef.key")]),
    ([(f"{C}/env/0/valueFrom", {"secretKeyRef": {"name": "", "key": "a/b"}})],
     [("required", f"{CP}.env[0].valueFrom.secretKeyRef.name"), ("invalid", f"{CP}.env[0].valueFrom.secretKeyRef.key")]),
    ([(f"{C}/envFrom", [{}])], [("invalid", f"{CP}.envFrom[0]")]),
    ([(f"{C}/envFrom", [{"prefix": "1-", "configMapRef": {"name": "A_b"}}])],
     [("invalid", f"{CP}.envFrom[0].prefix"), ("invalid", f"{CP}.envFrom[0].configMapRef.name")]),
    # volumes
    ([("spec/volumes/0/name", "")], [("required", "t.spec.volumes[0].name")]),
    ([("spec/volumes/0/name", "a.b")], [("invalid", "t.spec.volumes[0].name")]),
    ([("spec/volumes", [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}])],
     [("duplicate", "t.spec.volumes[1].name")]),
    ([("spec/volumes/0/emptyDir", ...)], [("required", "t.spec.volumes[0]")]),
    ([("spec/volumes/0/csi", {"driver": "x"})], [("forbidden", "t.spec.volumes[0]")]),
    ([("spec/volumes/0/emptyDir", {"medium": "Disk"})], [("unsupported", "t.spec.volumes[0].emptyDir.medium")]),
    ([("spec/volumes/0/emptyDir", {"sizeLimit": "much"})], [("invalid-quantity", "t.spec.volumes[0].emptyDir.sizeLimit")]),
    ([("spec/volumes/0/emptyDir", {"sizeLimit": "-1"})], [("invalid", "t.spec.volumes[0].emptyDir.sizeLimit")]),
    ([("spec/volumes/0", {"name": "a", "hostPath": {"path": ""}})], [("required", "t.spec.volumes[0].hostPath.path")]),
    ([("spec/volumes/0", {"name": "a", "hostPath": {"path": "/a/../b", "type": "Folder"}})],
     [("invalid", "t.spec.volumes[0].hostPath.path"), ("unsupported", "t.spec.volumes[0].hostPath.type")]),
    ([("spec/volumes/0", {"name": "a", "secret": {}})], [("required", "t.spec.volumes[0].secret.secretName")]),
    ([("spec/volumes/0", {"name": "a", "configMap": {}})], [("required", "t.spec.volumes[0].configMap.name")]),
    ([("spec/volumes/0", {"name": "a", "configMap": {"name": "a", "items": [{"key": "k", "path": "/p", "mode": 512}]}})],
     [("invalid", "t.spec.volumes[0].configMap.items[0].path"), ("invalid", "t.spec.volumes[0].configMap.items[0].mode")]),
    ([("spec/volumes/0", {"name": "a", "persistentVolumeClaim": {}})],
     [("required", "t.spec.volumes[0].persistentVolumeClaim.claimName")]),
    ([("spec/volumes/0", {"name": "a", "nfs": {"server": "", "path": "p"}})],
     [("required", "t.spec.volumes[0].nfs.server"), ("invalid", "t.spec.volumes[0].nfs.path")]),
    ([(f"{C}/volumeMounts", [{"name": "dta", "mountPath": "/a"}])], [("not-found", f"{CP}.volumeMounts[0].name")]),
    ([(f"{C}/volumeMounts", [{"name": "data"}])], [("required", f"{CP}.volumeMounts[0].mountPath")]),
    ([(f"{C}/volumeMounts", [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/a"}])],
     [("duplicate", f"{CP}.volumeMounts[1].mountPath")]),
    ([(f"{C}/volumeMounts", [{"name": "data", "mountPath": "/a", "subPath": "../x"}])],
     [("invalid", f"{CP}.volumeMounts[0].subPath")]),
    ([(f"{C}/volumeMounts", [{"name": "data", "mountPath": "/a", "subPath": "x", "subPathExpr": "y"}])],
     [("invalid", f"{CP}.volumeMounts[0].subPathExpr")]),
    ([(f"{C}/volumeMounts", [{"name": "data", "mountPath": "/a", "mountPropagation": "All"}])],
     [("unsupported", f"{CP}.volumeMounts[0].mountPropagation")]),
    ([(f"{C}/volumeDevices", [{"name": "data", "devicePath": ""}])], [("required", f"{CP}.volumeDevices[0].devicePath")]),
    # resources
    ([(f"{RES}/requests", {"cpu": "1 core"})], [("invalid-quantity", f"{CP}.resources.requests[cpu]")]),
    ([(f"{RES}/requests", {"cpu": "-1"})], [("invalid", f"{CP}.resources.requests[cpu]")]),
    ([(f"{RES}/requests", {"cpu": "2"}), (f"{RES}/limits", {"cpu": "1"})], [("invalid", f"{CP}.resources.requests[cpu]")]),
    ([(f"{RES}/requests", {"gpu": "1"})], [("invalid", f"{CP}.resources.requests[gpu]")]),
    ([(f"{RES}/limits", {"nvidia.com/gpu": "1.5"})], [("invalid", f"{CP}.resources.limits[nvidia.com/gpu]")]),
    ([(f"{RES}/limits", {"volcano.sh/vgpu-cores": 101})], [("invalid", f"{CP}.resources.limits[volcano.sh/vgpu-cores]")]),
    ([(f"{RES}/limits", {"volcano.sh/vgpu-memory-percentage": 101})],
     [("invalid", f"{CP}.resources.limits[volcano.sh/vgpu-memory-percentage]")]),
    ([(f"{RES}/requests", {"nvidia.com/gpu": 1})], [("required", f"{CP}.resources.limits[nvidia.com/gpu]")]),
    ([(f"{RES}/requests", {"nvidia.com/gpu": 1}), (f"{RES}/limits", {"nvidia.com/gpu": 2})],
     [("invalid", f"{CP}.resources.requests[nvidia.com/gpu]")]),
    ([(f"{RES}/limits", {"hugepages-2Mi": "4Mi"})], [("forbidden", f"{CP}.resources")]),
    ([(f"{RES}/limits", {"hugepages-2Mi": "3Mi", "cpu": 1})], [("invalid", f"{CP}.resources.limits[hugepages-2Mi]")]),
    ([(f"{RES}/limits", {"hugepages-big": "3Mi", "cpu": 1})], [("invalid", f"{CP}.resources.limits[hugepages-big]")]),
    ([(f"{RES}/requests", {"hugepages-2Mi": "4Mi", "cpu": 1}), (f"{RES}/limits", {"hugepages-2Mi": "6Mi"})],
     [("invalid", f"{CP}.resources.requests[hugepages-2Mi]")]),
    ([(f"{RES}/requests", {"cpu": "4"}), ("spec/resources", {"requests": {"cpu": "2"}})],
     [("invalid", "t.spec.resources.requests[cpu]")]),
    ([(f"{RES}/limits", {"cpu": "4"}), (f"{RES}/requests", {"cpu": "1"}), ("spec/resources", {"limits": {"cpu": "2"}})],
     [("invalid", f"{CP}.resources.limits[cpu]")]),
    ([("spec/resources", {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 1}})],
     [("unsupported", "t.spec.resources.limits[nvidia.com/gpu]"), ("unsupported", "t.spec.resources.requests[nvidia.com/gpu]")]),
    ([("spec/resources", {"requests": {"cpu": "3"}, "limits": {"cpu": "2"}})], [("invalid", "t.spec.resources.requests[cpu]")]),
    ([("spec/overhead", {"cpu": "x"})], [("invalid-quantity", "t.spec.overhead[cpu]")]),
    # probes
    ([(f"{C}/livenessProbe", {})], [("required", f"{CP}.livenessProbe")]),
    ([(f"{C}/livenessProbe", {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}})], [("forbidden", f"{CP}.livenessProbe")]),
    ([(f"{C}/readinessProbe", {"exec": {}})], [("required", f"{CP}.readinessProbe.exec.command")]),
    ([(f"{C}/readinessProbe", {"httpGet": {"port": 0, "scheme": "FTP"}})],
     [("invalid", f"{CP}.readinessProbe.httpGet.port"), ("unsupported", f"{CP}.readinessProbe.httpGet.scheme")]),
    ([(f"{C}/readinessProbe", {"tcpSocket": {"port": "No_Port"}})], [("invalid", f"{CP}.readinessProbe.tcpSocket.port")]),
    ([(f"{C}/startupProbe", {"grpc": {"port": 70000}, "periodSeconds": -1, "successThreshold": 2})],
     [("invalid", f"{CP}.startupProbe.grpc.port"), ("invalid", f"{CP}.startupProbe.periodSeconds"),
      ("invalid", f"{CP}.startupProbe.successThreshold")]),
    # placement
    ([("spec/nodeSelector", {"a": "b c"})], [("invalid", "t.spec.nodeSelector[a]")]),
    ([required_nodes()], [("required", NODES)]),
    ([required_nodes(term("In"))], [("required", f"{NODES}[0].matchExpressions[0].values")]),
    ([required_nodes(term("Exists", ["a"]))], [("forbidden", f"{NODES}[0].matchExpressions[0].values")]),
    ([required_nodes(term("Gt", ["x"]))], [("required", f"{NODES}[0].matchExpressions[0].values")]),
    ([required_nodes(term("Near", ["x"]))], [("unsupported", f"{NODES}[0].matchExpressions[0].operator")]),
    ([required_nodes(term("", ["x"]))], [("required", f"{NODES}[0].matchExpressions[0].operator")]),
    ([required_nodes(term("Exists", key=""))], [("required", f"{NODES}[0].matchExpressions[0].key")]),
    ([required_nodes({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a", "b"]}]})],
     [("unsupported", f"{NODES}[0].matchFields[0].key"), ("required", f"{NODES}[0].matchFields[0].values")]),
    ([(f"{A}/nodeAffinity", {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": term("Exists")}]})],
     [("invalid", "t.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight")]),
    ([anti(topologyKey="")], [("required", f"{PODS}.topologyKey")]),
    ([anti(labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]})],
     [("unsupported", f"{PODS}.labelSelector.matchExpressions[0].operator")]),
    ([anti(namespaces=["A"])], [("invalid", f"{PODS}.namespaces[0]")]),
    ([("spec/tolerations", [{"operator": "Equal"}])], [("invalid", "t.spec.tolerations[0].operator")]),
    ([("spec/tolerations", [{"key": "a", "operator": "Exists", "value": "x"}])], [("invalid", "t.spec.tolerations[0].value")]),
    ([("spec/tolerations", [{"key": "a", "operator": "Like"}])], [("unsupported", "t.spec.tolerations[0].operator")]),
    ([("spec/tolerations", [{"key": "a", "effect": "NoRun"}])], [("unsupported", "t.spec.tolerations[0].effect")]),
    ([("spec/tolerations", [{"key": "a", "tolerationSeconds": 3}])], [("invalid", "t.spec.tolerations[0].effect")]),
    ([("spec/tolerations", [{"key": "a b"}])], [("invalid", "t.spec.tolerations[0].key")]),
    ([spread(maxSkew=0)], [("invalid", f"{SPREAD}.maxSkew")]),
    ([spread(topologyKey="")], [("required", f"{SPREAD}.topologyKey")]),
    ([spread(whenUnsatisfiable="Wait")], [("unsupported", f"{SPREAD}.whenUnsatisfiable")]),
    ([spread(whenUnsatisfiable="")], [("required", f"{SPREAD}.whenUnsatisfiable")]),
    ([spread(whenUnsatisfiable="ScheduleAnyway", minDomains=2)], [("invalid", f"{SPREAD}.minDomains")]),
    ([spread(nodeTaintsPolicy="Maybe")], [("unsupported", f"{SPREAD}.nodeTaintsPolicy")]),
    # the pod itself
    ([("spec/restartPolicy", "Sometimes")], [("unsupported", "t.spec.restartPolicy")]),
    ([("spec/dnsPolicy", "Mine")], [("unsupported", "t.spec.dnsPolicy")]),
    ([("spec/dnsPolicy", "None")], [("required", "t.spec.dnsConfig.nameservers")]),
    ([("spec/preemptionPolicy", "Always")], [("unsupported", "t.spec.preemptionPolicy")]),
    ([("spec/terminationGracePeriodSeconds", -1)], [("invalid", "t.spec.terminationGracePeriodSeconds")]),
    ([("spec/activeDeadlineSeconds", 0)], [("invalid", "t.spec.activeDeadlineSeconds")]),
    ([("spec/hostname", "a.b")], [("invalid", "t.spec.hostname")]),
    ([("spec/subdomain", "A")], [("invalid", "t.spec.subdomain")]),
    ([("spec/serviceAccountName", "A")], [("invalid", "t.spec.serviceAccountName")]),
    ([("spec/priorityClassName", "A")], [("invalid", "t.spec.priorityClassName")]),
    ([("spec/runtimeClassName", "A")], [("invalid", "t.spec.runtimeClassName")]),
    ([("spec/schedulingGates", [{"name": "a"}, {"name": "a"}])], [("duplicate", "t.spec.schedulingGates[1].name")]),
    ([("spec/imagePullSecrets", [{"name": ""}])], [("required", "t.spec.imagePullSecrets[0].name")]),
    ([("spec/hostAliases", [{"ip": "1.2.3", "hostnames": ["A"]}])],
     [("invalid", "t.spec.hostAliases[0].ip"), ("invalid", "t.spec.hostAliases[0].hostnames[0]")]),
    ([("spec/shareProcessNamespace", True), ("spec/hostPID", True)], [("invalid", "t.spec.shareProcessNamespace")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    CASES,
    ids=[f"{case[1][0][1]} {case[1][0][0]} {i}" for i, case in enumerate(CASES)],
)
def test_a_mistake_is_reported_with_its_code_and_path(changes, expected):
    assert found(*changes) == expected


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [("spec/initContainers", [{"name": "s", "image": "i", "restartPolicy": "Always", "readinessProbe": {"tcpSocket": {"port": "http"}}}])],
        [("spec/containers/0/securityContext", {"privileged": True})],
        [("spec/hostNetwork", True), (f"{C}/ports/0/hostPort", 80)],
        [(f"{C}/ports", [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}])],
        [(f"{C}/env/0/valueFrom", {"fieldRef": {"fieldPath": "metadata.labels['a']"}})],
        [(f"{C}/env/0/valueFrom", {"resourceFieldRef": {"resource": "limits.memory"}})],
        [(f"{C}/env/0/valueFrom", {"fileKeyRef": {"key": "x"}})],
        [("spec/volumes/0", {"name": "a", "csi": {"driver": "x"}})],
        [("spec/volumes/0/emptyDir", {"medium": "Memory", "sizeLimit": "1Gi"})],
        [("spec/volumes/0/emptyDir", None), ("spec/volumes/0/hostPath", {"path": "/dev/shm"})],
        [(f"{RES}/requests", {"cpu": "1"}), (f"{RES}/limits", {"cpu": "2", "nvidia.com/gpu": 8})],
        [(f"{RES}/limits", {"hugepages-2Mi": "4Mi"}), ("spec/resources", {"limits": {"memory": "1Gi"}})],
        [(f"{RES}/requests", {"ephemeral-storage": "1Gi", "example.com/x": "3"}), (f"{RES}/limits", {"example.com/x": 3})],
        [required_nodes(term("Lt", ["7"]), term("DoesNotExist"), {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]})],
        [anti(labelSelector={"matchLabels": {"a": "b"}}, namespaceSelector={})],
        [("spec/tolerations", [{"operator": "Exists"}, {"key": "a", "effect": "NoExecute", "tolerationSeconds": 3}])],
        [spread(minDomains=2, nodeAffinityPolicy="Honor")],
        [("spec/dnsPolicy", "None"), ("spec/dnsConfig", {"nameservers": ["1.1.1.1"]})],
        [("spec/hostAliases", [{"ip": "::1", "hostnames": ["a.b"]}])],
        [("metadata/annotations", {"Example.com/UPPER": "x"})],
    ],
)  # fmt: skip
def test_what_kubernetes_allows_is_allowed(changes):
    assert found(*changes) == []
