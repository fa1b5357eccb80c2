"""What the scheduler can be told."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pydantic import Field

from services.scheduler.core.policy import Backfill, Defragmentation, Policy, Scores
from shared.settings import CommonSettings


class SchedulerSettings(CommonSettings):
    """Environment variables ``PUMICE_<FIELD>``; times are in seconds."""

    pools: tuple[str, ...] = Field(
        ("default",),
        description="Node pools to schedule from the start, as a JSON list; others are taken up when a node "
        "or gang names them.",
    )
    debounce: float = Field(
        0.002,
        ge=0,
        description="Least pause between two cycles: a change after a rest is decided at once, those of a "
        "burst together. Small against the log's round trip.",
    )
    cycle_gangs: int = Field(
        200,
        ge=1,
        description="Most gangs tried before decisions are published, so that the first need not wait for "
        "the last (about 20 ms of work).",
    )
    report_pause: float = Field(
        1.0, gt=0, description="Pause between two rounds of reports: changes in between are joined."
    )
    estimate_pause: float = Field(
        10.0,
        gt=0,
        description="Pause between two looks at when waiting gangs may start: at the first 100, fewer "
        "where very many pods run, and one at a time, so that a cycle never waits for more.",
    )
    report_slice: int = Field(
        200, ge=1, description="Waiting gangs explained at a time, so that reports never delay a cycle."
    )
    results_lookback: int = Field(
        2000,
        ge=0,
        description="Records of bind-results and bind-decisions read again at the start, in each partition: "
        "a result of a decision in flight may be older than this process, and an older decision may still "
        "keep room for a gang. Twice what the controller works on at a time.",
    )
    hold: float = Field(
        300.0,
        ge=0,
        description="For how long a gang that does not fit yet keeps later gangs from taking what it needs "
        "piece by piece; 0: not at all.",
    )
    backfill_learned: bool = Field(
        default=False,
        description="Let jobs use room that is reserved for others by learned run times, and not only by "
        "declared ones: nine of ten earlier jobs of their template would end in time.",
    )
    defragment: bool = Field(
        default=False,
        description="Have gangs move without being asked, if each has room elsewhere and one that waited for "
        "five minutes then starts; a policy file says it by its action `defragment`.",
    )
    decision_patience: float = Field(
        120.0, gt=0, description="Send a decision again when no result came for so long."
    )
    extender_refresh: float = Field(
        60.0,
        gt=0,
        description="Age of an extender's answer after which it is asked again, while a gang waits that "
        "needs it. Nodes that are new or changed are asked about at once.",
    )
    policy_file: Path | None = Field(
        None,
        description="Volcano's scheduler configuration (actions, tiers, plugins), looked at twice a second; "
        "unset: the ConfigMap of which the controller tells, else what the settings here say.",
    )
    binpack_weight: float = Field(
        1.0, ge=0, description="Weight of packing pods tightly (Volcano's binpack.weight)."
    )
    binpack_resources: dict[str, float] = Field(
        default={"cpu": 1.0, "memory": 1.0},
        description="Weight of resources in binpack, as a JSON object (Volcano's binpack.resources).",
    )
    binpack_extended: float = Field(
        10.0,
        ge=0,
        description="Weight in binpack of a resource not named above: accelerators are what clusters are "
        "short of.",
    )

    def policy(self) -> Policy:
        """Return the core's policy."""
        return Policy(
            scores=Scores(
                binpack_weight=self.binpack_weight,
                resource_weights=(("pods", 0.0), *sorted(self.binpack_resources.items())),
                extended_weight=self.binpack_extended,
            ),
            backfill=Backfill(learned=self.backfill_learned),
            defragmentation=Defragmentation(enabled=self.defragment),
            hold=timedelta(seconds=self.hold),
            patience=timedelta(seconds=self.decision_patience),
        )
