"""`safexp train` and `safexp sweep`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from safexp.commands.working_directory import import_from_working_directory
from safexp.runs.config import Options, RunConfig
from safexp.runs.folder import RunFolderError, read
from safexp.runs.interrupts import exit_code
from safexp.runs.variations import SharedSettings, read_choices, variations

if TYPE_CHECKING:
    from safexp.runs.trackers import Service

TrackOption = Annotated[Literal["wandb", "mlflow"] | None, tyro.conf.arg(metavar="{wandb,mlflow}")]


def train(
    config: Annotated[RunConfig, tyro.conf.arg(name="")],
    resume: bool = False,
    track: TrackOption = None,
    track_options: Options = MappingProxyType({}),
) -> int:
    """Train a policy on a task and write a run folder.

    Args:
        config: settings of the run.
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
    vary: Options = MappingProxyType({}),
    configs: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
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
        vary: lists of values by setting, such as {"method": ["mase", "bare"], "penalty": [1, 2]}: every combination is
            run, and what differs only in settings that a method ignores is run once.
        configs: JSON file with a list of settings to run instead, such as
            [{"method": "mase", "penalty": 2}, {"method": "bare", "name": "PPO alone"}].
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

    if configs is not None and vary:
        raise ValueError(f"--vary {dict(vary)} and --configs {configs}: give one of them.")
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
