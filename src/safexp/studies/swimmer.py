"""Look-ahead to a backup on the velocity-limited Swimmer, from the log of a slow stroke: docs/results/backups.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from safexp.runs.config import RunConfig
from safexp.studies.lookahead import controller_return, reproduce
from safexp.tasks.locomotion import straighten, swim_cautiously
from safexp.tasks.velocity import LIMITS

TASK = "safexp/SwimmerVelocity-v0"
FOLD = 1.2
"""Limit of both joint angles in radians: they hit their stops at 1.75, which no smooth model foresees."""


@dataclass(frozen=True)
class SwimmerStudy:
    """Train the Swimmer behind a certificate that looks ahead to gliding.

    Args:
        seeds: seeds of the runs.
        steps: environment steps of a run.
        drills: share of the steps spent on drills.
        moved_penalty: penalty of a replaced proposal, in proportion to how far it was moved.
        workers: number of runs at a time.
        out: folder of the run folders; finished runs are not repeated, interrupted ones are resumed.
    """

    seeds: tuple[int, ...] = (1000, 1001, 1002)
    steps: int = 50_000
    drills: float = 0.02
    moved_penalty: float = 0.03
    workers: int = 2
    out: Path = Path("runs/swimmer")

    def runs(self) -> list[RunConfig]:
        """Settings of the runs."""
        return [
            RunConfig(
                task=TASK,
                constraint="within",
                # One model answers for limits of the same sides: the velocity has a lower limit that it never reaches.
                within=(f"velocity:-1:{LIMITS['Swimmer']}", f"1:{-FOLD}:{FOLD}", f"2:{-FOLD}:{FOLD}"),
                quantifier="rollout",
                backup="controller",
                backup_options={"drills": self.drills, "penalty": 0.05},
                learner="TRPO",
                learner_options={"n_steps": 256, "policy_kwargs": {"log_std_init": -3.0}},
                penalty=1.0,
                moved_penalty=self.moved_penalty,
                num_envs=8,
                steps=self.steps,
                seed=seed,
                out=self.out / str(seed),
            )
            for seed in self.seeds
        ]

    def references(self, task: str) -> dict[str, float]:
        """Returns of gliding and of the slow stroke."""
        return {
            "backup_return": controller_return(task, straighten),
            "log_return": controller_return(task, swim_cautiously),
        }


def main(
    study: Annotated[SwimmerStudy, tyro.conf.arg(name="")],
    *,
    json_output: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> int:
    """Learn to swim under a velocity limit behind a certificate that looks ahead to gliding."""
    return reproduce(study, json_output)
