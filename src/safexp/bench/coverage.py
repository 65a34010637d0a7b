"""Miss rates of quantifiers on held-out stretches, random ones and the boldest, with and without calibration.

A fifth of the episodes of a log is held out, at random or those that came nearest to the limit, and the quantifier
learns from the rest. A stretch is missed if one of its steps ends with a signal outside its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray

from safexp.constraints import Within
from safexp.constraints.parse import parse_within
from safexp.core.arrays import Array, Flags, Observations
from safexp.doctor.models import SPLITS, Split, exact_settings
from safexp.doctor.subject import inferred_actions, inferred_observations
from safexp.quantifiers import GLM, Calibrated, ChangeModel, DeepGP, ExactGP, FeatureRegression, Quantifier, SparseGP
from safexp.quantifiers.base import CHUNK, Transitions, rows_of, stretches_of
from safexp.quantifiers.boldness import by_boldness, stretch_maxima
from safexp.quantifiers.calibrated import transition_scores
from safexp.shield.certificates import certificate_for
from safexp.shield.logs import Log, read_log
from safexp.shield.transitions import transitions_of
from safexp.tasks.seed_controllers import logged

DELTA: Final = 0.05
SEED: Final = 1000
ASKED: Final = 0.2
"""Share of episodes that is held out."""
PERSISTENCE: Final = 0.95
"""Correlation of the random actions from one step to the next."""


class Driving(NamedTuple):
    """Options of a task, mean of the first action, and steps of an episode."""

    options: dict[str, Any]
    lead: float
    steps: int


class CoverageCase(NamedTuple):
    """One data set and its limits."""

    name: str
    data: Transitions
    constraint: Within
    observation_space: spaces.Space[Any]

    @property
    def inputs(self) -> tuple[int, ...]:
        """The entries of the states that models of change learn from."""
        bound = certificate_for(self.constraint, SparseGP(), self.observation_space)
        assert isinstance(bound, ChangeModel) and bound.inputs is not None, "made by certificate_for"
        return bound.inputs


TASKS: Final = {
    "safexp/PointGoalStatic-v0": Driving({}, lead=0.5, steps=200),
    "safexp/CarGoalStatic-v0": Driving({}, lead=0.5, steps=200),
    # Random actions never reach the published limit of 3.2 m/s; they reach this one in most episodes.
    "safexp/HalfCheetahVelocity-v0": Driving({"limit": 0.8}, lead=0.0, steps=100),
}

QUANTIFIERS: Final[dict[str, Callable[[CoverageCase], Quantifier]]] = {
    "ExactGP": lambda case: ExactGP(**exact_settings(case.data, case.inputs, DELTA)),
    "SparseGP": lambda case: SparseGP(delta=DELTA),
    "DeepGP": lambda case: DeepGP(delta=DELTA),
    "DeepGP, shared": lambda case: DeepGP(shared=True, delta=DELTA),
    "FeatureRegression": lambda case: FeatureRegression(delta=DELTA),
    "GLM": lambda case: GLM(standardised(case), len(case.inputs) + case.data.actions.shape[1] + 1, noise=1.0),
}
"""The quantifiers to measure, each with settings that depend only on the inputs of a log."""


def measure(
    logs: Sequence[Path] = (),
    within: Sequence[str] = (),
    episodes: int = 300,
    splits: Sequence[str] = (),
    quantifiers: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Two rows for every case, split and quantifier: uncalibrated and calibrated.

    `p` is the probability of at least as many misses if exactly a share δ of stretches were missed: below .05 the
    claim is refuted. `certified` is the share of steps within the limits that were certified, `false_safe` that of
    steps beyond them.

    Args:
        logs: log files; by default, robots of the built-in tasks under random actions.
        within: limits on signals of the logs, `name:low:high`, each measured separately.
        episodes: number of episodes of each built-in task.
        splits: `bold` or `random`; both by default.
        quantifiers: names of `QUANTIFIERS`; all by default.
    """
    for name, given, known in (("splits", splits, SPLITS), ("quantifiers", quantifiers, tuple(QUANTIFIERS))):
        if unknown := [one for one in given if one not in known]:
            raise ValueError(f"--{name} {unknown[0]!r} is not one of {', '.join(map(repr, known))}.")
    th.set_num_threads(1)
    return [
        row
        for case in (cases_of_logs(logs, within) if logs else cases_of_tasks(episodes))
        for split in reversed(SPLITS)
        if split in (splits or SPLITS)
        for name in quantifiers or QUANTIFIERS
        for row in _rows(case, split, name)
    ]


def cases_of_logs(logs: Sequence[Path], within: Sequence[str]) -> Iterator[CoverageCase]:
    """One case for every log and limit."""
    if not within:
        raise ValueError("--logs needs --within name:low:high, the limits on their signals.")
    for file in logs:
        log = read_log(file)
        given = inferred_observations(log.observations), inferred_actions(log.actions)
        for text in within:
            constraint = parse_within(text)
            name = f"{file.stem}: {constraint.names[0]}"
            yield CoverageCase(name, transitions_of(log, constraint, *given), constraint, given[0])


def cases_of_tasks(episodes: int) -> Iterator[CoverageCase]:
    """One case for every built-in task, whose margin must not fall below 0."""
    for task, driving in TASKS.items():
        log, given = random_episodes(task, driving, episodes)
        constraint = Within("margin", low=0.0)
        yield CoverageCase(task.removeprefix("safexp/"), transitions_of(log, constraint, *given), constraint, given[0])


def random_episodes(
    task: str, driving: Driving, episodes: int
) -> tuple[Log, tuple[spaces.Space[Any], spaces.Space[Any]]]:
    """One episode each of `episodes` robots under slowly varying random actions, and their spaces."""
    rng = np.random.default_rng(SEED)
    envs = gym.make_vec(task, num_envs=episodes, **driving.options)
    given = envs.single_observation_space, envs.single_action_space
    assert isinstance(given[1], spaces.Box), "robots push and turn"
    drift, lead = np.zeros((episodes, *given[1].shape)), np.zeros(given[1].shape)
    lead[0] = driving.lead

    def act(_: Observations) -> Array:
        drift[:] = PERSISTENCE * drift + np.sqrt(1 - PERSISTENCE**2) * rng.standard_normal(drift.shape)
        return lead + drift

    log = logged(envs, act, driving.steps, rng).log
    assert log.episodes is not None, "told by `logged`"
    first = log.episodes < episodes  # a robot that reaches its goal early starts a second episode
    seen, actions, margins, numbers = (
        np.asarray(part)[first] for part in (log.observations, log.actions, log.margins, log.episodes)
    )
    return Log(seen, actions, margins=margins, episodes=numbers), given


def standardised(case: CoverageCase) -> Callable[[Array, Array], Array]:
    """Linear features for a GLM: 1 and the standardised inputs, scaled to norm 1."""
    columns = np.concatenate([case.data.states[:, list(case.inputs)], case.data.actions], axis=1)
    middle, spread = columns.mean(axis=0), columns.std(axis=0)
    spread[spread == 0] = 1.0

    def features(states: Array, actions: Array) -> Array:
        rows = (np.concatenate([states, actions], axis=1) - middle) / spread
        rows = np.concatenate([np.ones((len(rows), 1)), rows], axis=1)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    return features


def asked_about(case: CoverageCase, split: Split) -> Flags:
    """Which transitions (n,) are held out: those of a fifth of the stretches, random ones or the boldest."""
    stretches = stretches_of(case.data)
    if split == "bold":
        order = by_boldness(certificate_for(case.constraint, SparseGP(), case.observation_space), case.data, stretches)
    else:
        order = np.random.default_rng(SEED).permutation(int(stretches.max()) + 1)
    return np.isin(stretches, order[len(order) - round(ASKED * len(order)) :])


def judged(quantifier: Quantifier, data: Transitions, constraint: Within) -> dict[str, Any]:
    """Compare a quantifier's predictions with held-out transitions."""
    from scipy.stats import binomtest  # slow to import

    scores = stretch_maxima(transition_scores(quantifier, data), stretches_of(data))
    missed, count = int((scores > 1.0).sum()), len(scores)
    parts = np.array_split(np.arange(len(data.costs)), len(data.costs) // CHUNK + 1)
    answers = [quantifier.predict(data.states[some], data.actions[some, None]) for some in parts]
    bounds = np.concatenate([(mean + width)[:, 0].reshape(len(mean), -1).max(axis=1) for mean, width in answers])
    threshold = constraint.threshold(constraint.start(data.states[:1])).max()
    beyond: NDArray[np.bool_] = data.costs.reshape(len(bounds), -1).max(axis=1) > threshold
    certified = bounds <= threshold
    return {
        "stretches": count,
        "missed": missed,
        "share": round(missed / count, 4),
        "p": round(float(binomtest(missed, count, DELTA, alternative="greater").pvalue), 4),
        "certified": round(float(certified[~beyond].mean()), 4) if not beyond.all() else None,
        "false_safe": round(float(certified[beyond].mean()), 5) if beyond.any() else None,
    }


def _rows(case: CoverageCase, split: Split, name: str) -> Iterator[dict[str, Any]]:
    unseen = asked_about(case, split)
    known = case._replace(data=rows_of(case.data, ~unseen))
    model = certificate_for(case.constraint, QUANTIFIERS[name](known), case.observation_space)
    calibrated = Calibrated(model, delta=DELTA)
    calibrated.fit(known.data)
    for quantifier, scale in ((calibrated.quantifier, 1.0), (calibrated, calibrated.scale)):
        yield {
            "case": case.name,
            "split": split,
            "quantifier": name,
            "calibrated": quantifier is calibrated,
            "scale": round(scale, 3) if np.isfinite(scale) else None,
            **judged(quantifier, rows_of(case.data, unseen), case.constraint),
        }
