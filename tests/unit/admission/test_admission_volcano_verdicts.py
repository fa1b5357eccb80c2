"""Requests to Volcano's own webhooks with its verdicts; ours are the same, by the topic and by the webhook."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.admission.core.decision import Rejected, decide
from services.admission.core.defaults import Defaults
from services.admission.core.review import Request
from services.admission.core.view import FixedView
from services.admission.core.webhooks import Rules
from services.admission.core.webhooks import decide as decide_webhook
from shared.api.webhooks import HOOKS
from tests.unit.admission.worlds import VIEW

CASES = json.loads(
    (Path(__file__).parents[2] / "data" / "volcano-admission.json").read_text(encoding="utf-8")
)
VERSIONS = {
    "Job": "batch.volcano.sh/v1alpha1",
    "CronJob": "batch.volcano.sh/v1alpha1",
    "JobFlow": "flow.volcano.sh/v1alpha1",
    "HyperNode": "topology.volcano.sh/v1alpha1",
}
IDS = [f"{case['kind']} {case['object']['metadata']['name']} {i}" for i, case in enumerate(CASES)]


LOWER_CASE = FixedView(
    tuple(replace(queue, name=queue.name.lower(), parent=queue.parent.lower()) for queue in VIEW.all_queues)
)


def whole(case: dict[str, Any]) -> dict[str, Any]:
    """Return the object as an API server would let it come so far: these names have capitals."""
    obj = copy.deepcopy(case["object"])
    obj["metadata"]["name"] = obj["metadata"]["name"].lower()
    if "queue" in obj["spec"]:
        obj["spec"]["queue"] = obj["spec"]["queue"].lower()
    return {"apiVersion": VERSIONS[case["kind"]], "kind": case["kind"], **obj}


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_webhooks_verdict_is_volcanos(case):
    [hook] = [one for one in HOOKS if one.resource.kind == case["kind"] and one.path.endswith("/validate")]
    meta = case["object"]["metadata"]
    request = Request(
        uid="u",
        operation=case["operation"],
        group=hook.resource.group,
        kind=case["kind"],
        resource=hook.resource.plural,
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        object=whole(case),
    )
    verdict = decide_webhook(hook.path, request, LOWER_CASE, Rules())
    assert verdict.allowed is case["allowed"], verdict.violations


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=name) for case, name in zip(CASES, IDS, strict=True) if case["kind"] == "Job"],
)
def test_the_topics_verdict_is_volcanos(case):
    decision = decide("s", whole(case), LOWER_CASE, Defaults())
    assert isinstance(decision, Rejected) is not case["allowed"], decision
