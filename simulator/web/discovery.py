"""Discovery documents: the groups, versions and resources served, in the old and the aggregated form."""

from __future__ import annotations

from typing import Any, Final

from simulator.core.kinds import Kind, Registry

JSON = dict[str, Any]

VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+pumice-simulator",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_PODS_EXTRA: Final = (
    ("binding", "", "v1", "Binding", ("create",)),
    ("eviction", "policy", "v1", "Eviction", ("create",)),
    ("log", "", "v1", "Pod", ("get",)),
)
_REVIEWS: Final[dict[tuple[str, str], tuple[tuple[str, str], ...]]] = {
    ("authorization.k8s.io", "v1"): (
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        ("subjectaccessreviews", "SubjectAccessReview"),
    ),
    ("authentication.k8s.io", "v1"): (
        ("selfsubjectreviews", "SelfSubjectReview"),
        ("tokenreviews", "TokenReview"),
    ),
}
_SUB: Final = ("get", "patch", "update")


def review_kind(path: str) -> tuple[str, str] | None:
    """Return (kind, apiVersion) of the access review that is posted to a path."""
    parts = path.strip("/").split("/")
    if len(parts) != 4 or parts[0] != "apis":  # noqa: PLR2004
        return None
    for plural, kind in _REVIEWS.get((parts[1], parts[2]), ()):
        if plural == parts[3]:
            return kind, f"{parts[1]}/{parts[2]}"
    return None


def group_versions(registry: Registry) -> dict[str, list[str]]:
    """Return the versions of every named group, preferred first."""
    groups: dict[str, list[str]] = {}
    for kind in registry.all():
        versions = groups.setdefault(kind.group, [])
        if kind.version not in versions:
            versions.append(kind.version)
    for group, version in _REVIEWS:
        groups.setdefault(group, [version])
    return groups


def paths(registry: Registry) -> list[str]:
    """Return the roots of all groups and versions."""
    named = [f"/apis/{g}/{v}" for g, versions in group_versions(registry).items() if g for v in versions]
    return ["/api", "/api/v1", "/apis", *named]


def api_versions(host: str) -> JSON:
    """Return the body of ``/api``."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def _group(name: str, versions: list[str]) -> JSON:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def api_groups(registry: Registry) -> JSON:
    """Return the body of ``/apis``."""
    groups = [_group(name, versions) for name, versions in group_versions(registry).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(registry: Registry, name: str) -> JSON | None:
    """Return the body of ``/apis/<group>``."""
    versions = group_versions(registry).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions and name else None


def _kinds(registry: Registry, group: str, version: str) -> list[Kind]:
    return [kind for kind in registry.all() if (kind.group, kind.version) == (group, version)]


def _subresources(kind: Kind) -> list[tuple[str, str, str, str, tuple[str, ...]]]:
    found: list[tuple[str, str, str, str, tuple[str, ...]]] = []
    if kind.qualified == "pods":
        found += _PODS_EXTRA
    if kind.status:
        found.append(("status", kind.group, kind.version, kind.kind, _SUB))
    if kind.scale:
        found.append(("scale", "autoscaling", "v1", "Scale", _SUB))
    if kind.qualified == "namespaces":
        found.append(("finalize", "", "v1", "Namespace", ("update",)))
    return found


def resource_list(registry: Registry, group: str, version: str) -> JSON | None:
    """Return the body of ``/api/v1`` or ``/apis/<group>/<version>``; None when it is not served."""
    resources: list[JSON] = []
    for kind in _kinds(registry, group, version):
        entry: JSON = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(kind.verbs),
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        resources.append(entry)
        for sub, sub_group, sub_version, sub_kind, verbs in _subresources(kind):
            below: JSON = {"name": f"{kind.plural}/{sub}", "singularName": "", "namespaced": kind.namespaced}
            if (sub_group, sub_version) != (kind.group, kind.version):
                below |= {"group": sub_group, "version": sub_version}
            resources.append({**below, "kind": sub_kind, "verbs": list(verbs)})
    resources += [
        {"name": plural, "singularName": kind.lower(), "namespaced": False, "kind": kind, "verbs": ["create"]}
        for plural, kind in _REVIEWS.get((group, version), ())
    ]
    if not resources:
        return None
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def aggregated(registry: Registry, *, core: bool) -> JSON:
    """Return aggregated discovery (v2) of the core group or of all named groups."""
    items: list[JSON] = []
    for group, versions in group_versions(registry).items():
        if (group == "") != core:
            continue
        entries = [
            {"version": version, "resources": _aggregated(registry, group, version), "freshness": "Current"}
            for version in versions
        ]
        meta = {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None}
        items.append({"metadata": meta, "versions": entries})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated(registry: Registry, group: str, version: str) -> list[JSON]:
    resources: list[JSON] = []
    for kind in _kinds(registry, group, version):
        entry: JSON = {
            "resource": kind.plural,
            "responseKind": {"group": group, "version": version, "kind": kind.kind},
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "singularResource": kind.singular,
            "verbs": list(kind.verbs),
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        subs = [
            {
                "subresource": sub,
                "responseKind": {"group": sub_group, "version": sub_version, "kind": sub_kind},
                "verbs": list(verbs),
            }
            for sub, sub_group, sub_version, sub_kind, verbs in _subresources(kind)
        ]
        if subs:
            entry["subresources"] = subs
        resources.append(entry)
    resources += [
        {
            "resource": plural,
            "responseKind": {"group": group, "version": version, "kind": kind},
            "scope": "Cluster",
            "singularResource": kind.lower(),
            "verbs": ["create"],
        }
        for plural, kind in _REVIEWS.get((group, version), ())
    ]
    return resources
