"""Look-ahead to a backup on the inverted pendulum, from the log of a cautious controller: docs/results/backups.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from safexp.runs.config import RunConfig
from safexp.studies.lookahead import controller_return, reproduce
from safexp.tasks.pendulum import ANGLE, HORIZON, POSITION, follow_cautiously, regulate

TASK = "safexp/PendulumReach-v0"


@dataclass(frozen=True)
class PendulumStudy:
    """Train on the inverted pendulum behind a certificate that looks ahead to a linear regulator.

    Args:
        seeds: seeds of the runs.
        steps: environment steps of a run.
        horizon: number of steps that a certificate looks ahead to the regulator.
        drills: share of the steps spent on drills.
        moved_penalty: penalty of a replaced proposal, in proportion to how far it was moved.
        warm_start: begin with a policy that imitates the log.
        imitation: largest KL divergence of the supervised step towards executed actions; 0 for none.
        workers: number of runs at a time.
        out: folder of the run folders; finished runs are not repeated, interrupted ones are resumed.
    """

    seeds: tuple[int, ...] = (1000, 1001, 1002, 1003, 1004)
    steps: int = 100_000
    horizon: int = HORIZON
    drills: float = 0.02
    moved_penalty: float = 0.3
    warm_start: bool = True
    imitation: float = 0.01
    workers: int = 2
    out: Path = Path("runs/pendulum")

    def runs(self) -> list[RunConfig]:
        """Settings of the runs."""
        return [
            RunConfig(
                task=TASK,
                constraint="within",
                within=(f"x:{-POSITION}:{POSITION}", f"angle:{-ANGLE}:{ANGLE}"),
                quantifier="rollout",
                backup="controller",
                backup_options={"horizon": self.horizon, "drills": self.drills},
                learner="TRPO",
                learner_options={"n_steps": 256, "policy_kwargs": {"log_std_init": -1.0}},
                penalty=1.0,
                moved_penalty=self.moved_penalty,
                warm_start=self.warm_start,
                imitation=self.imitation,
                num_envs=8,
                steps=self.steps,
                seed=seed,
                out=self.out / str(seed),
            )
            for seed in self.seeds
        ]

    def references(self, task: str) -> dict[str, float]:
        """Returns of the regulator and of the controller that drove the log."""
        return {
            "backup_return": controller_return(task, regulate),
            "log_return": controller_return(task, follow_cautiously),
        }


def main(
    study: Annotated[PendulumStudy, tyro.conf.arg(name="")],
    *,
    json_output: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> int:
    """Learn on the inverted pendulum behind a certificate that looks ahead to a backup."""
    return reproduce(study, json_output)
