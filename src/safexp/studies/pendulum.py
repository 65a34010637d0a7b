"""Look-ahead to a backup on the inverted pendulum, from the log of a cautious controller: docs/backups.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import tyro

from safexp.audit.audit import audit
from safexp.core.arrays import Array
from safexp.records.episodes import Episode
from safexp.records.statistics import exact_interval
from safexp.report.terminal import print_rows
from safexp.report.watch import watched_sweep
from safexp.runs.config import RunConfig
from safexp.runs.folder import Run, read
from safexp.runs.summary import WINDOW
from safexp.tasks.pendulum import ANGLE, POSITION, follow_cautiously, regulate

TASK = "safexp/PendulumReach-v0"
AUDITED, FIRST_SEED = 20, 1_000_000
SHOWN = MappingProxyType(
    {
        "seed": "seed",
        "episodes": "episodes",
        "violations": "violated",
        "stops": "stopped",
        "takeover_steps": "takeovers",
        "drills": "drills",
        "certificate_misses": "missed",
        "own_actions": "own",
        "return": "return",
        "backup_return": "backup's",
        "log_return": "log's",
        "unshielded_violation_rate": "unshielded",
    }
)
"""Columns of the terminal's table, under short names; JSON has all."""


@dataclass(frozen=True)
class PendulumStudy:
    """Train on the inverted pendulum behind a certificate that looks ahead to a linear regulator.

    Args:
        seeds: seeds of the runs.
        steps: environment steps of a run.
        drills: share of the steps spent on drills.
        moved_penalty: penalty of a replaced proposal, in proportion to how far it was moved.
        workers: number of runs at a time.
        out: folder of the run folders; finished runs are not repeated, interrupted ones are resumed.
    """

    seeds: tuple[int, ...] = (1000, 1001, 1002, 1003, 1004)
    steps: int = 100_000
    drills: float = 0.02
    moved_penalty: float = 0.3
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
                backup_options={"drills": self.drills},
                learner="TRPO",
                learner_options={"n_steps": 256, "policy_kwargs": {"log_std_init": -1.0}},
                moved_penalty=self.moved_penalty,
                num_envs=8,
                steps=self.steps,
                seed=seed,
                out=self.out / str(seed),
            )
            for seed in self.seeds
        ]


def row_of(run: Run) -> dict[str, Any]:
    """Run as a row of the table."""
    summary, last = run.summary, run.metrics[-1]
    unshielded = audit(run.config.folder, AUDITED, FIRST_SEED, shielded=False)
    drills, missed = int(last.get("drills", 0)), int(last.get("drills_missed", 0))
    return {
        "seed": run.config.seed,
        "episodes": summary.episodes,
        "violations": summary.violations,
        "violation_rate_at_most": exact_interval(summary.violations, max(summary.episodes, 1))[1],
        "stops": summary.stops,
        "after_stop_violations": summary.after_stop_violations if summary.stops else 0,
        "takeover_steps": summary.takeovers,
        "drills": drills,
        "certificate_misses": missed,
        "miss_rate_at_most": exact_interval(missed, drills)[1] if drills else None,
        "own_actions": own_share(run.episodes[-WINDOW:]),
        "return": summary.final_return,
        "unshielded_violation_rate": unshielded.risk.violations / AUDITED,
    }


def own_share(episodes: Sequence[Episode]) -> float | None:
    """Share of the executed actions that were the policy's own."""
    steps = sum(episode.length for episode in episodes)
    others = sum(episode.interventions + episode.takeovers + episode.drills for episode in episodes)
    return 1 - others / steps if steps else None


def controller_return(controller: Any, episodes: int = AUDITED) -> float:
    """Mean return of a controller of observations (n, 5)."""
    env, returns = gym.make(TASK), np.zeros(episodes)
    for k in range(episodes):
        observation: Array
        observation, _ = env.reset(seed=FIRST_SEED + k)
        over = False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(controller(observation[None])[0])
            returns[k] += float(reward)
            over = terminated or truncated
    env.close()
    return float(returns.mean())


def main(
    study: Annotated[PendulumStudy, tyro.conf.arg(name="")],
    *,
    json_output: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> int:
    """Learn on the inverted pendulum behind a certificate that looks ahead to a backup."""
    outcomes = watched_sweep(study.runs(), study.workers)
    failed = {outcome.folder for outcome in outcomes if outcome.problem}
    rows = [row_of(read(config.folder)) for config in study.runs() if config.folder not in failed]
    if rows:
        regulator, cautious = controller_return(regulate), controller_return(follow_cautiously)
        rows = [{**row, "backup_return": regulator, "log_return": cautious} for row in rows]
        print_rows(
            rows if json_output else [{short: row[key] for key, short in SHOWN.items()} for row in rows], json_output
        )
    return 1 if failed else 0
