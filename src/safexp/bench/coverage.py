"""How often quantifiers miss on fresh episodes, as they are and calibrated, with a test of what calibration promises.

Robots act at random, the same way for what is learned from and for what is then asked about, and get into what costs
in many episodes. An episode is missed if one of its costly steps has a margin below what the interval allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np
import torch as th

from safexp.core.arrays import Array
from safexp.quantifiers import Calibrated, DeepGP, FeatureRegression, SparseGP
from safexp.quantifiers.base import Transitions
from safexp.quantifiers.calibrated import rows_of
from safexp.shield.logs import encode_log
from safexp.tasks.seed_controllers import logged

Model = SparseGP | DeepGP | FeatureRegression

DELTA: Final = 0.05
NEAR: Final = 0.5
"""Costs are 0 or 1 here: 1 is costly."""
HOLDOUT: Final = 0.5
SEED: Final = 1000
CHEAP: Final = 5000
"""How many of the steps without cost are asked about; all others are."""
CHUNK: Final = 1000
"""Questions at a time, for which a deep GP needs 50 MB."""
PERSISTENCE: Final = 0.95
"""Of the random actions from one step to the next."""


class Driving(NamedTuple):
    """What a task is made with, the mean of the first action, steps of an episode, and the share of episodes made."""

    options: dict[str, Any]
    lead: float
    steps: int
    share: float = 1.0


TASKS: Final = {
    "safexp/PointGoalStatic-v0": Driving({}, lead=0.5, steps=200),
    "safexp/CarGoalStatic-v0": Driving({}, lead=0.5, steps=200),
    # At random they never reach the published limit of 3.2 m/s, and this one in most episodes.
    "safexp/HalfCheetahVelocity-v0": Driving({"limit": 0.8}, lead=0.0, steps=100, share=0.3),
}

QUANTIFIERS: Final[dict[str, Callable[[], Model]]] = {
    "SparseGP": lambda: SparseGP("margin", delta=DELTA),
    "DeepGP": lambda: DeepGP("margin", delta=DELTA),
    "DeepGP, shared": lambda: DeepGP("margin", shared=True, delta=DELTA),
    "FeatureRegression": lambda: FeatureRegression("margin", delta=DELTA),
}


def measure(episodes: int = 1000, fresh: int = 2000) -> list[dict[str, Any]]:
    """Two rows for every task and quantifier, as it is and calibrated.

    `p` is the probability of as many misses or more if exactly a share δ of costly episodes were missed: below .05 the
    promise is refuted. `certified` are steps without cost of which that could be told, `false_safe` costly ones of
    which it was.
    """
    th.set_num_threads(1)
    rows = []
    for task, driving in TASKS.items():
        seen, asked = (random_episodes(task, driving, n, SEED + k) for k, n in enumerate((episodes, fresh)))
        for name, make in QUANTIFIERS.items():
            plain, inner = make(), make()
            scaled = Calibrated(inner, delta=DELTA, near=NEAR, holdout=HOLDOUT)
            plain.fit(seen)
            scaled.fit(seen)
            for quantifier, scale in ((plain, 1.0), (inner, scaled.scale)):
                what = {"task": task.removeprefix("safexp/"), "quantifier": name, "calibrated": quantifier is inner}
                rows.append(
                    what | {"scale": round(scale, 3) if np.isfinite(scale) else None} | judged(quantifier, scale, asked)
                )
    return rows


def random_episodes(task: str, driving: Driving, episodes: int, seed: int) -> Transitions:
    """One episode of so many robots under random actions that change slowly."""
    rng, copies = np.random.default_rng(seed), max(round(driving.share * episodes), 1)
    envs = gym.make_vec(task, num_envs=copies, **driving.options)
    spaces = envs.single_observation_space, envs.single_action_space
    assert isinstance(spaces[1], gym.spaces.Box), "robots push and turn"
    drift, lead = np.zeros((copies, *spaces[1].shape)), np.zeros(spaces[1].shape)
    lead[0] = driving.lead

    def act() -> Array:
        drift[:] = PERSISTENCE * drift + np.sqrt(1 - PERSISTENCE**2) * rng.standard_normal(drift.shape)
        return lead + drift

    log = logged(envs, act, driving.steps, rng).log
    assert log.episodes is not None, "told by `logged`"
    return rows_of(encode_log(log, *spaces), log.episodes < copies)  # who arrives early starts again


def judged(quantifier: Model, scale: float, data: Transitions) -> dict[str, Any]:
    """What intervals of these widths say of transitions that they were not learned from, beside the truth."""
    from scipy.stats import binomtest  # here, because it takes longer to import than all the rest

    costly = data.costs > NEAR
    kept = costly | (np.random.default_rng(SEED).random(len(costly)) < CHEAP / max(int((~costly).sum()), 1))
    costly, asked = costly[kept], rows_of(data, kept)
    assert asked.margins is not None, "a task tells them"
    assert asked.episodes is not None, "`random_episodes` tells them"
    answers = [
        quantifier.predict_target(asked.states[some], asked.actions[some, None])
        for some in np.array_split(np.arange(len(costly)), len(costly) // CHUNK + 1)
    ]
    mean, width = (np.concatenate(parts)[:, 0] for parts in zip(*answers, strict=True))
    lowest = mean - scale * width
    episodes, missed = (len(np.unique(asked.episodes[rows])) for rows in (costly, costly & (asked.margins < lowest)))
    return {
        "costly_episodes": episodes,
        "missed": missed,
        "share": round(missed / max(episodes, 1), 4),
        "p": round(float(binomtest(missed, episodes, DELTA, alternative="greater").pvalue), 4) if episodes else None,
        "certified": round(float((lowest[~costly] > 0).mean()), 4),
        "false_safe": round(float((lowest[costly] > 0).mean()), 5) if costly.any() else None,
    }
