"""How often quantifiers miss on stretches that they have not seen, random ones and the boldest, with and without scale.

A fifth of the episodes of a log is taken out: some at random, or those that came nearest to the limit. The rest is
learned from. A stretch is missed if one of its steps ends with a signal outside of its interval.
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
from safexp.core.arrays import Array, Flags
from safexp.doctor.models import SPLITS, Split
from safexp.quantifiers import Calibrated, DeepGP, FeatureRegression, Quantifier, SparseGP
from safexp.quantifiers.base import CHUNK, Transitions, rows_of, stretches_of
from safexp.quantifiers.calibrated import by_boldness, stretch_maxima, transition_scores
from safexp.shield.certificates import certificate_for
from safexp.shield.logs import Log, read_log
from safexp.shield.transitions import transitions_of
from safexp.tasks.seed_controllers import logged

DELTA: Final = 0.05
SEED: Final = 1000
ASKED: Final = 0.2
"""The share of episodes that is asked about."""
PERSISTENCE: Final = 0.95
"""Of the random actions from one step to the next."""


class Driving(NamedTuple):
    """What a task is made with, the mean of the first action, and the steps of an episode."""

    options: dict[str, Any]
    lead: float
    steps: int


class CoverageCase(NamedTuple):
    """What is learned and asked about: the steps of a log, and the limits."""

    name: str
    data: Transitions
    constraint: Within
    observation_space: spaces.Space[Any]


TASKS: Final = {
    "safexp/PointGoalStatic-v0": Driving({}, lead=0.5, steps=200),
    "safexp/CarGoalStatic-v0": Driving({}, lead=0.5, steps=200),
    # At random they never reach the published limit of 3.2 m/s, and this one in most episodes.
    "safexp/HalfCheetahVelocity-v0": Driving({"limit": 0.8}, lead=0.0, steps=100),
}

QUANTIFIERS: Final[dict[str, Callable[[], Quantifier]]] = {
    "SparseGP": lambda: SparseGP(delta=DELTA),
    "DeepGP": lambda: DeepGP(delta=DELTA),
    "DeepGP, shared": lambda: DeepGP(shared=True, delta=DELTA),
    "FeatureRegression": lambda: FeatureRegression(delta=DELTA),
}


def measure(logs: Sequence[Path] = (), within: Sequence[str] = (), episodes: int = 300) -> list[dict[str, Any]]:
    """Two rows for every case, split and quantifier: as it is, and calibrated.

    `p` is the probability of as many misses or more if exactly a share δ of stretches were missed: below .05 the
    promise is refuted. `certified` are steps within the limits of which that could be told, `false_safe` steps beyond
    them of which it was.

    Args:
        logs: files to learn from and ask about; without any, robots of our tasks that act at random.
        within: the limits on signals of the logs, `name:low:high`, each by itself.
        episodes: how many of each of our tasks.
    """
    th.set_num_threads(1)
    return [
        row
        for case in (cases_of_logs(logs, within) if logs else cases_of_tasks(episodes))
        for split in reversed(SPLITS)
        for name in QUANTIFIERS
        for row in _rows(case, split, name)
    ]


def cases_of_logs(logs: Sequence[Path], within: Sequence[str]) -> Iterator[CoverageCase]:
    """One case for every log and limit."""
    if not within:
        raise ValueError("--logs needs --within name:low:high, the limits on what they measured.")
    for file in logs:
        log = read_log(file)
        actions = np.asarray(log.actions, dtype=np.float64)
        given = (
            spaces.Box(-np.inf, np.inf, np.shape(log.observations)[1:], np.float64),
            spaces.Box(actions.min(axis=0), actions.max(axis=0), dtype=np.float64),
        )
        for text in within:
            constraint = parse_within(text)
            name = f"{file.stem}: {constraint.names[0]}"
            yield CoverageCase(name, transitions_of(log, constraint, *given), constraint, given[0])


def cases_of_tasks(episodes: int) -> Iterator[CoverageCase]:
    """Robots of our tasks, whose margin must not fall below 0."""
    for task, driving in TASKS.items():
        log, given = random_episodes(task, driving, episodes)
        constraint = Within("margin", low=0.0)
        yield CoverageCase(task.removeprefix("safexp/"), transitions_of(log, constraint, *given), constraint, given[0])


def random_episodes(
    task: str, driving: Driving, episodes: int
) -> tuple[Log, tuple[spaces.Space[Any], spaces.Space[Any]]]:
    """One episode each of so many robots under random actions that change slowly, and their spaces."""
    rng = np.random.default_rng(SEED)
    envs = gym.make_vec(task, num_envs=episodes, **driving.options)
    given = envs.single_observation_space, envs.single_action_space
    assert isinstance(given[1], spaces.Box), "robots push and turn"
    drift, lead = np.zeros((episodes, *given[1].shape)), np.zeros(given[1].shape)
    lead[0] = driving.lead

    def act() -> Array:
        drift[:] = PERSISTENCE * drift + np.sqrt(1 - PERSISTENCE**2) * rng.standard_normal(drift.shape)
        return lead + drift

    log = logged(envs, act, driving.steps, rng).log
    assert log.episodes is not None, "told by `logged`"
    first = log.episodes < episodes  # who arrives early starts again
    seen, actions, margins, numbers = (
        np.asarray(part)[first] for part in (log.observations, log.actions, log.margins, log.episodes)
    )
    return Log(seen, actions, margins=margins, episodes=numbers), given


def asked_about(case: CoverageCase, split: Split) -> Flags:
    """Which transitions (n,) are taken out: those of a fifth of the stretches, random ones or the boldest."""
    stretches = stretches_of(case.data)
    if split == "bold":
        order = by_boldness(certificate_for(case.constraint, SparseGP(), case.observation_space), case.data, stretches)
    else:
        order = np.random.default_rng(SEED).permutation(int(stretches.max()) + 1)
    return np.isin(stretches, order[len(order) - round(ASKED * len(order)) :])


def judged(quantifier: Quantifier, data: Transitions, constraint: Within) -> dict[str, Any]:
    """What a quantifier says of transitions that it was not learned from, beside the truth."""
    from scipy.stats import binomtest  # here, because it takes longer to import than all the rest

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
    calibrated = Calibrated(certificate_for(case.constraint, QUANTIFIERS[name](), case.observation_space), delta=DELTA)
    calibrated.fit(rows_of(case.data, ~unseen))
    for quantifier, scale in ((calibrated.quantifier, 1.0), (calibrated, calibrated.scale)):
        yield {
            "case": case.name,
            "split": split,
            "quantifier": name,
            "calibrated": quantifier is calibrated,
            "scale": round(scale, 3) if np.isfinite(scale) else None,
            **judged(quantifier, rows_of(case.data, unseen), case.constraint),
        }
