"""Gymnasium's MuJoCo robots with a speed limit: Safety-Gymnasium's velocity tasks on the v5 environments."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from safexp.core.extras import needed_for
from safexp.shield.logs import Log
from safexp.tasks.knowledge import Knowledge


def velocity_limited(robot: str, limit: float | None = None, render_mode: str | None = None) -> VelocityLimit:
    """`robot` of Gymnasium's v5 environments, with cost 1 above `limit` m/s; `None` is the published limit."""
    # Half the speed that an unconstrained PPO agent reached, as published with Safety-Gymnasium 1.0. Ant and Humanoid
    # are judged by their speed in the plane, the others by their forward speed.
    limits = {
        "HalfCheetah": 3.2096,
        "Hopper": 0.7402,
        "Walker2d": 2.3415,
        "Ant": 2.6222,
        "Swimmer": 0.2282,
        "Humanoid": 1.4149,
    }
    if robot not in limits:
        raise ValueError(f"robot={robot!r} is not known; expected one of {', '.join(map(repr, limits))}.")
    with needed_for(f"Gymnasium's {robot}"), _mujoco_warnings():
        env = gym.make(f"{robot}-v5", render_mode=render_mode, max_episode_steps=-1, disable_env_checker=True)
    limit = limits[robot] if limit is None else limit
    return VelocityLimit(env.unwrapped, limit, robot in ("Ant", "Humanoid"), knowledge_of_moving(robot, limit))


class VelocityLimit(gym.Wrapper[Any, Any, Any, Any]):
    """Adds `info["cost"]`, 1 where the velocity exceeds the limit, and `info["margin"]`, limit − velocity."""

    def __init__(
        self, env: gym.Env[Any, Any], limit: float, in_plane: bool, knowledge: Knowledge | None = None
    ) -> None:
        super().__init__(env)
        self.knowledge = knowledge or Knowledge()
        self.limit = limit
        self.in_plane = in_plane

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode at rest, without cost."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "cost": 0.0, "margin": self.limit}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """One step of the robot, with cost and margin."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        velocity = float(info["x_velocity"])
        if self.in_plane:
            velocity = float(np.hypot(velocity, info["y_velocity"]))
        cost = float(velocity > self.limit)
        return (
            observation,
            reward,
            terminated,
            truncated,
            {**info, "cost": cost, "margin": self.limit - velocity},
        )


def knowledge_of_moving(robot: str, limit: float) -> Knowledge:
    """Prior knowledge of a robot: a log under actions so small that it stays well below the limit.

    The Swimmer drifts and the others fall, so only HalfCheetah has a useful log.
    """
    if robot != "HalfCheetah":
        return Knowledge()

    def log(rng: np.random.Generator) -> Log:
        from safexp.tasks.seed_controllers import gentle  # imports this module

        return gentle("safexp/HalfCheetahVelocity-v0", limit, 150, 100, rng).log

    return Knowledge(log=log)


@contextmanager
def _mujoco_warnings() -> Iterator[None]:
    """Turn MuJoCo's warnings into Python's, instead of stderr and a log file in the working directory.

    HalfCheetah's model uses an attribute that MuJoCo 4 deprecates. That is for Gymnasium to change, so this warning is
    suppressed.
    """
    import mujoco  # not at the top, so that `safexp tasks` can list these tasks without it

    messages: list[str] = []
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(messages.append)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
    for message in messages:
        if "settotalmass" not in message:
            warnings.warn(message, stacklevel=3)
