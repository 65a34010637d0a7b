"""Studies of training behind a certificate that looks ahead to a backup: their rows and their command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from safexp.audit.audit import audit
from safexp.core.arrays import Array, Controller
from safexp.records.episodes import Episode
from safexp.records.statistics import exact_interval
from safexp.report.terminal import print_rows
from safexp.report.watch import watched_sweep
from safexp.runs.config import RunConfig
from safexp.runs.folder import Run, read
from safexp.runs.summary import WINDOW

AUDITED, FIRST_SEED = 20, 1_000_000
"""Episodes in which a policy without its shield, or a controller, is measured, and the seed of the first."""

SHOWN = MappingProxyType(
    {
        "task": "task",
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


class LookaheadStudy(Protocol):
    """Runs behind a look-ahead certificate, and what they are compared with."""

    @property
    def workers(self) -> int:
        """Number of runs at a time."""

    def runs(self) -> list[RunConfig]:
        """Settings of the runs."""

    def references(self, task: str) -> Mapping[str, float]:
        """Returns to compare a task's runs with, by column: `backup_return` and `log_return`."""


def reproduce(study: LookaheadStudy, json_output: bool) -> int:
    """Carry out a study and print a row for each run; returns the exit code."""
    configs = study.runs()
    outcomes = watched_sweep(configs, study.workers)
    failed = {outcome.folder for outcome in outcomes if outcome.problem}
    finished = [read(config.folder) for config in configs if config.folder not in failed]
    references = {task: study.references(task) for task in dict.fromkeys(run.config.task for run in finished)}
    rows = [{**row_of(run), **references[run.config.task]} for run in finished]
    if rows:
        print_rows(
            rows if json_output else [{short: row[key] for key, short in SHOWN.items()} for row in rows], json_output
        )
    return 1 if failed else 0


def row_of(run: Run) -> dict[str, Any]:
    """Run as a row of the table."""
    summary, last = run.summary, run.metrics[-1]
    unshielded = audit(run.config.folder, AUDITED, FIRST_SEED, shielded=False)
    drills, missed = int(last.get("drills", 0)), int(last.get("drills_missed", 0))
    return {
        "task": run.config.task,
        "seed": run.config.seed,
        "episodes": summary.episodes,
        "violations": summary.violations,
        "violation_rate_at_most": exact_interval(summary.violations, max(summary.episodes, 1))[1],
        "stops": summary.stops,
        "after_stop_violations": 0 if summary.stops == 0 else None,
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


def controller_return(task: str, controller: Controller, episodes: int = AUDITED) -> float:
    """Mean return of a controller of observations (n, ...) on a task."""
    env, returns = gym.make(task), np.zeros(episodes)
    for k in range(episodes):
        observation: Array
        observation, _ = env.reset(seed=FIRST_SEED + k)
        over = False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(np.asarray(controller(observation[None]))[0])
            returns[k] += float(reward)
            over = terminated or truncated
    env.close()
    return float(returns.mean())
