"""A wrong type hides nothing but what depends on the value that could not be read."""

from __future__ import annotations

import pytest

from services.admission.core.damage import standing
from services.admission.core.defaults import Defaults
from services.admission.core.judging import judge_new_job
from services.admission.core.violations import Violation
from tests.unit.admission.worlds import VIEW, spoiled

TASK = "spec/tasks/1"
AT = "spec.tasks[1]"


def found(*changes):
    return [(v.code, v.path) for v in judge_new_job(spoiled(*changes), VIEW, Defaults()).violations]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([(f"{TASK}/name", "master"), (f"{TASK}/replicas", "3")],
         [("wrong-type", f"{AT}.replicas"), ("duplicate-task-name", f"{AT}.name")]),
        ([(f"{TASK}/name", "master"), ("spec/maxRetry", "3")],
         [("wrong-type", "spec.maxRetry"), ("duplicate-task-name", f"{AT}.name")]),
        ([("spec/minAvailable", 9), ("spec/maxRetry", "3")],
         [("wrong-type", "spec.maxRetry"), ("min-available-above-replicas", "spec.minAvailable")]),
        ([("spec/minAvailable", 9), (f"{TASK}/replicas", "3")], [("wrong-type", f"{AT}.replicas")]),
        ([("spec/minAvailable", 9), (TASK, "worker")], [("wrong-type", AT)]),
        ([(f"{TASK}/minAvailable", 9), (f"{TASK}/replicas", "3")], [("wrong-type", f"{AT}.replicas")]),
        ([(f"{TASK}/minAvailable", 9), ("spec/tasks/0/replicas", "3")],
         [("wrong-type", "spec.tasks[0].replicas"), ("task-min-available-above-replicas", f"{AT}.minAvailable")]),
        ([(f"{TASK}/dependsOn", {"name": ["master", "nobody"]}), ("spec/tasks/0/name", 1)],
         [("wrong-type", "spec.tasks[0].name")]),
        ([(f"{TASK}/dependsOn", {"name": ["master", "nobody"]}), ("spec/tasks/0/replicas", "1")],
         [("wrong-type", "spec.tasks[0].replicas"), ("unknown-dependency", f"{AT}.dependsOn.name[1]")]),
        ([("spec/policies/0/event", 5), ("spec/policies/1", {"action": "AbortJob"})],
         [("wrong-type", "spec.policies[0].event"), ("policy-without-trigger", "spec.policies[1]")]),
        ([("spec/volumes/0/volumeClaimName", 5), ("spec/volumes/0/mountPath", "a:b")],
         [("wrong-type", "spec.volumes[0].volumeClaimName"), ("invalid", "spec.volumes[0].mountPath")]),
        ([(f"{TASK}/template/spec/volumes/0/name", 5)],
         [("wrong-type", f"{AT}.template.spec.volumes[0].name")]),
        ([(f"{TASK}/template/spec/volumes", []), ("spec/maxRetry", "3")],
         [("wrong-type", "spec.maxRetry"), ("not-found", f"{AT}.template.spec.containers[0].volumeMounts[0].name")]),
        ([(f"{TASK}/template/spec/containers/0/resources/limits/nvidia.com~1gpu", ["8"])],
         [("wrong-type", f"{AT}.template.spec.containers[0].resources.limits[nvidia.com~1gpu]")]),
        ([("spec/plugins/mpi", []), (f"{TASK}/replicas", "3"), ("spec/tasks/0/name", "first")],
         [("wrong-type", f"{AT}.replicas"), ("mpi-master-not-found", "spec.plugins[mpi]")]),
        ([("spec/plugins/mpi", []), ("spec/tasks/0/name", 5)], [("wrong-type", "spec.tasks[0].name")]),
    ],
)  # fmt: skip
def test_only_what_depends_on_an_unreadable_value_is_left_out(changes, expected):
    assert found(*changes) == expected


def test_without_damage_every_violation_stands():
    every = [
        Violation("a", "spec.x", "m"),
        Violation("unknown-dependency", "spec.tasks[0].dependsOn.name[0]", "m"),
    ]
    assert list(standing(every, [])) == every


def test_damage_elsewhere_leaves_a_violation_alone_and_damage_above_or_below_does_not():
    one = Violation("a", "spec.tasks[0].policies", "m")
    for damaged, stands in (
        ("spec.tasks[1].policies", True),
        ("spec.tasks[0]", False),
        ("spec.tasks[0].policies[2].event", False),
        ("spec.tasks[0].policiesOfMine", True),
    ):
        assert list(standing([one], [damaged])) == ([one] if stands else []), damaged
