"""Runs of the paper's comparison, and their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import tyro

from safexp.runs.config import RunConfig
from safexp.runs.plugins import find, is_own

EPOCH_STEPS = 10_000
NUM_ENVS = 50
FIGURE_3 = 1000
"""Epochs of the paper's Figure 3."""

Scale = Literal["small", "medium", "paper"]
SCALES: Mapping[Scale, tuple[int, int]] = MappingProxyType({"small": (6, 1), "medium": (100, 3), "paper": (500, 5)})
"""Epochs and seeds."""

PENALTY = 1.0
"""The paper's penalty of a stop."""

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
        "mase-fallback": {**MASE, "backup": "fallback", "backup_options": {"penalty": 0.2}},
    }
)
"""What is compared, with MASE as published, as we recommend it, and with a fallback; all else is Table 1."""

FIRST, LAST_OF_ALL = ("mase", "trpo"), ("mase-published",)
"""Which entries are run before the others, and which after them."""


@dataclass(frozen=True)
class SafetyGymStudy:
    """Runs of every method on every task with every seed, in epochs of 10,000 steps.

    All methods have the same budget, and learners the paper's Table 1 settings but for what `ENTRIES` says.

    Args:
        tasks: which robots: point, car, or any Gymnasium id (`package:Name-v0` for your own).
        methods: what to compare: entries of ours, or `package:NAME`, a mapping of your own like them. MASE and TRPO
            are run first, then the others, and `mase-published` last.
        scale: `small` (minutes), `medium` (hours) or `paper` (days): 6, 100 or 500 epochs, 1, 3 or 5 seeds.
        seeds: how many, from `first_seed` on, in place of the scale's.
        first_seed: seeds below 1000 are for tuning.
        epochs: of 10,000 steps, in place of the scale's; the paper's Figure 3 has 1,000.
        budget: on the cost of an episode.
        evaluation: episodes without exploration after training.
        workers: how many runs at a time.
        ray: address of a Ray cluster to run them on; "local" starts one here.
        resume: keep what is finished in the folder, and go on with what was interrupted or has fewer epochs.
        source: train nothing, and draw from the results in this folder (`safexp reproduce safety-gym-results`).
        fill: Markdown files whose marked tables are written anew.
        out: the folder of the run folders, of tables, figures and the report.
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
    source: Annotated[Path | None, tyro.conf.arg(name="from", metavar="PATH")] = None
    fill: tuple[Path, ...] = ()
    out: Path = Path("runs/safety-gym")

    def __post_init__(self) -> None:
        for name in ("tasks", "methods"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty: give at least one.")
        for name in ("seeds", "epochs", "evaluation", "workers"):
            if (given := getattr(self, name)) is not None and given < 1:
                raise ValueError(f"{name}={given} must be at least 1.")

    @property
    def length(self) -> int:
        """Number of epochs of a run."""
        return self.epochs or SCALES[self.scale][0]

    @property
    def all_seeds(self) -> range:
        """The seeds of every method on every task."""
        return range(self.first_seed, self.first_seed + (self.seeds or SCALES[self.scale][1]))

    def config(self, task: str, entry: str, seed: int) -> RunConfig:
        """One run of the study."""
        own = {"penalty": PENALTY, **entry_named(entry)}
        return RunConfig(
            task=TASKS.get(task, task),
            limit=self.budget,
            num_envs=NUM_ENVS,
            steps=self.length * EPOCH_STEPS,
            seed=seed,
            out=self.out / run_name(task, entry, seed),
            learner_options={"n_steps": EPOCH_STEPS // NUM_ENVS, **own.pop("learner_options", {})},
            **own,
        )

    def configs(self) -> dict[tuple[str, str], list[RunConfig]]:
        """All runs, by task and method."""
        return {
            (task, method): [self.config(task, method, seed) for seed in self.all_seeds]
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


def run_name(task: str, entry: str, seed: int) -> str:
    """Name of a run of the study."""
    return f"{file_name(task)}-{file_name(entry)}-{seed}"


def file_name(text: str) -> str:
    """The name of a task or an entry in that of a file."""
    return text.replace("/", "-").replace(":", "-")


def entry_named(name: str) -> Mapping[str, Any]:
    """Settings of an entry of the comparison: a built-in one, or a user-defined mapping of settings."""
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
