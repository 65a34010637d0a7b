"""Speed of quantifiers, compared with gpytorch with the same parameters, and of a shield's decision; accuracy.

All times are processor times on one thread, in rounds in which the cases take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Any, Final

import gpytorch
import gymnasium as gym
import numpy as np
import torch as th

from safexp.bench.references import DeepReference, SparseReference
from safexp.core.arrays import Array
from safexp.envs.vector import as_vec_env
from safexp.learners.trpo import TRPO
from safexp.quantifiers import DeepGP, ExactGP, FeatureRegression, Quantifier, SparseGP, Transitions
from safexp.quantifiers.targets import target_of
from safexp.shield.shield import Shield

TASK: Final = "safexp/PointGoalStatic-v0"
SEED: Final = 1000
QUESTIONS: Final = ((1, 64), (16, 64), (64, 65))
"""Numbers of states and candidates: of a controller, a small batch, and training with 64 environments."""

EMPTY: Final = dict.fromkeys(
    [
        "what",
        "us_1x64",
        "us_16x64",
        "us_64x65",
        "gpytorch_us_1x64",
        "gpytorch_us_16x64",
        "ratio_1x64",
        "refit_ms",
        "refit_share",
        "filter_p50_us",
        "filter_p99_us",
        "rmse",
        "coverage",
        "certified",
        "false_safe",
    ]
)
"""An empty row."""

THRESHOLD: Final = 0.5
"""Threshold of the shield: below 1, so that the quantifier decides."""


def measure(
    epoch: int = 10_000, rounds: int = 5, decisions: int = 2000, settings: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """One row for each quantifier, and one for the shield.

    All of them learn the margins (or costs) of one epoch of PointGoalStatic under a policy that has begun to learn,
    are refitted on a second in every round, and are judged on a third.
    `us_1x64` is the median time of a prediction for 64 candidates of one state, and so on; `gpytorch_us_1x64` that of
    gpytorch's model with the same parameters and number of samples, `ratio_1x64` how many times longer it takes.
    `refit_ms` is the time of an update with the epoch's transitions, and `refit_share` its share of the time in which
    TRPO learns from an epoch. The shield's row has the median and the 99th percentile of `Shield.filter`.

    `rmse` is the error of the mean (of margins in metres) and `coverage` the share of true values within the interval,
    at δ = 0.01; `certified` is the share of the steps without cost whose cost was bounded by ½, `false_safe` that of
    the costly ones.
    """
    threads = th.get_num_threads()
    th.set_num_threads(1)
    try:
        learner = TRPO("MlpPolicy", as_vec_env(gym.make_vec(TASK, num_envs=50)), n_steps=max(epoch // 50, 2), seed=SEED)
        first, second, third = _epochs(learner, epoch)
        epochs = []
        cases = [_QuantifierCase(name, one, first, second) for name, one in _quantifiers(settings or {})]
        for _ in range(rounds):
            epochs.append(_seconds(partial(learner.learn, epoch, reset_num_timesteps=False)))
            for case in cases:
                case.measure_round()
        rows = [case.row(min(epochs)) | accuracy(case.quantifier, third) for case in cases]
        sparse = next(case for case in cases if case.name == "SparseGP")
        return [*rows, _shield(sparse.quantifier, second, decisions)]
    finally:
        th.set_num_threads(threads)


def _quantifiers(settings: dict[str, Any]) -> list[tuple[str, Quantifier]]:
    quick = {key: value for key, value in settings.items() if key != "num_inducing"}
    return [
        ("ExactGP, 1000 points", ExactGP(5.0, noise=0.01, capacity=settings.get("capacity", 1000))),
        ("SparseGP", SparseGP("margin", **settings)),
        ("SparseGP, cost", SparseGP("cost", **settings)),
        ("DeepGP", DeepGP("margin", **settings)),
        ("DeepGP, shared", DeepGP("margin", shared=True, **settings)),
        ("FeatureRegression, random", FeatureRegression("margin", **quick)),
        ("FeatureRegression, learned", FeatureRegression("margin", features="learned", **quick)),
    ]


class _QuantifierCase:
    """A fitted quantifier, and gpytorch's model of the same if there is one."""

    def __init__(self, name: str, quantifier: Quantifier, first: Transitions, second: Transitions) -> None:
        self.name, self.quantifier = name, quantifier
        quantifier.fit(first)
        self._second = second
        rng = np.random.default_rng(0)
        self._questions = [(second.states[:n], _candidates(n, m, rng)) for n, m in QUESTIONS]
        self._references = [_reference(quantifier, question) for question in self._questions]
        self._times: dict[str, list[float]] = {}

    def measure_round(self) -> None:
        """Measure a refit and every prediction once more."""
        self._record("refit", partial(self.quantifier.update, self._second), 1)
        for (n, m), question, reference in zip(QUESTIONS, self._questions, self._references, strict=True):
            repeats = 20 if n == 1 else 2
            self._record(f"us_{n}x{m}", partial(self.quantifier.predict, *question), repeats)
            if reference is not None and n < 64:
                self._record(f"gpytorch_us_{n}x{m}", reference, repeats // 10 or 1)

    def row(self, epoch_seconds: float) -> dict[str, Any]:
        """Medians as a row of a table."""
        refit = min(self._times.pop("refit"))
        median = {name: 1e6 * float(np.median(times)) for name, times in self._times.items()}
        ratio = median["gpytorch_us_1x64"] / median["us_1x64"] if "gpytorch_us_1x64" in median else None
        return {
            **EMPTY,
            "what": self.name,
            **{name: round(value) for name, value in median.items()},
            "ratio_1x64": None if ratio is None else round(ratio, 1),
            "refit_ms": round(1e3 * refit, 1),
            "refit_share": round(refit / epoch_seconds, 3),
        }

    def _record(self, name: str, call: Callable[[], object], repeats: int) -> None:
        self._times.setdefault(name, []).extend(_seconds(call) for _ in range(repeats))


def accuracy(quantifier: Quantifier, data: Transitions) -> dict[str, float]:
    """Accuracy of a quantifier on held-out transitions."""
    if not isinstance(quantifier, SparseGP | DeepGP | FeatureRegression):
        return {}
    truth = target_of("accuracy", quantifier.target, data)
    question = data.states, data.actions[:, None]
    mean, width = (part[:, 0] for part in quantifier.interval(*question))
    cost, unsure = (part[:, 0] for part in quantifier.predict(*question))
    certified = cost + unsure <= THRESHOLD
    costly = data.costs > 0
    return {
        "rmse": round(float(np.sqrt(np.mean((mean - truth) ** 2))), 4),
        "coverage": round(float(np.mean(np.abs(mean - truth) <= width)), 4),
        "certified": round(float(certified[~costly].mean()), 3),
        "false_safe": round(float(certified[costly].mean()), 5) if costly.any() else 0.0,
    }


def _reference(quantifier: Quantifier, question: tuple[Array, Array]) -> Callable[[], object] | None:
    """Gpytorch's prediction for the same inputs, made as its documentation recommends."""
    model = getattr(quantifier, "model", None)
    if not isinstance(quantifier, SparseGP | DeepGP) or model is None:
        return None
    reference: Any = (SparseReference(model) if isinstance(quantifier, SparseGP) else DeepReference(model)).eval()
    samples = quantifier.num_samples if isinstance(quantifier, DeepGP) else 1
    states, actions = question
    pairs = np.concatenate([np.repeat(states, actions.shape[1], axis=0), actions.reshape(-1, actions.shape[2])], axis=1)

    def ask() -> None:
        x = th.from_numpy((pairs - model.shift) / model.scale)
        with th.no_grad(), gpytorch.settings.num_likelihood_samples(samples):
            answer = reference(x)
            _ = answer.mean.numpy(), answer.variance.numpy()

    ask()
    return ask


def _shield(quantifier: Quantifier, data: Transitions, decisions: int) -> dict[str, Any]:
    """Time of a decision in the states of the run, with the actions that were proposed there."""
    envs = gym.make(TASK)
    shield = Shield(quantifier, envs.observation_space, envs.action_space)
    envs.close()
    pairs = cycle(zip(data.states, data.actions.astype(np.float32), strict=True))
    times = []
    for _ in range(decisions):
        state, action = next(pairs)
        times.append(_seconds(partial(shield.filter, state, action, THRESHOLD)))
    return {
        **EMPTY,
        "what": "Shield.filter, SparseGP",
        "filter_p50_us": round(1e6 * float(np.percentile(times, 50))),
        "filter_p99_us": round(1e6 * float(np.percentile(times, 99))),
    }


def _epochs(learner: TRPO, steps: int) -> list[Transitions]:
    """Three epochs of transitions of a learner that was trained on four."""
    learner.learn(4 * steps)
    envs = learner.get_env()
    assert envs is not None, "it has just learned there"
    parts: list[list[Any]] = []
    observations: Any = envs.reset()
    for _ in range(3 * learner.n_steps):
        action = np.clip(learner.predict(observations)[0], -1.0, 1.0)
        after, _, _, infos = envs.step(action)
        parts.append([observations, action, *([info[name] for info in infos] for name in ("cost", "margin"))])
        observations = after
    learner._last_obs = None  # it did not take these steps, so it starts new episodes
    third = len(parts) // 3
    return [_transitions(parts[k * third : (k + 1) * third]) for k in range(3)]


def _transitions(parts: Sequence[list[Any]]) -> Transitions:
    states, actions, costs, margins = (
        np.concatenate([np.asarray(part[k], dtype=np.float64) for part in parts]) for k in range(4)
    )
    return Transitions(states, actions, costs, margins)


def _candidates(n: int, m: int, rng: np.random.Generator) -> Array:
    """Candidates as a shield makes them: shared by all states, plus one proposal for each."""
    actions = np.broadcast_to(rng.uniform(-1.0, 1.0, (1, m, 2)), (n, m, 2)).copy()
    actions[:, -1] = rng.uniform(-1.0, 1.0, (n, 2))
    return actions


def _seconds(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin
