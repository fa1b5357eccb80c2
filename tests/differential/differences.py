"""What the simulator answers differently on purpose.

Each difference is told in ``docs/simulator.md`` in the same words, and has an example that a test plays: the answer to
its last step must differ. ``bridge`` takes the difference out of answers, on both sides, so that all else in them
can still be compared; without a bridge no other sequence meets the difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.differential.servers import Answer

JSON = dict[str, Any]
Change = Callable[[JSON], JSON]


class Difference(NamedTuple):
    """One difference: its words in the documentation, requests that show it, and what hides it elsewhere."""

    title: str
    example: tuple[JSON, ...]
    bridge: Callable[[Answer], Answer] | None = None


_CLAIM: Final[JSON] = {
    "metadata": {"name": "a"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
_TOKEN_VOLUME: Final = "kube-api-access-"


def _everywhere(change: Change) -> Callable[[Answer], Answer]:
    """Return a bridge that changes each JSON object of an answer, the inner ones first."""

    def through(value: Any) -> Any:
        if isinstance(value, dict):
            return change({key: through(one) for key, one in value.items()})
        return [through(one) for one in value] if isinstance(value, list) else value

    return lambda answer: answer._replace(body=through(answer.body))


def _without_account(obj: JSON) -> JSON:
    """Take the default service account and its token's volume from a pod's spec and its containers."""
    out = dict(obj)
    if "containers" in out and out.get("serviceAccountName") == "default":
        del out["serviceAccountName"]
        out.pop("serviceAccount", None)
    for field in ("volumes", "volumeMounts"):
        if isinstance(out.get(field), list):
            kept = [one for one in out[field] if not one.get("name", "").startswith(_TOKEN_VOLUME)]
            out = {key: value for key, value in out.items() if key != field} | ({field: kept} if kept else {})
    return out


def _without_descriptions(obj: JSON) -> JSON:
    if not obj.get("columnDefinitions"):  # later tables of a watch have none
        return obj
    columns = [{key: one[key] for key in one if key != "description"} for one in obj["columnDefinitions"]]
    return obj | {"columnDefinitions": columns}


_PARSED: Final = re.compile(r"(?s)((?:json parse error|error decoding patch|continue key is not valid): ).*")


def _without_parser_words(answer: Answer) -> Answer:
    body = answer.body
    if answer.status != 400 or not isinstance(body, dict):
        return answer
    return answer._replace(body=body | {"message": _PARSED.sub(r"\1<words>", body["message"])})


_CHANGED: Final = re.compile(r"(`spec.terminationGracePeriodSeconds` \(allow it[^)]*\))\n.*", re.DOTALL)


def _without_go_diff(obj: JSON) -> JSON:
    return (
        obj | {"message": _CHANGED.sub(r"\1", obj["message"])} if isinstance(obj.get("message"), str) else obj
    )


_PATCHED: Final = re.compile(r'^Invalid value: "\{.*\}": ', re.DOTALL)


def _without_patched_object(answer: Answer) -> Answer:
    body = answer.body
    if answer.status != 422 or not isinstance(body, dict):
        return answer
    causes = [
        one | {"message": _PATCHED.sub("", one["message"])} if one.get("field") == "patch" else one
        for one in body["details"].get("causes", ())
    ]
    return answer._replace(body=body | {"details": body["details"] | {"causes": causes}})


_PROTECTIONS: Final = ("kubernetes.io/pvc-protection", "kubernetes.io/pv-protection")


def _without_protection(obj: JSON) -> JSON:
    if not isinstance(obj.get("finalizers"), list):
        return obj
    kept = [one for one in obj["finalizers"] if one not in _PROTECTIONS]
    return {key: value for key, value in obj.items() if key != "finalizers"} | (
        {"finalizers": kept} if kept else {}
    )


def _without_taint(obj: JSON) -> JSON:
    if not isinstance(obj.get("taints"), list):
        return obj
    return obj | {
        "taints": [one for one in obj["taints"] if one.get("key") != "node.kubernetes.io/not-ready"]
    }


def _without_hash(obj: JSON) -> JSON:
    return {key: value for key, value in obj.items() if key != "storageVersionHash"}


_FOLLOWING: Final = re.compile(r"accessor error|rules were not checked|^Invalid value: \"\": Checked value")
_PATH: Final = re.compile(r"^((?:Invalid value: .*: )?)[\w.\[\]]+ in body ", re.DOTALL)


def _without_following_causes(answer: Answer) -> Answer:
    """Leave out the causes that repeat another in the words of a later check, and the path inside a message."""
    body = answer.body
    if answer.status != 422 or not isinstance(body, dict):
        return answer
    causes = [
        one | {"message": _PATH.sub(r"\1", one["message"])}
        for one in body["details"].get("causes", ())
        if not _FOLLOWING.search(one["message"])
    ]
    return answer._replace(body=body | {"details": body["details"] | {"causes": causes}})


_PROTOBUF: Final = re.compile(r", application/vnd\.kubernetes\.protobuf(;stream=watch)?")


def _without_protobuf(answer: Answer) -> Answer:
    if answer.status != 406:
        return answer
    return answer._replace(body=answer.body | {"message": _PROTOBUF.sub("", answer.body["message"])})


def _crd(name: str, **spec: Any) -> JSON:
    """Return a definition of a cluster-scoped kind in the sequence's own group."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}s.$ns.example.com"},
        "spec": {
            "group": "$ns.example.com",
            "scope": "Cluster",
            "names": {"plural": f"{name}s", "kind": name.title()},
            **spec,
        },
    }


def _webhook(client: JSON, operation: str, **more: Any) -> JSON:
    """Return a configuration of a webhook that is asked about config maps of the sequence's namespace."""
    rule = {"operations": [operation], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    hook = {
        "name": "differs.example.com",
        "clientConfig": client,
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "$ns"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    return {"metadata": {"name": "differs-$ns"}, "webhooks": [hook | more]}


_NOBODY: Final[JSON] = {"url": "https://127.0.0.1:1/nobody"}
_HOOKS: Final = "/apis/admissionregistration.k8s.io/v1"
_SCHEMA: Final[JSON] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
_VERSIONS: Final = [
    {"name": name, "served": True, "storage": name == "v1", "schema": _SCHEMA} for name in ("v1", "v2")
]
_CONVERTED: Final[JSON] = {
    "strategy": "Webhook",
    "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": _NOBODY},
}
_CONTROLLED: Final[JSON] = {
    "metadata": {"name": "a"},
    "spec": {
        "selector": {"a": "b"},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}


def _pod(**spec: Any) -> JSON:
    return {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def _widget(**spec: Any) -> JSON:
    kind = {"apiVersion": "differential.test/v1", "kind": "Widget"}
    return kind | {"metadata": {"name": "a"}, "spec": {"size": 1, **spec}}


_REVIEW: Final[JSON] = {"spec": {"user": "nobody", "resourceAttributes": {"verb": "get", "resource": "pods"}}}
_CONFIG: Final[JSON] = {"metadata": {"name": "a"}}

# What clients notice first stands first, as in the documentation.
DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        "No authentication and no RBAC; access reviews always say yes.",
        ({"POST": "/apis/authorization.k8s.io/v1/subjectaccessreviews", "body": _REVIEW},),
    ),
    Difference(
        "Pods get no default service account and no volume for its token.",
        ({"POST": "pods", "body": _pod()},),
        _everywhere(_without_account),
    ),
    Difference(
        "LimitRange, ResourceQuota and PodDisruptionBudget are stored, not enforced.",
        (
            {
                "POST": "limitranges",
                "body": {
                    "metadata": {"name": "a"},
                    "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]},
                },
            },
            {"POST": "pods", "body": _pod()},
        ),
    ),
    Difference(
        "Workload kinds (Deployment, StatefulSet, batch Job, …) are stored; no controller works on them.",
        ({"POST": "replicationcontrollers", "body": _CONTROLLED}, {"watch": "replicationcontrollers"}),
    ),
    Difference(
        "New nodes get no taint `not-ready` (no controller would take it off).",
        ({"POST": "nodes", "body": {"metadata": {"name": "taint-$ns"}}},),
        _everywhere(_without_taint),
    ),
    Difference(
        "Claims and volumes get no finalizer that protects them while they are used.",
        ({"POST": "persistentvolumeclaims", "body": _CLAIM},),
        _everywhere(_without_protection),
    ),
    Difference(
        "Cluster IPs are derived from the name; node ports are not allocated.",
        (
            {
                "POST": "services",
                "body": {"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}},
            },
        ),
    ),
    Difference(
        "Pod validation covers the common fields.",
        ({"POST": "pods", "body": _pod(dnsConfig={"nameservers": ["no address"]})},),
    ),
    Difference(
        "Of CRD validation rules (CEL) comparisons, `has`, `size`, `&&`, `||`, `!` and `oldSelf` are evaluated, "
        "others are not.",
        ({"POST": "widgets", "body": _widget(names=["never"])},),
    ),
    Difference(
        "CRD conversion is `None`.",
        (
            {"POST": "crds", "body": _crd("thing", versions=_VERSIONS, conversion=_CONVERTED)},
            {"GET": "/apis/$ns.example.com/v1/things", "until": 200},
            {
                "POST": "/apis/$ns.example.com/v1/things",
                "body": {"apiVersion": "$ns.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}},
                "until": 201,
            },
            {"GET": "/apis/$ns.example.com/v2/things/a"},
        ),
    ),
    Difference(
        "Webhooks are called by URL, not by service reference.",
        (
            {
                "POST": f"{_HOOKS}/validatingwebhookconfigurations",
                "body": _webhook({"service": {"name": "nobody", "namespace": "$ns"}}, "CREATE"),
            },
            {"POST": "configmaps", "body": _CONFIG, "until": 500},
        ),
    ),
    Difference(
        "`matchConditions` of webhooks are not evaluated: they are asked about more.",
        (
            {
                "POST": f"{_HOOKS}/validatingwebhookconfigurations",
                "body": _webhook(
                    _NOBODY, "CREATE", matchConditions=[{"name": "never", "expression": "false"}]
                ),
            },
            {"POST": "configmaps", "body": _CONFIG},
        ),
    ),
    Difference(
        "Mutating webhooks are not called on DELETE.",
        (
            {"POST": "configmaps", "body": _CONFIG | {"metadata": {"name": "a", "finalizers": ["a.b/c"]}}},
            {"POST": f"{_HOOKS}/mutatingwebhookconfigurations", "body": _webhook(_NOBODY, "DELETE")},
            {"watch": "configmaps"},  # a second, in which the webhook becomes known
            {"DELETE": "configmaps/a"},
        ),
    ),
    Difference(
        "`managedFields` begin with an object's first server-side apply.",
        ({"POST": "configmaps", "body": _CONFIG | {"data": {"k": "v"}}, "managers": True},),
    ),
    Difference(
        "Protobuf is read (kubectl sends it), never written.",
        ({"GET": "pods", "accept": "application/vnd.kubernetes.protobuf"},),
        _without_protobuf,
    ),
    Difference("No OpenAPI v2.", ({"GET": "/openapi/v2"},)),
    Difference(
        "No old `/watch/` paths.", ({"GET": "/api/v1/watch/namespaces/$ns/configmaps?timeoutSeconds=1"},)
    ),
    Difference("`/version` says that it is the simulator.", ({"GET": "/version"},)),
    Difference(
        "Discovery tells no hashes of storage versions.",
        ({"GET": "/apis/batch.volcano.sh/v1alpha1"},),
        _everywhere(_without_hash),
    ),
    Difference(
        "Columns of tables have no descriptions.",
        ({"GET": "pods", "accept": "table"},),
        _everywhere(_without_descriptions),
    ),
    Difference(
        "Warnings tell of unknown fields and what webhooks say, not of questionable pods or deprecated kinds.",
        ({"GET": "endpoints"},),
    ),
    Difference(
        "What a JSON parser says about text that is no JSON is worded by another parser.",
        ({"POST": "pods", "raw": "{bad"},),
        _without_parser_words,
    ),
    Difference(
        "A refused change of a pod's spec is told without the dump of both specs.",
        ({"POST": "pods", "body": _pod()}, {"PATCH": "pods/a", "merge": {"spec": {"hostname": "x"}}}),
        _everywhere(_without_go_diff),
    ),
    Difference(
        "A patch that leaves no object of the kind is refused with that object's fields in another order.",
        ({"POST": "configmaps", "body": _CONFIG}, {"PATCH": "configmaps/a", "merge": {"data": [1]}}),
        _without_patched_object,
    ),
    Difference(
        "A custom object that breaks its schema is refused without the causes that only follow from others (rules "
        "that were not checked, numbers that the scale subresource cannot read).",
        ({"POST": "widgets", "body": _widget(size=1.5)},),
        _without_following_causes,
    ),
)
