"""Namespaces, nodes, services, workloads and the other built-in kinds: what is particular to each."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any, Final

from shared.api.quantity import Quantity
from simulator.core import names, selectors
from simulator.core.errors import Cause, invalid, required, unsupported
from simulator.core.kinds import Lookup, Strategy
from simulator.strategies import pods

JSON = dict[str, Any]


def _keep_status(new: JSON, old: JSON) -> None:
    """Ignore the status in an update of the main resource."""
    new.pop("status", None)
    if "status" in old:
        new["status"] = old["status"]


def _only_status(new: JSON, old: JSON) -> None:
    """Take only the status (and labels and annotations) from an update of the subresource."""
    for name in [name for name in new if name not in ("kind", "apiVersion", "metadata", "status")]:
        del new[name]
    new.update({k: v for k, v in old.items() if k not in ("kind", "apiVersion", "metadata", "status")})


def _no_status(obj: JSON) -> None:
    obj.pop("status", None)


def _first_generation(obj: JSON) -> None:
    obj["metadata"]["generation"] = 1
    obj["status"] = {}


def _first_ingress(obj: JSON) -> None:
    obj["metadata"]["generation"] = 1
    obj["status"] = {"loadBalancer": {}}


PLAIN: Final = Strategy()
WITH_STATUS: Final = Strategy(
    prepare_create=_no_status, prepare_update=_keep_status, prepare_status=_only_status
)
INGRESS: Final = Strategy(
    prepare_create=_first_ingress, prepare_update=_keep_status, prepare_status=_only_status, generation=True
)


def _first_budget(obj: JSON) -> None:
    obj["metadata"]["generation"] = 1
    obj["status"] = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}


BUDGET: Final = Strategy(
    prepare_create=_first_budget, prepare_update=_keep_status, prepare_status=_only_status, generation=True
)


def _namespace_labels(obj: JSON) -> None:
    if name := obj["metadata"].get("name"):
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _new_namespace(obj: JSON) -> None:
    obj["status"] = {"phase": "Active"}
    finalizers = (obj.get("spec") or {}).get("finalizers", [])
    obj["spec"] = {"finalizers": [*finalizers, *(["kubernetes"] if "kubernetes" not in finalizers else [])]}


def _namespace_update(new: JSON, old: JSON) -> None:
    new["spec"], new["status"] = old["spec"], old["status"]


NAMESPACE: Final = Strategy(
    default=_namespace_labels,
    prepare_create=_new_namespace,
    prepare_update=_namespace_update,
    prepare_status=_only_status,
)


def _default_node(obj: JSON) -> None:
    status = obj["status"]
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _node_update(new: JSON, old: JSON) -> None:
    new["status"] = old["status"]
    if "podCIDR" not in new["spec"] and "podCIDR" in old["spec"]:
        new["spec"] |= {k: old["spec"][k] for k in ("podCIDR", "podCIDRs") if k in old["spec"]}


def _validate_node(obj: JSON) -> list[Cause]:
    causes: list[Cause] = []
    for at, taint in enumerate(obj["spec"].get("taints") or ()):
        field = f"spec.taints[{at}]"
        if why := names.qualified_name(taint.get("key", "")):
            causes.append(invalid(f"{field}.key", taint.get("key", ""), why))
        if taint.get("effect") not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            causes.append(
                unsupported(
                    f"{field}.effect",
                    taint.get("effect", ""),
                    ("NoSchedule", "PreferNoSchedule", "NoExecute"),
                )
            )
    return causes


NODE: Final = Strategy(
    default=_default_node,
    validate=_validate_node,
    prepare_update=_node_update,
    validate_update=lambda new, old: _validate_node(new),
    prepare_status=_only_status,
)


def _default_service(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, "", 0):
            port["targetPort"] = port.get("port")


def _new_service(obj: JSON) -> None:
    obj["status"] = {"loadBalancer": {}}
    spec = obj["spec"]
    if spec["type"] == "ExternalName":
        spec.pop("internalTrafficPolicy", None)
        return
    meta = obj["metadata"]
    spec.setdefault("clusterIP", _address(meta.get("namespace", ""), meta.get("name", "")))
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _address(namespace: str, name: str) -> str:
    """Return an address in 10.96.0.0/16 that depends on the name alone: runs are repeatable."""
    digest = hashlib.blake2b(f"{namespace}/{name}".encode(), digest_size=2).digest()
    return f"10.96.{digest[0]}.{max(2, digest[1])}"


def _service_update(new: JSON, old: JSON) -> None:
    _keep_status(new, old)
    spec = new["spec"]
    if spec["type"] != "ExternalName":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if name in old["spec"]:
                spec.setdefault(name, old["spec"][name])


def _validate_service(obj: JSON) -> list[Cause]:
    spec = obj["spec"]
    causes: list[Cause] = []
    if not spec.get("ports") and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        causes.append(required("spec.ports"))
    several = len(spec.get("ports") or ()) > 1
    for at, port in enumerate(spec.get("ports") or ()):
        field = f"spec.ports[{at}]"
        if several and not port.get("name"):
            causes.append(required(f"{field}.name"))
        if not 0 < port.get("port", 0) < 65536:
            causes.append(
                invalid(f"{field}.port", port.get("port", 0), "must be between 1 and 65535, inclusive")
            )
    types = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    if spec["type"] not in types:
        causes.append(unsupported("spec.type", spec["type"], types))
    return causes


def _service_change(new: JSON, old: JSON) -> list[Cause]:
    causes = _validate_service(new)
    before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
    if before and after != before and new["spec"]["type"] != "ExternalName":
        causes.append(invalid("spec.clusterIPs[0]", [after], "may not change once set"))
    return causes


SERVICE: Final = Strategy(
    default=_default_service,
    prepare_create=_new_service,
    validate=_validate_service,
    prepare_update=_service_update,
    validate_update=_service_change,
    prepare_status=_only_status,
    returns_deleted=True,
    create_on_update=True,
)


def _default_secret(obj: JSON) -> None:
    obj["type"] = obj.get("type") or "Opaque"
    if text := obj.pop("stringData", None):
        data = obj.setdefault("data", {})
        data.update({key: base64.b64encode(value.encode()).decode() for key, value in text.items()})


def _frozen_data(new: JSON, old: JSON) -> list[Cause]:
    causes: list[Cause] = []
    if old.get("immutable"):
        if not new.get("immutable"):
            causes.append(
                Cause(
                    "FieldValueForbidden",
                    "Forbidden: field is immutable when `immutable` is set",
                    "immutable",
                )
            )
        causes += [
            Cause("FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set", name)
            for name in ("data", "binaryData")
            if new.get(name) != old.get(name)
        ]
    if old.get("type") != new.get("type"):
        causes.append(invalid("type", new.get("type"), "field is immutable"))
    return causes


CONFIGMAP: Final = Strategy(validate_update=_frozen_data)
SECRET: Final = Strategy(default=_default_secret, validate_update=_frozen_data)


def _default_claim(obj: JSON) -> None:
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _admit_claim(obj: JSON, lookup: Lookup) -> None:
    if "storageClassName" in obj["spec"]:
        return
    for found in lookup.every("storageclasses.storage.k8s.io"):
        if (found["metadata"].get("annotations") or {}).get(
            "storageclass.kubernetes.io/is-default-class"
        ) == "true":
            obj["spec"]["storageClassName"] = found["metadata"]["name"]


def _validate_claim(obj: JSON) -> list[Cause]:
    spec = obj["spec"]
    causes: list[Cause] = []
    if not spec.get("accessModes"):
        causes.append(required("spec.accessModes", "at least 1 access mode is required"))
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        causes.append(required("spec.resources[storage]"))
    elif Quantity.parse(storage).nanos <= 0:
        causes.append(invalid("spec.resources[storage]", storage, "must be greater than zero"))
    return causes


# No claim-protection controller runs here, so the finalizer that it would take off is not put on.
CLAIM: Final = Strategy(
    default=_default_claim,
    admit=_admit_claim,
    prepare_create=lambda obj: obj.update(status={"phase": "Pending"}),
    validate=_validate_claim,
    prepare_update=_keep_status,
    prepare_status=_only_status,
    returns_deleted=True,
)


def _default_volume(obj: JSON) -> None:
    spec = obj["spec"]
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")


VOLUME: Final = Strategy(
    default=_default_volume,
    prepare_create=lambda obj: obj.update(status={"phase": "Pending"}),
    prepare_update=_keep_status,
    prepare_status=_only_status,
    returns_deleted=True,
)


def _default_workload(fields: JSON, strategy: JSON | None = None, strategy_field: str = "") -> Any:
    def default(obj: JSON) -> None:
        spec = obj.setdefault("spec", {})
        for name, value in fields.items():
            spec.setdefault(name, value)
        if strategy is not None:
            chosen = spec.setdefault(strategy_field, {})
            chosen.setdefault("type", "RollingUpdate")
            if chosen["type"] == "RollingUpdate":
                chosen["rollingUpdate"] = strategy | chosen.get("rollingUpdate", {})
        pods.default_template(spec["template"])

    return default


def _validate_workload(obj: JSON) -> list[Cause]:
    spec = obj["spec"]
    causes: list[Cause] = []
    selector = spec.get("selector")
    if selector is None:
        causes.append(required("spec.selector"))
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if selector and not selectors.from_object(selector).holds(labels):
        causes.append(
            invalid(
                "spec.template.metadata.labels", labels or {}, "`selector` does not match template `labels`"
            )
        )
    if spec.get("replicas", 0) < 0:
        causes.append(invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
    return causes + pods.validate_spec(spec["template"]["spec"], "spec.template.spec")


def _workload_change(new: JSON, old: JSON) -> list[Cause]:
    causes = _validate_workload(new)
    if new["spec"].get("selector") != old["spec"].get("selector"):
        causes.append(invalid("spec.selector", new["spec"].get("selector"), "field is immutable"))
    return causes


def _workload(default: Callable[[JSON], None], status: JSON | None = None) -> Strategy:
    def prepare(obj: JSON) -> None:
        obj["metadata"]["generation"] = 1
        obj["status"] = dict(status or {})

    return Strategy(
        default=default,
        prepare_create=prepare,
        validate=_validate_workload,
        prepare_update=_keep_status,
        validate_update=_workload_change,
        prepare_status=_only_status,
        generation=True,
    )


DEPLOYMENT: Final = _workload(
    _default_workload(
        {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
        {"maxUnavailable": "25%", "maxSurge": "25%"},
        "strategy",
    )
)
REPLICASET: Final = _workload(_default_workload({"replicas": 1}), {"replicas": 0})
STATEFULSET: Final = _workload(
    _default_workload(
        {
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "podManagementPolicy": "OrderedReady",
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
        {"partition": 0},
        "updateStrategy",
    ),
    {"replicas": 0, "availableReplicas": 0},
)
DAEMONSET: Final = _workload(
    _default_workload({"revisionHistoryLimit": 10}, {"maxUnavailable": 1, "maxSurge": 0}, "updateStrategy"),
    {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0},
)


def _default_replication(obj: JSON) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    template = spec.setdefault("template", {})
    labels = (template.get("metadata") or {}).get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
    pods.default_template(template)


def _first_replication(obj: JSON) -> None:
    obj["metadata"]["generation"] = 1
    obj["status"] = {"replicas": 0}


REPLICATION: Final = Strategy(
    default=_default_replication,
    prepare_create=_first_replication,
    prepare_update=_keep_status,
    prepare_status=_only_status,
    generation=True,
    orphans=True,
)


def _default_job(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = spec["parallelism"] = 1
    for name, value in (
        ("parallelism", 1),
        ("backoffLimit", 6),
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("manualSelector", False),
        ("podReplacementPolicy", "TerminatingOrFailed"),
    ):
        spec.setdefault(name, value)
    pods.default_template(spec["template"])


def _new_job(obj: JSON) -> None:
    _first_generation(obj)


def _validate_job(obj: JSON) -> list[Cause]:
    causes = pods.validate_spec(obj["spec"]["template"]["spec"], "spec.template.spec")
    policy = obj["spec"]["template"]["spec"].get("restartPolicy")
    if policy not in ("OnFailure", "Never"):
        causes.append(
            Cause(
                "FieldValueRequired",
                'Required value: valid values: "OnFailure", "Never"',
                "spec.template.spec.restartPolicy",
            )
            if policy == "Always"
            else unsupported("spec.template.spec.restartPolicy", policy, ("OnFailure", "Never"))
        )
    return causes


def _job_uid(obj: JSON) -> None:
    """Add the labels and selector that the API server derives from the UID."""
    uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
    if obj["spec"].get("manualSelector"):
        return
    labels = obj["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels |= {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    obj["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    if not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _prepare_job(obj: JSON) -> None:
    _new_job(obj)
    _job_uid(obj)


JOB: Final = Strategy(
    default=_default_job,
    prepare_create=_prepare_job,
    orphans=True,
    validate=_validate_job,
    prepare_update=_keep_status,
    prepare_status=_only_status,
    generation=True,
)


def _default_cronjob(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    for name, value in (
        ("concurrencyPolicy", "Allow"),
        ("suspend", False),
        ("successfulJobsHistoryLimit", 3),
        ("failedJobsHistoryLimit", 1),
    ):
        spec.setdefault(name, value)
    pods.default_template(spec["jobTemplate"]["spec"]["template"])


CRONJOB: Final = Strategy(
    default=_default_cronjob,
    prepare_create=_first_generation,
    prepare_update=_keep_status,
    prepare_status=_only_status,
    generation=True,
)


def _default_priority(obj: JSON) -> None:
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _validate_priority(obj: JSON) -> list[Cause]:
    name = obj["metadata"].get("name", "")
    if name.startswith("system-") and name not in ("system-cluster-critical", "system-node-critical"):
        words = "priority class names with 'system-' prefix are reserved for system use only. error: "
        return [Cause("FieldValueForbidden", f"Forbidden: {words}", "metadata.name")]
    if obj["value"] > 1_000_000_000 and not name.startswith("system-"):
        return [
            Cause(
                "FieldValueForbidden",
                "Forbidden: maximum allowed value of a user defined priority is 1000000000",
                "value",
            )
        ]
    return []


def _priority_change(new: JSON, old: JSON) -> list[Cause]:
    causes: list[Cause] = []
    if new["value"] != old["value"]:
        causes.append(Cause("FieldValueForbidden", "Forbidden: may not be changed in an update.", "value"))
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        causes.append(invalid("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable"))
    return causes


PRIORITYCLASS: Final = Strategy(
    default=_default_priority,
    prepare_create=lambda obj: obj["metadata"].update(generation=1),
    validate=_validate_priority,
    validate_update=_priority_change,
    generation=True,
)


def _default_webhooks(*, mutating: bool) -> Any:
    def default(obj: JSON) -> None:
        for hook in obj.get("webhooks") or ():
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if mutating:
                hook.setdefault("reinvocationPolicy", "Never")
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")
            if service := hook.get("clientConfig", {}).get("service"):
                service.setdefault("port", 443)

    return default


def _validate_webhooks(obj: JSON) -> list[Cause]:
    causes: list[Cause] = []
    for at, hook in enumerate(obj.get("webhooks") or ()):
        field = f"webhooks[{at}]"
        if len(hook.get("name", "").split(".")) < 3:
            causes.append(
                invalid(
                    f"{field}.name",
                    hook.get("name", ""),
                    "should be a domain with at least three segments separated by dots",
                )
            )
        if not hook.get("admissionReviewVersions"):
            causes.append(required(f"{field}.admissionReviewVersions", "must specify one of v1, v1beta1"))
        if hook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            causes.append(
                required(f"{field}.sideEffects", "must specify one of None, NoneOnDryRun")
                if not hook.get("sideEffects")
                else unsupported(f"{field}.sideEffects", hook["sideEffects"], ("None", "NoneOnDryRun"))
            )
        config = hook.get("clientConfig") or {}
        if ("url" in config) == ("service" in config):
            causes.append(required(f"{field}.clientConfig", "exactly one of url or service is required"))
        elif "url" in config and not config["url"].startswith("https://"):
            causes.append(
                invalid(
                    f"{field}.clientConfig.url",
                    config["url"].split(":")[0],
                    "'https' is the only allowed URL scheme; desired format: https://host[/path]",
                )
            )
    return causes


def _webhooks(*, mutating: bool) -> Strategy:
    return Strategy(
        default=_default_webhooks(mutating=mutating),
        prepare_create=lambda obj: obj["metadata"].update(generation=1),
        validate=_validate_webhooks,
        validate_update=lambda new, old: _validate_webhooks(new),
        generation=True,
    )


MUTATING: Final = _webhooks(mutating=True)
VALIDATING: Final = _webhooks(mutating=False)


def _default_policy(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    spec.setdefault("policyTypes", ["Ingress", *(["Egress"] if "egress" in spec else [])])
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")


NETWORKPOLICY: Final = Strategy(
    default=_default_policy, prepare_create=lambda obj: obj["metadata"].update(generation=1), generation=True
)


def _default_storage(obj: JSON) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


STORAGECLASS: Final = Strategy(default=_default_storage, returns_deleted=True)
INGRESSCLASS: Final = Strategy(
    prepare_create=lambda obj: obj["metadata"].update(generation=1), generation=True
)


def _default_endpoints(obj: JSON) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port["protocol"] = port.get("protocol") or "TCP"


ENDPOINTS: Final = Strategy(default=_default_endpoints)


def _default_limits(obj: JSON) -> None:
    for item in obj.get("spec", {}).get("limits") or ():
        if item.get("type") == "Container":
            item["default"] = item.get("max", {}) | item.get("default", {})
            item["defaultRequest"] = item.get("min", {}) | item["default"] | item.get("defaultRequest", {})
            for part in ("default", "defaultRequest"):
                if not item[part]:
                    del item[part]


LIMITRANGE: Final = Strategy(default=_default_limits)
QUOTA: Final = Strategy(
    prepare_create=lambda obj: obj.update(status={}),
    prepare_update=_keep_status,
    prepare_status=_only_status,
    returns_deleted=True,
)
SERVICEACCOUNT: Final = Strategy(returns_deleted=True)


def _default_binding(obj: JSON) -> None:
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


ROLEBINDING: Final = Strategy(default=_default_binding)
