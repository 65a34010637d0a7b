"""Limits on every step, learned from the log of a cautious controller alone: docs/results/instantaneous.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

import numpy as np
import tyro

from safexp.records.coverage import total
from safexp.records.statistics import exact_interval
from safexp.report.summary import coverage_text
from safexp.report.terminal import print_rows
from safexp.report.watch import watched_sweep
from safexp.runs.config import RunConfig
from safexp.runs.folder import Run, read
from safexp.tasks.navigation.layouts import STATIC
from safexp.tasks.seed_controllers import Logged, drive, gentle

CaseName = Literal["point", "point-schedule", "cheetah"]
LearnerName = Literal["TRPO", "SAC"]

CASES: MappingProxyType[str, dict[str, Any]] = MappingProxyType(
    {
        "point": {"task": "safexp/PointGoalStatic-v0", "within": ("margin:0:",)},
        "point-schedule": {"task": "safexp/PointGoalStatic-v0", "within": ("margin:0,50=0.14:",)},
        "cheetah": {"task": "safexp/HalfCheetahVelocity-v0", "within": ("margin:0:",), "penalty": 1.0},
    }
)
TRPO: MappingProxyType[str, Any] = MappingProxyType({"n_steps": 80, "gae_lambda": 0.97, "target_kl": 0.02})
SAC: MappingProxyType[str, Any] = MappingProxyType(
    {
        "train_freq": 1,
        "gradient_steps": 5,
        "learning_starts": 1000,
        "batch_size": 128,
        "learning_rate": 1e-3,
        "ent_coef": "auto_0.01",
        "policy_kwargs": {"net_arch": [64, 64]},
    }
)
STEPS = MappingProxyType({"point": 280_000, "point-schedule": 280_000, "cheetah": 400_000})
"""Steps of a run of TRPO, whose steps are fast."""
SAC_STEPS = 25_000


@dataclass(frozen=True)
class InstantaneousStudy:
    """Settings of the study.

    Args:
        cases: `point` keeps PointGoalStatic's Point out of its hazard; `point-schedule` also 0.14 m away from it from
            step 50 on; `cheetah` keeps HalfCheetah below its velocity limit.
        learners: learners inside MASE.
        seeds: seeds of the runs.
        steps: environment steps of a run; by default 280,000 for TRPO (400,000 on HalfCheetah) and 25,000 for SAC.
        workers: number of runs at a time.
        out: folder of the run folders; finished runs are not repeated, interrupted ones are resumed.
    """

    cases: tuple[CaseName, ...] = get_args(CaseName)
    learners: tuple[LearnerName, ...] = get_args(LearnerName)
    seeds: tuple[int, ...] = (2000, 2001, 2002, 2003, 2004)
    steps: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    workers: int = 2
    out: Path = Path("runs/instantaneous")

    def runs(self, case: str, learner: str) -> list[RunConfig]:
        """Settings of a case's runs."""
        options = dict(SAC)
        if learner == "TRPO":
            # HalfCheetah charges for every action, including those that only explore.
            options = {**TRPO, "policy_kwargs": {"log_std_init": -1.5 if case == "cheetah" else -0.5}}
        return [
            RunConfig(
                **CASES[case],
                quantifier="sparse-gp",
                calibrate=True,
                learner=learner,
                learner_options=options,
                num_envs=10 if learner == "SAC" else 50,
                steps=self.steps or (STEPS[case] if learner == "TRPO" else SAC_STEPS),
                seed=seed,
                out=self.out / f"{case}-{learner}-{seed}",
            )
            for seed in self.seeds
        ]


def controller(case: str, seed: int) -> Logged:
    """Log of the controller that the runs start from, in whole episodes of its own."""
    rng = np.random.default_rng(seed)
    if case == "cheetah":
        return gentle("safexp/HalfCheetahVelocity-v0", None, 10, 1000, rng)
    return drive(STATIC, "indicator", 16, 200, rng)


def row_of(case: str, learner: str, runs: Sequence[Run], controller_return: float) -> dict[str, object]:
    """Runs of a case as a row of the table."""
    summaries = [found.summary for found in runs]
    violations, episodes = (sum(getattr(s, name) for s in summaries) for name in ("violations", "episodes"))
    returns = [s.final_return for s in summaries if s.final_return is not None]
    counts = total([s.coverage for s in summaries])
    return {
        "case": case,
        "learner": learner,
        "runs": len(runs),
        "violations": violations,
        "episodes": episodes,
        "rate at most": f"{exact_interval(violations, episodes)[1]:.2%}",
        "return": f"{np.mean(returns):.2f} ± {np.std(returns):.2f}" if returns else "-",
        "controller's": f"{controller_return:.2f}",
        "stops": f"{np.mean([s.final_stops or 0.0 for s in summaries]):.0%}",
        "coverage near": coverage_text(counts.near_covered, counts.near),
    }


def main(
    study: Annotated[InstantaneousStudy, tyro.conf.arg(name="")],
    *,
    json_output: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> int:
    """Learn under limits on every step, from a cautious controller's log."""
    groups = {(case, learner): study.runs(case, learner) for case in study.cases for learner in study.learners}
    configs = [config for group in groups.values() for config in group]
    outcomes = watched_sweep(configs, study.workers)
    failed = {outcome.folder for outcome in outcomes if outcome.problem}
    rows = []
    for (case, learner), group in groups.items():
        if runs := [read(config.folder) for config in group if config.folder not in failed]:
            returns = controller(case, seed=min(study.seeds)).returns
            rows.append(row_of(case, learner, runs, float(returns.mean())))
    if rows:
        print_rows(rows, json_output)
    return 1 if failed else 0
