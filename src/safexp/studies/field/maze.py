"""gymnasium-robotics' PointMaze_Open-v3: roll a ball to one goal after the other without touching a wall."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from safexp.constraints import Within
from safexp.core.arrays import Array, Observations
from safexp.core.extras import needed_for
from safexp.studies.field.system import System

WALLS = (2.4, 1.4)  # of the ball's centre, in m: the walls are at 2.5 and 1.5, its radius is 0.1


class Maze(gym.ObservationWrapper[Array, Array, Any]):
    """The maze with positions, speeds and the goal as one vector."""

    def __init__(self) -> None:
        with needed_for("the maze of the field trials"):
            import gymnasium_robotics
        gym.register_envs(gymnasium_robotics)
        super().__init__(gym.make("PointMaze_OpenDense-v3", continuing_task=True, max_episode_steps=100))
        self.observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float64)

    def observation(self, observation: Any) -> Array:  # position, speed, goal
        return np.concatenate([observation["observation"], observation["desired_goal"]])


def pushed(wanted: Array, seen: Observations) -> Array:
    """Force that brings the ball's speed to a wanted one, in m/s."""
    return np.clip(5.0 * (wanted - seen[:, 2:4]), -1.0, 1.0)


MAZE = System(
    make=Maze,
    limits=Within((0, 1), low=[-WALLS[0], -WALLS[1]], high=list(WALLS)),
    reading=lambda env: [
        (-wall, float(q), wall) for wall, q in zip(WALLS, env.unwrapped.point_env.data.qpos, strict=True)
    ],
    cautious=lambda seen: pushed(np.clip(seen[:, 4:] - seen[:, :2], -0.4, 0.4), seen),
    backup=lambda seen: pushed(np.zeros((len(seen), 2)), seen),
    horizon=20,
    noise=0.3,
    steps=100_000,
)
