"""`safexp train` and `safexp sweep`."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from safexp.commands.working_directory import import_from_working_directory
from safexp.runs.config import Options, RunConfig
from safexp.runs.folder import RunFolderError, read
from safexp.runs.interrupts import exit_code
from safexp.runs.tuned import preset as preset_settings
from safexp.runs.variations import SharedSettings, read_choices, variations

if TYPE_CHECKING:
    from safexp.runs.trackers import Service

TrackOption = Annotated[Literal["wandb", "mlflow"] | None, tyro.conf.arg(metavar="{wandb,mlflow}")]


PresetOption = Annotated[str | None, tyro.conf.arg(metavar="NAME")]


def with_preset(words: list[str]) -> dict[str, Callable[..., int]]:
    """`train` and `sweep`, with the settings of the preset that these words name, if any, as their defaults."""
    names = [word.partition("=")[2] or after for word, after in pairwise([*words, ""]) if word.startswith("--preset")]
    if not names:
        return {"train": train, "sweep": sweep}
    settings = preset_settings(names[-1])
    return {
        "train": partial(train, config=RunConfig(**settings)),
        "sweep": partial(sweep, config=SharedSettings(**settings)),
    }


def train(
    config: Annotated[RunConfig, tyro.conf.arg(name="")],
    preset: PresetOption = None,
    resume: bool = False,
    track: TrackOption = None,
    track_options: Options = MappingProxyType({}),
) -> int:
    """Train a policy on a task and write a run folder.

    Args:
        config: settings of the run.
        preset: tuned settings to start from, which other options override: `planar-robot-ppo`, or the path of a
            tuned.json that `safexp sweep --tune` wrote.
        resume: continue, from its last checkpoint, a run with the same settings that was interrupted or that finished
            with fewer steps.
        track: service that also receives the metrics; TensorBoard always does.
        track_options: arguments of `wandb.init`; for MLflow `tracking_uri`, `experiment` and `run_name`.
    """
    import_from_working_directory()
    from safexp.runs.run import run

    try:
        folder = run(config, progress_bar=True, resume=resume, track=tracker_service(track, track_options))
    except KeyboardInterrupt as reason:
        print(f"interrupted. {partial_run(config.folder)}", file=sys.stderr)
        return exit_code(reason)
    print(f"run folder: {folder}")
    return 0


def sweep(
    config: Annotated[SharedSettings, tyro.conf.arg(name="")],
    preset: PresetOption = None,
    vary: Options = MappingProxyType({}),
    configs: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    tune: Options = MappingProxyType({}),
    trials: int = 20,
    study: Annotated[str | None, tyro.conf.arg(metavar="URL")] = None,
    seeds: int = 3,
    workers: int = 2,
    ray: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None,
    track: TrackOption = None,
    track_options: Options = MappingProxyType({}),
) -> int:
    """Train every combination of some settings with several seeds, and write one report.

    Finished runs in the output folder are kept, and interrupted ones continue from their last checkpoint.

    Args:
        config: settings that all runs share; --out is the parent folder of their run folders, --seed the first seed.
            They are checked after they are varied.
        preset: tuned settings to start from, as for `safexp train`.
        vary: lists of values by setting, such as {"method": ["mase", "bare"], "penalty": [1, 2]}: every combination is
            run, and what differs only in settings that a method ignores is run once.
        configs: JSON file with a list of settings to run instead, such as
            [{"method": "mase", "penalty": 2}, {"method": "bare", "name": "PPO alone"}].
        tune: settings to tune with Optuna instead, for the highest return without a violation: choices or ranges by
            setting, such as {"penalty": {"low": 0.1, "high": 10, "log": true}, "learner_options.n_steps": [64, 128]}.
        trials: number of trials of --tune.
        study: database in which Optuna keeps the study of --tune, such as sqlite:///study.db; without one the same
            command again repeats the same trials, from the runs that are there.
        seeds: number of seeds.
        workers: number of runs at a time.
        ray: address of a Ray cluster to run on; "local" starts one on this machine.
        track: service that also receives the metrics of every run.
        track_options: as for `safexp train`; {"group": "kilns"} groups a sweep in Weights & Biases.
    """
    import_from_working_directory()
    from safexp.report.html import write_report
    from safexp.report.terminal import print_summary
    from safexp.report.watch import watched_sweep

    if sum((bool(vary), configs is not None, bool(tune))) > 1:
        raise ValueError("--vary, --configs and --tune exclude each other: give one of them.")
    if tune:
        return tune_settings(config, tune, trials, seeds, workers, study)
    out = config.out or Path("runs/sweep")
    runs_wanted = variations(config, vary if configs is None else read_choices(configs), seeds, out)
    outcomes = watched_sweep(runs_wanted, workers, ray, tracker_service(track, track_options))
    problems = [f"{outcome.folder}: {outcome.problem}" for outcome in outcomes if outcome.problem]
    runs = [read(outcome.folder) for outcome in outcomes if not outcome.problem]
    if runs:
        write_report(out / "report.html", runs, problems)
        print_summary(runs)
        print(f"report: {out / 'report.html'}")
    return 1 if problems else 0


def tune_settings(config: RunConfig, space: Options, trials: int, seeds: int, workers: int, storage: str | None) -> int:
    """Tune settings, and print a table of the trials; the exit code is 1 if none is without a violation."""
    from safexp.report.terminal import print_rows
    from safexp.runs import tuning

    out = config.out or Path("runs/tuning")
    shared = RunConfig(**{entry.name: getattr(config, entry.name) for entry in dataclasses.fields(config)})
    found = tuning.tune(
        shared,
        space,
        trials=trials,
        seeds=seeds,
        workers=workers,
        study=tuning.new_study(config.seed, storage, out.name) if storage else None,
        out=out,
        tell=lambda tried: print(f"trial {tried.number}: return {tried.mean_return}", file=sys.stderr),
    )
    print_rows([{**one._asdict(), "settings": json.dumps(one.settings)} for one in found.trials], as_json=False)
    if found.best is None:
        print("no trial kept the constraint in all of its episodes.")
        return 1
    print(f"best without a violation: trial {found.best.number}, {json.dumps(found.best.settings)}")
    print(f"settings: {out / tuning.TUNED}")
    return 0


def tracker_service(name: TrackOption, options: Options) -> Service | None:
    """The tracking service of this name, or None for no name."""
    if name is None and options:
        raise ValueError(f"track_options={dict(options)} need --track wandb or --track mlflow.")
    from safexp.runs.trackers import Service

    return None if name is None else Service(name, dict(options))


def partial_run(folder: Path) -> str:
    """A sentence on what an interrupted run has written."""
    try:
        run = read(folder)
    except RunFolderError:
        return "Nothing was written."
    return (
        f"{run.path} holds {len(run.metrics)} finished epochs and {len(run.episodes)} finished episodes; the same "
        "command with --resume continues the run, and `safexp report` can read it."
    )
