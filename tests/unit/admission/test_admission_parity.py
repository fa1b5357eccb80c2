"""A job gets one verdict, whether it comes by the topic or through the API server."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.admission.core.decision import Admitted, Rejected, decide
from services.admission.core.defaults import Defaults
from services.admission.core.review import Request
from services.admission.core.violations import Violation
from services.admission.core.webhooks import Rules
from services.admission.core.webhooks import decide as decide_webhook
from tests.unit.admission.worlds import VIEW, put, spoiled


def by_topic(obj: dict[str, Any]) -> tuple[list[Violation], dict[str, Any] | None]:
    match decide("s1", obj, VIEW, Defaults()):
        case Admitted(job):
            return [], job.dump()
        case Rejected(_, _, violations):
            return list(violations), None
        case other:
            raise AssertionError(other)


def asked(obj: dict[str, Any]) -> Request:
    meta = obj.get("metadata")
    namespace = meta.get("namespace", "") if isinstance(meta, dict) else ""
    return Request("u", "CREATE", "batch.volcano.sh", "Job", "jobs", namespace=namespace, object=obj)


def by_webhooks(obj: dict[str, Any]) -> tuple[list[Violation], dict[str, Any]]:
    """Mutate, then validate, as the API server does; return the violations and the job."""
    patch = decide_webhook("/jobs/mutate", asked(obj), VIEW, Rules()).patch
    job = jsonpatch.apply_patch(copy.deepcopy(obj), list(patch))
    return list(decide_webhook("/jobs/validate", asked(job), VIEW, Rules()).violations), job


VALUES = st.sampled_from(
    [..., None, 0, 1, -1, 3, 2**31, "", "x", "Not_A_Name", "master", "worker", "research", "closed", "root", "reserch",
     "1Gi", "RestartJob", "PodFailed", "*", True, [], {}, ["master"], ["nobody"], {"name": ["worker"]}, {"mpi": []},
     {"totalPartitions": 3, "partitionSize": 1}, {"highestTierAllowed": 1, "highestTierName": "rack"}, 2.5]
)  # fmt: skip
PLACES = st.sampled_from(
    ["metadata/name", "metadata/labels", "spec/queue", "spec/minAvailable", "spec/maxRetry", "spec/minSuccess",
     "spec/schedulerName", "spec/plugins", "spec/policies/0/event", "spec/policies/0/action", "spec/policies/1/exitCode",
     "spec/volumes/0/mountPath", "spec/volumes/0/volumeClaimName", "spec/networkTopology", "spec/tasks", "spec/tasks/0",
     "spec/tasks/0/name", "spec/tasks/1/name", "spec/tasks/1/replicas", "spec/tasks/1/minAvailable", "spec/tasks/1/dependsOn",
     "spec/tasks/1/partitionPolicy", "spec/tasks/1/template/spec/hostNetwork", "spec/tasks/1/template/spec/containers",
     "spec/tasks/1/template/spec/volumes", "spec/tasks/1/template/spec/containers/0/image", "spec/ttlSecondsAfterFinished"]
)  # fmt: skip


@settings(deadline=None)  # a busy machine is not a failure
@given(st.dictionaries(PLACES, VALUES, max_size=4))
def test_both_ways_give_one_verdict_and_an_allowed_job_is_the_same(damage):
    obj = spoiled()
    for place, value in damage.items():
        try:
            put(obj, place, copy.deepcopy(value))
        except (TypeError, IndexError, KeyError, AttributeError):
            continue  # an outer place was replaced already
    topic, admitted = by_topic(copy.deepcopy(obj))
    webhook, job = by_webhooks(copy.deepcopy(obj))
    assert bool(topic) is bool(webhook), (topic, webhook)
    if admitted is not None:
        assert admitted == job


@settings(deadline=None)  # a busy machine is not a failure
@given(st.dictionaries(PLACES, VALUES, max_size=4))
def test_the_reasons_for_one_and_the_same_object_are_the_same(damage):
    obj = spoiled()
    for place, value in damage.items():
        try:
            put(obj, place, copy.deepcopy(value))
        except (TypeError, IndexError, KeyError, AttributeError):
            continue
    topic, _ = by_topic(copy.deepcopy(obj))
    assert list(decide_webhook("/jobs/validate", asked(obj), VIEW, Rules()).violations) == topic


@pytest.mark.parametrize(
    "changes", [[], [("spec/queue", ...), ("spec/minAvailable", ...)], [("spec/plugins", {"mpi": []})]]
)
def test_the_defaults_are_the_same_both_ways(changes):
    _, admitted = by_topic(spoiled(*changes))
    _, job = by_webhooks(spoiled(*changes))
    assert admitted == job
    assert by_webhooks(job)[1] == job
