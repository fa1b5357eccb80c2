"""The objects that a job needs beside its pods: what they are made of, and which are wanted now.

Every dependent carries the job as its controller (so that it goes when the job goes), the label
``pumice.dev/job`` (so that only ours are watched), and a digest of its content (so that a change of the job
is seen without keeping the content).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from services.controller.core.lifecycle import FINAL
from services.controller.core.model import JSON, Wanted
from shared.api import names
from shared.api import resources as r
from shared.api.batch import JobPhase, JobReason
from shared.kube.port import Resource

KINDS: Final = (r.CONFIGMAPS, r.SECRETS, r.SERVICES, r.NETWORKPOLICIES, r.INGRESSES, r.PVCS)
"""The kinds that dependents have."""
NEEDED: Final = frozenset({None, *JobPhase}) - FINAL - {JobPhase.ABORTED}
"""Phases in which a job's pods are there or will be; in all others only its claims stay, as in Volcano."""
_LABEL_LIMIT: Final = 63
_NOT_IN_LABELS: Final = re.compile("[^a-z0-9-]+")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A pair of SSH keys as the files that hold them."""

    private: str
    public: str


@dataclass(frozen=True, slots=True)
class Dependent:
    """One object. ``keys``: a pair of SSH keys is made with it, and stays as it is afterwards."""

    resource: Resource
    body: JSON
    keys: bool = False

    @property
    def id(self) -> tuple[str, str]:
        """Kind (plural) and name."""
        return self.resource.plural, self.body["metadata"]["name"]

    @property
    def digest(self) -> str:
        """Digest of its content."""
        return digest_of(self.body)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a job cannot be run as it is, or not in full."""

    reason: JobReason
    message: str


def dependent(
    job: Wanted,
    resource: Resource,
    name: str,
    content: JSON,
    *,
    keys: bool = False,
    annotations: dict[str, str] | None = None,
) -> Dependent:
    """Return an object of a job; ``content`` is its body without kind and metadata."""
    extra = annotations or {}
    text = json.dumps([content, extra], sort_keys=True)
    metadata = {
        "name": name,
        "namespace": job.namespace,
        "labels": {names.DEPENDENT: job.name, names.JOB_NAME: job.name},
        "annotations": {**extra, names.CONTENT: blake2b(text.encode(), digest_size=8).hexdigest()},
        "ownerReferences": [job.owner_reference()],
    }
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
    return Dependent(resource, body, keys)


def digest_of(obj: JSON) -> str:
    """Return the digest that an object carries; empty: it is not one that we made."""
    return str((obj["metadata"].get("annotations") or {}).get(names.CONTENT, ""))


def concerns_jobs(old: JSON | None, new: JSON | None) -> bool:
    """Say whether a change of a dependent is one that its job must look at: it went, or was changed."""
    return new is None or (old is not None and digest_of(old) != digest_of(new))


def selector(job: Wanted) -> dict[str, str]:
    """Return the labels that select a job's pods."""
    return {names.JOB_NAME: job.name, names.JOB_NAMESPACE: job.namespace}


def volume_name(source: str) -> str:
    """Return the name of a pod's volume for what it comes from: a claim's name may be too long for one."""
    if len(source) <= _LABEL_LIMIT and not _NOT_IN_LABELS.search(source):
        return source
    digest = blake2b(source.encode(), digest_size=6).hexdigest()
    return f"{_NOT_IN_LABELS.sub('-', source)[:50]}-{digest}"
