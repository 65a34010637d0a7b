"""The paper's Table 3: SNO-MDP and MASE on random grid worlds, under fixed and under rising thresholds.

Every number is counted on the true altitude by `safexp.tasks.grid_world.violations`, which does not use confidence
intervals.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.table import Table

from safexp.core.arrays import Array
from safexp.report.terminal import print_study, track
from safexp.studies.finite.grid_explorer import PlannerSettings, Walk
from safexp.studies.finite.grid_mase import grid_mase
from safexp.studies.finite.sno_mdp import sno_mdp
from safexp.studies.grid_world_figure import write_figure
from safexp.tasks.grid_world import GridWorld, random_world, rising_thresholds, violations


@dataclass(frozen=True)
class GridWorldStudy:
    """Settings of the study: both methods in every world, under a fixed and under a rising threshold, for every β.

    The paper states neither the length of a run, nor how the threshold rises, nor β.

    Args:
        worlds: number of random worlds.
        seed: seed of the first world; the others follow. Seeds below 1000 are for tuning.
        size: cells along a side of a world.
        steps: steps of a run.
        threshold: smallest allowed safety of a move, which is minus its climb: −0.25 allows a climb of 0.25.
        rise: increase of the rising threshold over a run; SNO-MDP keeps using its initial value.
        betas: half-widths of the confidence interval of a move's safety, in standard deviations.
    """

    worlds: int = 100
    seed: int = 1000
    size: int = 20
    steps: int = 200
    threshold: float = -0.25
    rise: float = 0.05
    betas: tuple[float, ...] = (2.0, 3.0, 4.0, 5.0)
    planner: PlannerSettings = field(default_factory=PlannerSettings)

    def __post_init__(self) -> None:
        if self.worlds < 1 or self.steps < 1 or not self.betas:
            raise ValueError(
                f"got {self.worlds} worlds, {self.steps} steps and {len(self.betas)} betas; give at least one of each"
            )


@dataclass(frozen=True)
class GridWorldRow:
    """Results of one method under one kind of threshold and one β, over all worlds.

    `ratio` is its reward over SNO-MDP's, mean ± deviation; `ratio_ended` the same if the first violation ends a run;
    `violated` counts worlds with at least one violation; `unsafe_certified` counts pairs that were ever certified
    although unsafe, or are certified at the end although unsafe by then; `same_path` counts worlds where the path
    equals SNO-MDP's.
    """

    thresholds: str
    beta: float
    method: str
    ratio: float
    ratio_deviation: float
    ratio_ended: float
    ratio_ended_deviation: float
    violated: int
    unsafe_certified: int
    same_path: int


@dataclass(frozen=True)
class GridWorldTable:
    """All rows, the settings of the study, and its processor time."""

    study: GridWorldStudy
    rows: tuple[GridWorldRow, ...]
    cpu_seconds: float


PAPER = {
    "SNO-MDP": ("1.0 ± 0.0", "0", "1.0 ± 0.0", "", "87"),
    "MASE": ("1.0 ± 0.0", "0", "2.4 ± 1.0", "", "0"),
}


@dataclass(frozen=True, eq=False)
class _Outcome:
    run: Walk
    reward: float
    reward_until_violation: float
    violated: bool
    unsafe_certified: int


def grid_world_table(study: GridWorldStudy, progress: Callable[[int], None] | None = None) -> GridWorldTable:
    """Run the study; `progress` is called with the number of finished worlds."""
    began = time.process_time()
    outcomes: dict[tuple[str, float, str], list[_Outcome]] = {}
    for done in range(study.worlds):
        world = random_world(np.random.default_rng(study.seed + done), study.size, threshold=study.threshold)
        for beta in study.betas:
            for thresholds, rise in (("time-invariant", 0.0), ("time-variant", study.rise)):
                limits = rising_thresholds(study.threshold, rise, study.steps)
                # SNO-MDP is given only the first threshold, so one run serves both; each is judged by its own
                # limits.
                if rise == 0.0:
                    blind = sno_mdp(world, steps=study.steps, beta=beta, settings=study.planner)
                seeing = grid_mase(world, iter(world.cost(limits)), beta=beta, settings=study.planner)
                for method, run in (("SNO-MDP", blind), ("MASE", seeing)):
                    outcomes.setdefault((thresholds, beta, method), []).append(_judge(world, run, limits))
        if progress:
            progress(done + 1)
    rows = tuple(
        _row(
            thresholds,
            beta,
            method,
            outcomes[thresholds, beta, method],
            outcomes[thresholds, beta, "SNO-MDP"],
        )
        for thresholds, beta, method in outcomes
    )
    return GridWorldTable(study, rows, time.process_time() - began)


def _judge(world: GridWorld, run: Walk, limits: Array) -> _Outcome:
    unsafe = violations(world.altitude, run.path, limits)
    end = int(np.argmax(unsafe)) + 1 if unsafe.any() else len(run.rewards)
    drop = world.altitude.ravel()[:, None] - world.altitude.ravel()[world.next_state]
    unsafe_pairs = (run.ever_certified & (drop < limits[0])) | (run.certified & (drop < limits[len(run.rewards) - 1]))
    return _Outcome(
        run=run,
        reward=float(run.rewards.sum()),
        reward_until_violation=float(run.rewards[:end].sum()),
        violated=bool(unsafe.any()),
        unsafe_certified=int(np.count_nonzero(unsafe_pairs)),
    )


def _row(thresholds: str, beta: float, method: str, own: list[_Outcome], base: list[_Outcome]) -> GridWorldRow:
    ratio = np.array([a.reward / b.reward for a, b in zip(own, base, strict=True)])
    ended = np.array([a.reward_until_violation / b.reward_until_violation for a, b in zip(own, base, strict=True)])
    return GridWorldRow(
        thresholds=thresholds,
        beta=beta,
        method=method,
        ratio=float(ratio.mean()),
        ratio_deviation=float(ratio.std()),
        ratio_ended=float(ended.mean()),
        ratio_ended_deviation=float(ended.std()),
        violated=sum(outcome.violated for outcome in own),
        unsafe_certified=sum(outcome.unsafe_certified for outcome in own),
        same_path=sum(np.array_equal(a.run.path, b.run.path) for a, b in zip(own, base, strict=True)),
    )


def rich_table(table: GridWorldTable) -> Table:
    """Reward relative to SNO-MDP's and worlds with a violation, the paper's numbers under those of β = 4."""
    study = table.study
    rows = {(row.thresholds, row.beta, row.method): row for row in table.rows}
    shown = Table(
        title=f"Grid world: {study.worlds} worlds from seed {study.seed}, {table.cpu_seconds:.0f} s of CPU\n"
        "(* the first violation ends a run)",
        caption="\n".join(_remark(rows["time-invariant", beta, "MASE"], study.worlds) for beta in study.betas),
    )
    for column in ("β", "method", "fixed:\nreward", "\nviolated", "rising:\nreward*", "\nreward", "\nviolated"):
        shown.add_column(column, no_wrap=True)
    for beta in study.betas:
        for method, paper in PAPER.items():
            fixed, rising = (rows[kind, beta, method] for kind in ("time-invariant", "time-variant"))
            shown.add_row(
                f"{beta:g}",
                method,
                _plus_minus(fixed.ratio_ended, fixed.ratio_ended_deviation),
                str(fixed.violated),
                _plus_minus(rising.ratio_ended, rising.ratio_ended_deviation),
                _plus_minus(rising.ratio, rising.ratio_deviation),
                str(rising.violated),
            )
            if beta == 4.0:
                shown.add_row("", "  paper", *paper, style="dim")
        shown.add_section()
    return shown


def _remark(row: GridWorldRow, worlds: int) -> str:
    return (
        f"β = {row.beta:g}, fixed: same path in {row.same_path} of {worlds} worlds, "
        f"{row.unsafe_certified} unsafe pairs ever certified"
    )


def _plus_minus(mean: float, deviation: float) -> str:
    return f"{mean:.2f} ± {deviation:.2f}"


def figure_of_first_world(study: GridWorldStudy, path: Path, *, beta: float = 4.0) -> None:
    """Run both methods on the first world under rising thresholds and draw their paths."""
    world = random_world(np.random.default_rng(study.seed), study.size, threshold=study.threshold)
    limits = rising_thresholds(study.threshold, study.rise, study.steps)
    blind = sno_mdp(world, steps=study.steps, beta=beta, settings=study.planner)
    seeing = grid_mase(world, iter(world.cost(limits)), beta=beta, settings=study.planner)
    write_figure(world, limits, blind, seeing, path)


def main(
    study: Annotated[GridWorldStudy, tyro.conf.arg(name="")],
    *,
    json_output: Annotated[bool, tyro.conf.arg(name="json")] = False,
    figure: Path = Path("runs/grid-world.png"),
) -> int:
    """Reproduce the paper's Table 3: print ours beside it (or JSON) and draw the first world.

    Args:
        study: settings of the study.
        json_output: print JSON instead of a table.
        figure: path of the figure, .png or another format of matplotlib: the first world and both paths.
    """
    with track("worlds", study.worlds) as advance:
        table = grid_world_table(study, lambda world: advance())
    figure_of_first_world(study, figure)
    print_study(asdict(table), rich_table(table), json_output, figure)
    return 0
