"""The paper's comparison on the static Goal tasks: MASE beside learners that do not keep the constraint in training.

Violations, stops and costs are counted by the recorder on the true costs, for every method alike.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from safexp.episodes import Episode
from safexp.report.terminal import print_rows
from safexp.report.watch import watched_sweep
from safexp.studies import folder as run_folder
from safexp.studies.config import RunConfig
from safexp.studies.folder import Run
from safexp.studies.plugins import find, is_own
from safexp.studies.stats import mean_and_deviation, upper_bound

EPOCH_STEPS = 10_000
NUM_ENVS = 50
LAST = 1000
"""How many of a run's last episodes count as its final performance."""

Scale = Literal["small", "medium", "paper"]
SCALES: Mapping[Scale, tuple[int, int]] = MappingProxyType({"small": (6, 1), "medium": (100, 3), "paper": (500, 5)})
"""Epochs and seeds."""

TASKS = MappingProxyType({"point": "safexp/PointGoalStatic-v0", "car": "safexp/CarGoalStatic-v0"})

MASE: Mapping[str, Any] = MappingProxyType(
    {"method": "mase", "learner": "TRPO", "penalty": 2.0, "learner_options": {"target_kl": 0.02}}
)
"""MASE as we recommend it."""

ENTRIES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "trpo": {"method": "trpo"},
        "trpo-lagrangian": {"method": "trpo-lagrangian"},
        "cpo": {"method": "cpo"},
        "saute": {"method": "saute", "learner": "TRPO"},
        "early-termination": {"method": "early-termination", "learner": "TRPO"},
        "mase-published": {
            "method": "mase",
            "learner": "TRPO",
            "quantifier": "deep-gp",
            "discount": 0.99,
            "penalty": 1.0,
        },
        "mase": MASE,
        "mase-fallback": {**MASE, "stop": "fallback", "stop_options": {"penalty": 0.2}},
    }
)
"""What is compared, with MASE as published, as we recommend it, and with a fallback; all else is Table 1."""

FIRST, LAST_OF_ALL = ("mase", "trpo"), ("mase-published",)
"""Which entries are run before the others, and which after them."""


@dataclass(frozen=True)
class SafetyGymStudy:
    """What to run: every method on every task with every seed, for so many epochs of 10,000 steps.

    All methods have the same budget, and learners the paper's Table 1 settings but for what `ENTRIES` says.

    Args:
        tasks: which robots: point, car, or any Gymnasium id (`package:Name-v0` for your own).
        methods: what to compare: entries of ours, or `package:NAME`, a mapping of your own like them. MASE and TRPO
            are run first, then the others, and `mase-published` last.
        scale: `small` (minutes), `medium` (hours) or `paper`: 6, 100 or 500 epochs, 1, 3 or 5 seeds.
        seeds: how many, from `first_seed` on, in place of the scale's.
        first_seed: seeds below 1000 are for tuning.
        epochs: of 10,000 steps, in place of the scale's; the paper's Figure 3 has 1,000.
        budget: on the cost of an episode.
        evaluation: episodes without exploration after training.
        workers: how many runs at a time.
        ray: address of a Ray cluster to run them on; "local" starts one here.
        resume: keep what is finished in the folder, and go on with what was interrupted or has fewer epochs.
        out: the folder of the run folders, of the report and of its figures.
    """

    tasks: tuple[str, ...] = ("point", "car")
    methods: tuple[str, ...] = tuple(ENTRIES)
    scale: Scale = "paper"
    seeds: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    first_seed: int = 1000
    epochs: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    budget: float = 20.0
    evaluation: int = 100
    workers: int = 2
    ray: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    resume: bool = True
    out: Path = Path("runs/safety-gym")

    def __post_init__(self) -> None:
        for name in ("tasks", "methods"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty: give at least one.")
        for name in ("seeds", "epochs", "evaluation", "workers"):
            if (given := getattr(self, name)) is not None and given < 1:
                raise ValueError(f"{name}={given} must be at least 1.")

    def config(self, task: str, entry: str, seed: int) -> RunConfig:
        """One run of the study."""
        own = dict(entry_named(entry))
        return RunConfig(
            task=TASKS.get(task, task),
            limit=self.budget,
            num_envs=NUM_ENVS,
            steps=(self.epochs or SCALES[self.scale][0]) * EPOCH_STEPS,
            seed=seed,
            out=self.out / f"{task}-{entry}-{seed}".replace("/", "-").replace(":", "-"),
            learner_options={"n_steps": EPOCH_STEPS // NUM_ENVS, **own.pop("learner_options", {})},
            **own,
        )

    def configs(self) -> dict[tuple[str, str], list[RunConfig]]:
        """All runs, by task and method."""
        seeds = range(self.first_seed, self.first_seed + (self.seeds or SCALES[self.scale][1]))
        return {
            (task, method): [self.config(task, method, seed) for seed in seeds]
            for task in self.tasks
            for method in self.methods
        }

    def in_order(self) -> list[RunConfig]:
        """All runs in the order in which they are begun: method by method, MASE and TRPO first, the slowest last."""

        def rank(method: str) -> int:
            return FIRST.index(method) - len(FIRST) if method in FIRST else int(method in LAST_OF_ALL)

        groups = self.configs()
        methods = sorted(self.methods, key=rank)
        return [config for method in methods for task in self.tasks for config in groups[task, method]]


def entry_named(name: str) -> Mapping[str, Any]:
    """What a name means in the comparison: an entry of ours, or the user's own mapping of settings."""
    if name in ENTRIES:
        return ENTRIES[name]
    if not is_own(name):
        raise ValueError(f"methods: {name!r} is not one of {', '.join(ENTRIES)}, nor one of your own, package:name.")
    found = find(name, "methods")
    fixed = ("task", "limit", "num_envs", "steps", "seed", "out")
    if not isinstance(found, Mapping) or any(setting in fixed for setting in found):
        raise ValueError(
            f'methods: {name!r} is {found!r}; expected a mapping such as {{"method": "mase", "penalty": 2.0}} without '
            f"what the study sets itself: {', '.join(fixed)}."
        )
    return found


@dataclass(frozen=True)
class Row:
    """A method on a task, over all its seeds.

    `violated` of all training episodes broke the budget, and `stops` were stopped; `last_hundred` is the share of each
    seed's last 100 that was, as in the paper's Table 2. All else is about the last 1,000 of each seed: the mean
    return and its deviation over seeds, mean and `max_cost`, the share that violated, and the share that was stopped
    with the upper end of its one-sided 95% interval. `late_stops` are stops per epoch in the last ten epochs, and
    `deterministic` is the return without exploration.
    """

    task: str
    method: str
    seeds: int
    violated: int
    stops: int
    episodes: int
    returns: float
    deviation: float
    deterministic: float
    cost: float
    max_cost: float
    violating: float
    stopped: float
    at_most: float
    late_stops: float
    last_hundred: float


def summarise(task: str, method: str, folders: Sequence[Path], evaluation: int) -> Row:
    """The row of these runs."""
    from safexp.studies.evaluate import evaluate

    runs = [run_folder.read(folder) for folder in folders]
    last = [run.episodes[-LAST:] for run in runs]
    pooled = [episode for episodes in last for episode in episodes]
    returns, deviation = mean_and_deviation([_mean(episodes, "true_return") for episodes in last])
    late = [run.metrics[-1]["stops"] - (run.metrics[-11]["stops"] if len(run.metrics) > 10 else 0) for run in runs]
    stops = sum(episode.stopped for episode in pooled)
    return Row(
        task=task,
        method=method,
        seeds=len(runs),
        violated=sum(int(run.metrics[-1]["violations"]) for run in runs),
        stops=sum(int(run.metrics[-1]["stops"]) for run in runs),
        episodes=sum(len(run.episodes) for run in runs),
        returns=float(returns),
        deviation=float(deviation),
        deterministic=float(np.mean([_mean(evaluate(folder, evaluation), "true_return") for folder in folders])),
        cost=_mean(pooled, "cost"),
        max_cost=max(episode.cost for episode in pooled),
        violating=_mean(pooled, "violated"),
        stopped=stops / len(pooled),
        at_most=upper_bound(stops, len(pooled)),
        late_stops=float(np.mean(late)) / min(10, len(runs[0].metrics)),
        last_hundred=_mean([episode for run in runs for episode in run.episodes[-100:]], "stopped"),
    )


def main(
    study: Annotated[SafetyGymStudy, tyro.conf.arg(name="")],
    *,
    json_output: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> int:
    """Reproduce the paper's comparison on PointGoal and CarGoal: train all methods, print a table, write a report.

    The folder then holds report.html, comparison.csv (this table), and figures/ in the paper's style: curves.* is its
    Figures 2 and 4, converged.* its Figure 3.
    """
    groups = study.configs()
    configs = study.in_order()
    if not study.resume:
        for config in configs:
            run_folder.refuse_existing(config.folder)
    outcomes = watched_sweep(configs, study.workers, study.ray)
    failed = {outcome.folder: outcome.problem for outcome in outcomes if outcome.problem}
    rows: list[dict[str, Any]] = []
    for (task, method), group in groups.items():
        folders = [config.folder for config in group if config.folder not in failed]
        if folders:
            row = asdict(summarise(task, method, folders, study.evaluation))
            rows.append({name: _rounded(value) for name, value in row.items()})
    if rows:
        runs = [run_folder.read(config.folder) for config in configs if config.folder not in failed]
        write_all(study.out, rows, runs, [f"{folder}: {problem}" for folder, problem in failed.items()])
        print_rows(rows, json_output)
        print(f"report: {study.out / 'report.html'}", file=sys.stderr)
    return 1 if failed else 0


def write_all(out: Path, rows: Sequence[Mapping[str, Any]], runs: Sequence[Run], problems: Sequence[str]) -> None:
    """Write everything that a study's runs come to."""
    from safexp.report.figures import write_figures
    from safexp.report.html import write_report
    from safexp.report.tables import write_csv, write_tables

    write_csv(out / "comparison.csv", rows)
    write_figures(out / "figures", runs)
    write_tables(out / "figures", runs)
    write_report(out / "report.html", runs, problems)


def _mean(episodes: Sequence[Episode], name: str) -> float:
    return float(np.mean([getattr(episode, name) for episode in episodes]))


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value
