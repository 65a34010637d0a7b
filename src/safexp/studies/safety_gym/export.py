"""Export of run folders to the results that a repository keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from safexp.runs import folder as run_folder
from safexp.runs.agents import SUFFIX, agent_name, described, write_agent
from safexp.runs.commit import UNKNOWN
from safexp.runs.folder import Run
from safexp.studies.safety_gym.results import (
    SUMMARY,
    Result,
    horizons,
    metrics_text,
    read_results,
    summary_line,
    write_results,
)
from safexp.studies.safety_gym.study import ENTRIES, TASKS, SafetyGymStudy, file_name, run_name

Tell = Callable[[str], None]


def export(
    folders: Sequence[Path],
    into: Path,
    *,
    commit: str | None,
    evaluation: int,
    tell: Tell,
    agents: Path | None = None,
) -> int:
    """Export the finished runs of these folders; returns the number of runs that are new or longer than before.

    Args:
        folders: run folders of the study.
        into: the folder of the results, which keeps all others that it has.
        commit: which made those that do not know it.
        evaluation: episodes without exploration.
        tell: is told what is done with every run.
        agents: the folder of agent files, one for every task and method with a shield: that of the first seed.

    Raises:
        ValueError: where a folder is not one of the study's, or nobody says which commit made it.
    """
    kept = read_results(into) if (into / SUMMARY).exists() else {}
    changed = 0
    for folder in run_folder.folders_of(folders):
        if (status := run_folder.status(folder)) != "finished":
            tell(f"{folder.name}: {status}, left out")
            continue
        run = run_folder.read(folder)
        task, method = identify(run)
        before = kept.get(run_name(task, method, run.config.seed))
        there = before is not None and metrics_text(run.metrics) == metrics_text(before.metrics)
        if agents is not None and run.config.method == "mase":
            export_agent(run, agents / f"{agent_name(run.config.task, method)}{SUFFIX}", longer=not there)
        if there:
            tell(f"{folder.name}: there already")
            continue
        result = collect(run, task, method, evaluation=evaluation, commit=commit_of(run, commit), before=before)
        write_results(into, [result])
        changed += 1
        tell(f"{folder.name}: {len(run.metrics)} epochs")
    return changed


def export_agent(run: Run, file: Path, longer: bool) -> None:
    """Write a run's agent, unless the file is there already, from an earlier seed or from this run if no `longer`."""
    if file.exists():
        seed = described(file)[1].seed
        if seed < run.config.seed or (seed == run.config.seed and not longer):
            return
    write_agent(run.path, file)


def collect(run: Run, task: str, method: str, *, evaluation: int, commit: str, before: Result | None = None) -> Result:
    """Results of a finished run; if it extends the run of a result `before`, also the lines of that result."""
    from safexp.runs.evaluate import evaluate

    epochs = len(run.metrics)
    extended = before is not None and extends(run.metrics, before.metrics)
    lines = dict(before.lines) if before is not None and extended else {}
    for horizon in horizons(epochs):
        if horizon not in lines:
            played = evaluate(run.path, evaluation) if horizon == epochs else []
            deterministic = float(np.mean([episode.true_return for episode in played])) if played else None
            lines[horizon] = summary_line(run, task, method, epochs=horizon, commit=commit, deterministic=deterministic)
    return Result(lines, run.metrics)


def extends(longer: Sequence[Mapping[str, Any]], shorter: Sequence[Mapping[str, Any]]) -> bool:
    """Whether metrics begin with others."""
    return metrics_text(longer[: len(shorter)]) == metrics_text(shorter)


def identify(run: Run) -> tuple[str, str]:
    """The task and the method of a run in the study, from its folder's name; its settings must be that method's.

    Raises:
        ValueError: where the folder is not named as the study does, or the settings are others.
    """
    config = run.config
    task = next((name for name, known in TASKS.items() if known == config.task), config.task)
    name = run.path.resolve().name
    method = name.removeprefix(f"{file_name(task)}-").removesuffix(f"-{config.seed}")
    if run_name(task, method, config.seed) != name:
        raise ValueError(
            f"{run.path} is not named as the study names its runs, such as {run_name(task, 'mase', config.seed)}: "
            "export folders that `safexp reproduce safety-gym` wrote."
        )
    if method in ENTRIES and config.limit is not None:
        study = SafetyGymStudy(budget=config.limit)
        expected, found = study.config(task, method, config.seed).settled().to_json(), config.to_json()
        differing = [setting for setting in expected if setting != "steps" and expected[setting] != found[setting]]
        if differing:
            differs = ", ".join(f"{name} {found[name]!r}, not {expected[name]!r}" for name in differing)
            raise ValueError(f"{run.path} is called {method!r} and has other settings than the study's ({differs}).")
    return task, method


def commit_of(run: Run, given: str | None) -> str:
    """Commits that made a run: those that it recorded, and the given one where it recorded none.

    Raises:
        ValueError: where neither says.
    """
    words = run.versions.get(run_folder.COMMIT, UNKNOWN).split()
    found = " ".join(given if given and word == UNKNOWN else word for word in words)
    if UNKNOWN in found.split():
        raise ValueError(f"{run.path} does not say which commit made it: give --commit.")
    return found
