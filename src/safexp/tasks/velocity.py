"""Gymnasium's MuJoCo robots with a speed limit: Safety-Gymnasium's velocity tasks on the v5 environments."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from safexp.core.extras import needed_for
from safexp.tasks.knowledge import Knowledge
from safexp.tasks.locomotion import knowledge_of_moving

LIMITS = MappingProxyType(
    {
        "HalfCheetah": 3.2096,
        "Hopper": 0.7402,
        "Walker2d": 2.3415,
        "Ant": 2.6222,
        "Swimmer": 0.2282,
        "Humanoid": 1.4149,
    }
)
"""Half the speed in m/s that an unconstrained PPO agent reached, as published with Safety-Gymnasium 1.0.

Ant and Humanoid are judged by their speed in the plane, the others by their forward speed.
"""


def velocity_limited(robot: str, limit: float | None = None, render_mode: str | None = None) -> VelocityLimit:
    """`robot` of Gymnasium's v5 environments, with cost 1 above `limit` m/s; `None` is the published limit."""
    if robot not in LIMITS:
        raise ValueError(f"robot={robot!r} is not known; expected one of {', '.join(map(repr, LIMITS))}.")
    with needed_for(f"Gymnasium's {robot}"), _mujoco_warnings():
        env = gym.make(f"{robot}-v5", render_mode=render_mode, max_episode_steps=-1, disable_env_checker=True)
    limit = LIMITS[robot] if limit is None else limit
    return VelocityLimit(env.unwrapped, limit, robot in ("Ant", "Humanoid"), knowledge_of_moving(robot, limit))


class VelocityLimit(gym.Wrapper[Any, Any, Any, Any]):
    """Adds the signal `velocity` to `info`, with `margin`, limit − velocity, and `cost`, 1 above the limit.

    After a step it is the mean velocity over the step, which the reward pays for; after `reset`, the velocity of the
    first state.
    """

    def __init__(
        self, env: gym.Env[Any, Any], limit: float, in_plane: bool, knowledge: Knowledge | None = None
    ) -> None:
        super().__init__(env)
        self.knowledge = knowledge or Knowledge()
        self.limit = limit
        self.in_plane = in_plane

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode, nearly at rest."""
        observation, info = self.env.reset(seed=seed, options=options)
        robot: Any = self.env.unwrapped
        return observation, {**info, **self._measured(*robot.data.qvel[:2])}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """One step of the robot, with its velocity, margin and cost."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        measured = self._measured(info["x_velocity"], info.get("y_velocity", 0.0))
        return observation, reward, terminated, truncated, {**info, **measured}

    def _measured(self, forward: float, sideways: float) -> dict[str, float]:
        velocity = float(np.hypot(forward, sideways) if self.in_plane else forward)
        return {"velocity": velocity, "margin": self.limit - velocity, "cost": float(velocity > self.limit)}


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
