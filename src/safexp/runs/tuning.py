"""Tuning of a run's settings with Optuna: the highest return among settings without a violation."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from safexp.core.extras import needed_for
from safexp.runs.config import RunConfig
from safexp.runs.folder import read, write_json
from safexp.runs.sweep import RunOutcome, sweep

if TYPE_CHECKING:
    import optuna

TUNED = "tuned.json"
"""File of the best settings in the folder of a study."""

VIOLATIONS, EPISODES, PROBLEM = "violations", "episodes", "problem"
"""Attributes of a trial in a study."""

Space = Mapping[str, Any]
"""Values to try by setting: a list of choices, or {"low": ..., "high": ..., "log": true}; `learner_options.gamma` is an
option of the learner."""


class Tried(NamedTuple):
    """One trial: its settings, mean return over seeds (None if a run failed), and violations of all its episodes."""

    number: int
    settings: dict[str, Any]
    mean_return: float | None
    violations: int
    episodes: int
    problem: str = ""


class Tuned(NamedTuple):
    """All trials, and the best one without a violation, if there is one."""

    trials: list[Tried]
    best: Tried | None


def tune(
    config: RunConfig,
    space: Space,
    *,
    trials: int = 20,
    seeds: int = 2,
    workers: int = 2,
    study: optuna.Study | None = None,
    out: Path = Path("runs/tuning"),
    tell: Callable[[Tried], None] = lambda tried: None,
) -> Tuned:
    """Search for the settings with the highest return, subject to zero violations in all of training.

    Run folders and the best settings are written to `out`. The same call again keeps finished runs and completes the
    rest.

    Args:
        config: settings that all runs share; its seed is the first of `seeds`, and that of Optuna's sampler.
        space: values to try by setting (`Space`).
        trials: number of trials.
        seeds: number of seeds of each trial; tune on other seeds than you report.
        workers: number of runs at a time.
        study: an Optuna study to continue, such as one with a database; by default a new one in memory.
        out: folder of all runs.
        tell: called with every finished trial.
    """
    if trials < 1 or seeds < 1:
        raise ValueError(f"trials={trials} and seeds={seeds} must be at least 1.")
    check_space(space)
    with needed_for("tuning"):
        import optuna
    out.mkdir(parents=True, exist_ok=True)
    with _quietly():
        study = study or new_study(config.seed)
        done = sum(trial.state.is_finished() for trial in study.get_trials(deepcopy=False))
        while done < trials:
            asked = [study.ask() for _ in range(min(max(workers // seeds, 1), trials - done))]
            for trial, tried in zip(asked, _run(asked, config, space, seeds, workers, out), strict=True):
                trial.set_constraint(VIOLATIONS, float(tried.violations))
                trial.set_user_attr(VIOLATIONS, tried.violations)
                trial.set_user_attr(EPISODES, tried.episodes)
                trial.set_user_attr(PROBLEM, tried.problem)
                failed = tried.mean_return is None
                study.tell(trial, tried.mean_return, optuna.trial.TrialState.FAIL if failed else None)
                tell(tried)
            done += len(asked)
        found = [_tried(trial) for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]
    safe = [one for one in found if one.mean_return is not None and one.violations == 0]
    best = max(safe, key=lambda one: one.mean_return or -math.inf, default=None)
    write_json(out / TUNED, _document(config, best, len(found), seeds))
    return Tuned(found, best)


def new_study(seed: int, storage: str | None = None, name: str = "safexp") -> optuna.Study:
    """A study that maximises the return subject to zero violations, in memory or in a database."""
    with needed_for("tuning"):
        import optuna
    sampler = optuna.samplers.TPESampler(seed=seed)
    with _quietly():
        return optuna.create_study(
            direction="maximize", sampler=sampler, storage=storage, study_name=name, load_if_exists=True
        )


def check_space(space: Space) -> None:
    """Raise `ValueError` if a setting cannot be tuned, or has no values to try."""
    known = {entry.name for entry in dataclasses.fields(RunConfig)} - {"seed", "out", "name"}
    if not space:
        raise ValueError('there is nothing to tune: give values to try, {"penalty": {"low": 0.1, "high": 10}}.')
    for name, values in space.items():
        if name.partition(".")[0] not in known:
            raise ValueError(f"{name!r} is not a setting of a run: use {', '.join(sorted(known))}.")
        is_range = isinstance(values, Mapping) and {"low", "high"} <= set(values) <= {"low", "high", "log", "step"}
        if not is_range and not (isinstance(values, Sequence) and not isinstance(values, str) and len(values)):
            raise ValueError(
                f"{name}={values!r} must be a list of choices, or a range such as "
                '{"low": 0.1, "high": 10, "log": true}.'
            )


def changed(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """Settings with changes; `learner_options.gamma` changes one entry."""
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        outer, _, inner = name.partition(".")
        old = changes.get(outer, getattr(config, outer))
        changes[outer] = {**old, inner: value} if inner else value
    return dataclasses.replace(config, **changes)


def _run(
    asked: Sequence[optuna.Trial], config: RunConfig, space: Space, seeds: int, workers: int, out: Path
) -> list[Tried]:
    """Train the runs of some trials."""
    chosen = [{name: _suggested(trial, name, values) for name, values in space.items()} for trial in asked]
    configs = [
        [
            dataclasses.replace(changed(config, settings), seed=seed, out=out / f"trial-{trial.number}-{seed}")
            for seed in range(config.seed, config.seed + seeds)
        ]
        for trial, settings in zip(asked, chosen, strict=True)
    ]
    outcomes = iter(sweep([one for group in configs for one in group], workers))
    return [
        _summary(trial.number, settings, [next(outcomes) for _ in group])
        for trial, settings, group in zip(asked, chosen, configs, strict=True)
    ]


def _summary(number: int, settings: dict[str, Any], outcomes: Sequence[RunOutcome]) -> Tried:
    """A trial from the outcomes of its runs; steps after a stop count too."""
    problem = next((outcome.problem for outcome in outcomes if outcome.problem), None)
    if problem:
        return Tried(number, settings, None, 0, 0, problem)
    each = [read(outcome.folder).summary for outcome in outcomes]
    violations = sum(one.violations + (one.after_stop_violations or 0) for one in each)
    episodes = sum(one.episodes for one in each)
    if any(one.final_return is None for one in each):
        return Tried(number, settings, None, violations, episodes, "a run finished no episode")
    return Tried(number, settings, float(np.mean([one.final_return for one in each])), violations, episodes)


def _suggested(trial: optuna.Trial, name: str, values: Any) -> Any:
    if not isinstance(values, Mapping):
        # Optuna's choices are numbers, texts, flags and None; others are given by their JSON.
        return json.loads(trial.suggest_categorical(name, [json.dumps(value) for value in values]))
    low, high, step = values["low"], values["high"], values.get("step")
    if isinstance(low, int) and isinstance(high, int):
        return trial.suggest_int(name, low, high, step=step or 1, log=bool(values.get("log")))
    return trial.suggest_float(name, low, high, step=step, log=bool(values.get("log")))


def _tried(trial: optuna.trial.FrozenTrial) -> Tried:
    settings = {name: json.loads(value) if isinstance(value, str) else value for name, value in trial.params.items()}
    about = trial.user_attrs
    return Tried(
        trial.number, settings, trial.value, about.get(VIOLATIONS, 0), about.get(EPISODES, 0), about.get(PROBLEM, "")
    )


def _document(config: RunConfig, best: Tried | None, trials: int, seeds: int) -> dict[str, Any]:
    """Content of tuned.json: the settings to use, and how they were found."""
    settings = {} if best is None else changed(config, best.settings).to_json()
    usual = RunConfig().to_json()
    return {
        "settings": {name: value for name, value in settings.items() if value != usual[name] and name != "seed"},
        "found": None if best is None else best._asdict(),
        "trials": trials,
        "seeds": list(range(config.seed, config.seed + seeds)),
    }


@contextmanager
def _quietly() -> Iterator[None]:
    """Without Optuna's messages on every trial."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
