"""Measurement of Theorems 5.6 and 5.7: violations, regret and emergency stops of GLM-MASE on random linear CMDPs.

Violations are counted on the true costs of the executed actions and regret is exact, by dynamic programming; of
GLM-MASE only its policy and its steps are used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.table import Table

from safexp.core.arrays import Array
from safexp.report.terminal import print_study, track
from safexp.studies.finite.glm_mase import GLMMASE, GLMMASESettings, theorem_level
from safexp.studies.finite.linear_mdp import LinearCMDP, random_linear_cmdp
from safexp.studies.glm_regret_figure import write_figure

VARIANTS = 3
"""Number of variants: the tight width, the same with forced exploration, and the paper's width."""


@dataclass(frozen=True)
class GLMStudy:
    """Settings of the study: every variant runs on every random problem.

    Args:
        episodes: episodes on each problem, at least 40.
        seeds: number of problems.
        seed: seed of the first problem; the others follow. Seeds below 1000 are for tuning.
        states: states of a problem.
        actions: actions in every state.
        dimension: d, the number of features of a state and an action.
        horizon: H, the steps of an episode.
        margin: ζ: no cost lies closer than this below its threshold; forced exploration seeks actions that are safe by
            it.
    """

    episodes: int = 4000
    seeds: int = 6
    seed: int = 4000
    states: int = 30
    actions: int = 6
    dimension: int = 5
    horizon: int = 8
    margin: float = 0.1
    settings: GLMMASESettings = field(default_factory=GLMMASESettings)

    def __post_init__(self) -> None:
        if self.episodes < 40 or self.seeds < 1:
            raise ValueError(
                f"got {self.episodes} episodes and {self.seeds} seeds; at least 40 episodes are needed to fit an "
                "exponent, and one seed"
            )


@dataclass(frozen=True)
class Curve:
    """Curves (episodes,) of one seed of one variant: regret, stops, and λ_min of Λ; λ_min must reach `level`."""

    seed: int
    optimal_value: float
    violations: int
    stops: int
    stops_last_tenth: int
    exponent: float
    relative_regret: float
    level: float
    t_star: int | None
    predicted_t_star: int | None
    milliseconds: float
    regret: tuple[float, ...]
    smallest_eigenvalue: tuple[float, ...]


@dataclass(frozen=True)
class Variant:
    """Variant of GLM-MASE over all seeds; without curves if nothing could be certified at the start.

    `exponent` is fitted to the seeds' mean regret; `visits_needed` is how often each feature direction must be seen
    until Γ ≤ ζ/2 everywhere.
    """

    name: str
    curves: tuple[Curve, ...]
    exponent: float | None
    visits_needed: float


@dataclass(frozen=True)
class GLMTable:
    """All variants, and the settings of the study."""

    study: GLMStudy
    variants: tuple[Variant, ...]


def glm_table(study: GLMStudy, progress: Callable[[str, int], None] | None = None) -> GLMTable:
    """Run the study; `progress` is called with each finished variant and seed."""
    ways = {
        "tight": study.settings,
        "tight, forced": replace(study.settings, forced_exploration=True, margin=study.margin),
        # The paper's bound holds for one step, so a run of T episodes must divide δ among T·H of them.
        "paper's C_g": replace(
            study.settings,
            width="paper",
            regulariser=None,
            delta=study.settings.delta / (study.episodes * study.horizon),
        ),
    }
    variants = []
    for name, settings in ways.items():
        curves: list[Curve] = []
        for seed in range(study.seed, study.seed + study.seeds):
            problem = random_linear_cmdp(
                np.random.default_rng([seed, 0]),
                states=study.states,
                actions=study.actions,
                dimension=study.dimension,
                horizon=study.horizon,
                margin=study.margin,
            )
            learner = GLMMASE(problem, settings, np.random.default_rng([seed, 1]))
            if learner.can_start():
                curves.append(_curve(seed, problem, learner, study.episodes))
            if progress:
                progress(name, seed)
        visits = theorem_level(learner.quantifier, study.margin)
        mean = np.mean([curve.regret for curve in curves], axis=0) if curves else None
        variants.append(Variant(name, tuple(curves), None if mean is None else regret_exponent(mean), visits))
    return GLMTable(study, tuple(variants))


def _curve(seed: int, problem: LinearCMDP, learner: GLMMASE, episodes: int) -> Curve:
    regret, smallest, level = np.empty(episodes), np.empty(episodes), np.empty(episodes)
    stopped = np.zeros(episodes, dtype=bool)
    violated, seconds = 0, 0.0
    for t in range(episodes):
        began = time.process_time()
        episode = learner.episode()
        seconds += time.process_time() - began
        costs = problem.cost[episode.states[:-1], episode.actions]
        violated += int(np.count_nonzero(costs > problem.thresholds[: len(costs)]))
        regret[t] = problem.optimal_value - problem.policy_value(episode.policy)
        smallest[t] = np.linalg.eigvalsh(learner.quantifier.gram)[0]
        level[t] = theorem_level(learner.quantifier, problem.margin)
        stopped[t] = episode.stopped
    reached = np.flatnonzero(smallest >= level)
    last = episodes - episodes // 10
    return Curve(
        seed=seed,
        optimal_value=problem.optimal_value,
        violations=violated,
        stops=int(stopped.sum()),
        stops_last_tenth=int(stopped[last:].sum()),
        exponent=regret_exponent(regret),
        relative_regret=float(regret[last:].mean() / problem.optimal_value),
        level=float(level[-1]),
        t_star=int(reached[0]) + 1 if len(reached) else None,
        predicted_t_star=predicted_t_star(problem, learner, float(level[-1])),
        milliseconds=1e3 * seconds / episodes,
        regret=tuple(regret.tolist()),
        smallest_eigenvalue=tuple(smallest.tolist()),
    )


def regret_exponent(regret: Array) -> float:
    """Slope of log cumulative regret over log t, on the last three quarters; 0 if there is no regret at all."""
    total = np.cumsum(regret)
    late = np.arange(len(regret) // 4, len(regret))
    if total[-1] <= 0.0:
        return 0.0
    return float(np.polyfit(np.log(late + 1.0), np.log(total[late]), 1)[0])


def predicted_t_star(problem: LinearCMDP, learner: GLMMASE, level: float, limit: int = 10**7) -> int | None:
    """t* of Theorem 5.7 with C_1 = C_2 = 1: the smallest t with λ_min(Σ)tH − √(tHd) − √(tH ln 1/δ) ≥ (2C_g/ζ)².

    Σ is the second moment of the features that uniformly random certified actions would see in uniformly random states:
    the theorem draws them independently of what was learned, which no algorithm does.
    """
    phi = problem.features[problem.safe.all(axis=0)]
    smallest = float(np.linalg.eigvalsh(phi.T @ phi / len(phi))[0])
    visits = np.arange(1, limit // problem.horizon, dtype=np.float64) * problem.horizon
    slack = np.sqrt(visits * phi.shape[1]) + np.sqrt(visits * np.log(1.0 / learner.quantifier.delta))
    enough = np.flatnonzero(smallest * visits - slack >= level)
    return int(enough[0]) + 1 if len(enough) else None


def rich_table(table: GLMTable) -> Table:
    """One column per variant, each figure from its best seed to its worst; "late" is the last tenth of the episodes.

    The exponent is that of the seeds' mean regret, with each seed's own in parentheses.
    """
    study = table.study
    shown = Table(
        title=f"GLM-MASE: seeds {study.seed} to {study.seed + study.seeds - 1}, {study.episodes} episodes each",
        caption="\n".join(
            f"{variant.name} certifies nothing: each direction must be seen {variant.visits_needed:,.0f} times first"
            for variant in table.variants
            if not variant.curves
        ),
    )
    columns = [_column(variant) for variant in table.variants if variant.curves]
    for heading in ("", *(variant.name for variant in table.variants if variant.curves)):
        shown.add_column(heading, no_wrap=True)
    for name in columns[0] if columns else ():
        shown.add_row(name, *(column[name] for column in columns))
    return shown


def _column(variant: Variant) -> dict[str, str]:
    curves = variant.curves
    return {
        "violations": str(sum(curve.violations for curve in curves)),
        "emergency stops": _span([curve.stops for curve in curves], "d"),
        "late stops": _span([curve.stops_last_tenth for curve in curves], "d"),
        "regret exponent": f"{variant.exponent:.2f} ({_span([curve.exponent for curve in curves], '.2f')})",
        "late relative regret": _span([curve.relative_regret for curve in curves], ".3%"),
        "t*": _span([curve.t_star for curve in curves if curve.t_star is not None], "d"),
        "milliseconds an episode": _span([curve.milliseconds for curve in curves], ".2f"),
    }


def _span(values: list[int] | list[float], form: str) -> str:
    return f"{min(values):{form}} to {max(values):{form}}" if values else "never"


def main(
    study: Annotated[GLMStudy, tyro.conf.arg(name="")],
    *,
    json_output: Annotated[bool, tyro.conf.arg(name="json")] = False,
    figure: Path = Path("runs/glm-mase.png"),
) -> int:
    """Check GLM-MASE's theorems: print violations, regret and stops (or JSON, with the curves) and draw the regret.

    Args:
        study: settings of the study.
        json_output: print JSON, with the curves, instead of a table.
        figure: path of the figure, .png or another format of matplotlib: regret and smallest eigenvalue.
    """
    with track("runs of GLM-MASE", VARIANTS * study.seeds) as advance:
        table = glm_table(study, lambda variant, seed: advance())
    write_figure(table, figure)
    print_study(asdict(table), rich_table(table), json_output, figure)
    return 0
