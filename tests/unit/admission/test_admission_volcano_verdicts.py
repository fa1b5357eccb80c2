"""Requests to Volcano's own webhooks with its verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.admission.core.defaults import Defaults, apply_defaults
from services.admission.core.jobs import validate_job
from shared.api.batch import Job
from tests.unit.admission.worlds import VIEW

CASES = json.loads(
    (Path(__file__).parents[2] / "data" / "volcano-admission.json").read_text(encoding="utf-8")
)
LATER = {kind: f"the {kind} kind is not built yet" for kind in ("JobFlow", "CronJob", "HyperNode")}


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{c['kind']} {c['object']['metadata']['name']} {i}" for i, c in enumerate(CASES)]
)
def test_the_verdict_is_volcanos(case):
    if case["kind"] in LATER:
        pytest.skip(LATER[case["kind"]])
    assert case["operation"] == "CREATE"
    job = apply_defaults(Job.model_validate(case["object"]), Defaults())
    assert (not validate_job(job, VIEW)) is case["allowed"]
