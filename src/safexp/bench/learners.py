"""Speed of the learners: TRPO's policy step compared with sb3-contrib's, the critic schedules, and whole training.

All times are processor times on one thread, the best of several rounds in which the cases take turns.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from typing import Any, Final, get_args

import gymnasium as gym
import numpy as np
import sb3_contrib
import torch as th
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.logger import Logger
from torch import nn

from safexp.envs.vector import as_vec_env
from safexp.learners.critic import CriticSchedule, Fit, fit
from safexp.learners.surrogate import Surrogate
from safexp.learners.trpo import TRPO

STATIC: Final = "safexp/PointGoalStatic-v0"
GOAL1: Final = "safexp/PointGoal1-v0"
KL: Final = 0.01
CG_STEPS: Final = 10
WARM_UP: Final = 10
"""Epochs of training before the batch is collected: the step of an untrained policy is easier than most."""


def measure(batch: int = 10_000, rounds: int = 10, train_steps: int = 100_000) -> list[dict[str, Any]]:
    """One row for each measurement; `ratio` is its speed relative to the `reference`.

    The policy steps start from one policy with one batch of PointGoalStatic, [64, 64] networks, at most 10
    conjugate-gradient steps and the same trust region; "one tenth" uses every tenth step of the batch for everything,
    in both.
    `quality` is the KL divergence of the step, the mean squared error of a critic (after its fit, on the batch), or the
    mean return of the last 100 episodes.
    """
    threads = th.get_num_threads()
    th.set_num_threads(1)
    try:
        return [
            *_policy_steps(batch, rounds),
            *_critics(batch, max(rounds // 3, 1)),
            *(_training(task, train_steps) for task in (STATIC, GOAL1)),
            *_shielded(max(rounds // 2, 1), train_steps // 5),
        ]
    finally:
        th.set_num_threads(threads)


def _policy_steps(batch: int, rounds: int) -> list[dict[str, Any]]:
    ours = TRPO("MlpPolicy", _envs(STATIC), n_steps=batch // 50, seed=0).learn(WARM_UP * batch)
    _collect(ours)
    steps, envs = ours.rollout_buffer.rewards.shape
    rows = []
    for name, stride in (("full batch", 1), ("one tenth", 10)):
        theirs = sb3_contrib.TRPO(
            "MlpPolicy",
            _envs(STATIC),
            n_steps=batch // 50,
            batch_size=batch,
            target_kl=KL,
            cg_max_steps=CG_STEPS,
            n_critic_updates=0,
            sub_sampling_factor=stride,
            seed=0,
        )
        _collect(theirs)
        theirs.policy.load_state_dict(ours.policy.state_dict())
        _share(ours, theirs)
        weights = copy.deepcopy(ours.policy.state_dict())
        rollout: Any = ours.rollout_buffer
        # Both take every k-th step in sb3-contrib's order: environment by environment.
        order = th.arange(steps * envs).reshape(steps, envs).T.flatten()[::stride]
        estimates = ours._estimate(ours.policy.predict_values, rollout.rewards, ours.gamma).advantages[order]
        observations, actions = rollout.flat_observations()[order], rollout.flat_actions()[order]

        def own(observations: Any = observations, actions: Any = actions, estimates: Any = estimates) -> None:
            ours.improve(Surrogate(ours.actor, observations, actions), estimates, estimates)

        def other(theirs: Any = theirs) -> None:
            with warnings.catch_warnings():  # the mean of no critic losses
                warnings.simplefilter("ignore")
                theirs.train()

        mine, reference = [np.inf], [np.inf]
        for _ in range(rounds):
            for model, call, times in ((ours, own, mine), (theirs, other, reference)):
                model.policy.load_state_dict(weights)
                times.append(_seconds(call))
        ours.policy.load_state_dict(weights)
        rows += [
            _row(f"policy step, {name}, safexp", mine, reference, _logged(ours, "train/kl_divergence")),
            _row(
                f"policy step, {name}, sb3-contrib", reference, reference, _logged(theirs, "train/kl_divergence_loss")
            ),
        ]
    return rows


def _critics(batch: int, rounds: int) -> list[dict[str, Any]]:
    model = TRPO("MlpPolicy", _envs(STATIC), n_steps=batch // 50, seed=0).learn(2 * batch)
    _collect(model)
    observations = model.rollout_buffer.flat_observations()  # type: ignore[attr-defined]
    targets = model._estimate(model.policy.predict_values, model.rollout_buffer.rewards, model.gamma).targets
    found: dict[str, tuple[list[float], float]] = {}
    for schedule in get_args(CriticSchedule):
        times, error = [np.inf], np.nan
        for _ in range(rounds):
            policy = copy.deepcopy(model.policy)
            optimizer = th.optim.Adam(policy.parameters(), lr=5e-3, eps=1e-5)
            free = [*policy.mlp_extractor.value_net.parameters(), *policy.value_net.parameters()]

            def call(policy: Any = policy, free: Any = free, optimizer: Any = optimizer, name: Any = schedule) -> None:
                fit(policy.predict_values, free, optimizer, observations, targets, Fit.named(name))

            times.append(_seconds(call))
            with th.no_grad():
                error = float(nn.functional.mse_loss(policy.predict_values(observations).flatten(), targets))
        found[schedule] = times, error
    return [_row(f"critic, {name}", times, found["paper"][0], error) for name, (times, error) in found.items()]


def _training(task: str, steps: int) -> dict[str, Any]:
    from stable_baselines3.common.vec_env import VecMonitor

    model = TRPO("MlpPolicy", VecMonitor(_envs(task)), n_steps=200, seed=0)
    seconds = _seconds(lambda: model.learn(steps))
    returns = [info["r"] for info in model.ep_info_buffer or ()]
    return {
        "what": f"training TRPO on {task}",
        "milliseconds": round(1e3 * seconds),
        "ratio": None,
        "steps_per_cpu_second": round(model.num_timesteps / seconds),
        "quality": round(float(np.mean(returns)), 3) if returns else None,
    }


def _shielded(rounds: int, steps: int) -> list[dict[str, Any]]:
    """Cost of a shield without a model: TRPO recorded, and MASE with `Unknown`, in turns."""
    from safexp.runs.build import build
    from safexp.runs.config import RunConfig

    settings: dict[str, Any] = {"task": STATIC, "limit": 20.0, "num_envs": 50, "learner_options": {"n_steps": 200}}
    configs = (RunConfig(method="trpo", **settings), RunConfig(method="mase", learner="TRPO", **settings))
    agents = [build(config.settled()) for config in configs]
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for agent, taken in zip(agents, times, strict=True):
            taken.append(_seconds(lambda agent=agent: agent.learn(steps)))  # type: ignore[misc]
    return [
        {
            "what": f"{name}, {steps:,} steps",
            "milliseconds": round(1e3 * min(taken), 1),
            "ratio": round(min(times[0]) / min(taken), 2),
            "steps_per_cpu_second": round(steps / min(taken)),
            "quality": None,
        }
        for name, taken in zip(("TRPO, recorded", "MASE with Unknown"), times, strict=True)
    ]


def _envs(task: str) -> Any:
    return as_vec_env(gym.make_vec(task, num_envs=50))


def _collect(model: Any) -> None:
    """Collect one rollout without learning from it."""
    model.set_logger(Logger(folder=None, output_formats=[]))
    model._setup_learn(1, None)
    callback = CallbackList([])
    callback.init_callback(model)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)


def _share(ours: TRPO, theirs: Any) -> None:
    """Copy our learner's batch into sb3-contrib's learner, in its order: environment by environment."""
    rollout: Any = ours.rollout_buffer
    buffer = theirs.rollout_buffer
    estimates = ours._estimate(ours.policy.predict_values, rollout.rewards, ours.gamma)
    buffer.observations, buffer.actions = rollout.observations.copy(), rollout.actions.copy()
    buffer.advantages, buffer.returns = (
        part.numpy().reshape(rollout.rewards.shape).copy() for part in (estimates.advantages, estimates.targets)
    )
    with th.no_grad():
        _, log_probs, _ = ours.policy.evaluate_actions(rollout.flat_observations(), rollout.flat_actions())
    buffer.log_probs = log_probs.numpy().reshape(rollout.rewards.shape)
    buffer.generator_ready = False


def _seconds(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def _logged(model: Any, name: str) -> float:
    return float(model.logger.name_to_value[name])


def _row(what: str, times: list[float], reference: list[float], quality: float) -> dict[str, Any]:
    return {
        "what": what,
        "milliseconds": round(1e3 * min(times), 1),
        "ratio": round(min(reference) / min(times), 2),
        "steps_per_cpu_second": None,
        "quality": float(f"{quality:.3g}"),
    }
