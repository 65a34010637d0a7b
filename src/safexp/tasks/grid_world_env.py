"""The grid world as a Gymnasium task, `safexp/GridWorld-v0`."""

from __future__ import annotations

from typing import Any, final

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from safexp.tasks.grid_world import GridWorld, random_world, rising_thresholds

Observation = NDArray[np.float32]


@final
class GridWorldEnv(gym.Env[Observation, np.int64]):
    """Walk on a random grid, or the given `world`, collecting the reward of every cell entered.

    The observation is the position (row, column) in units of the maps' length scale; actions are stay, right, down,
    left and up, and one that leads off the map stays. `info["cost"]` is g in [0, 1] of the last move and
    `info["margin"]` its remaining safety, in altitude. `thresholds` (steps,) are the limits b_h of the costs: pass them
    to `safexp.Schedule`, or the first to `safexp.Instantaneous` if they do not rise. The world is that of `world_seed`
    at every reset: a map to be learned.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium reads it from the class

    def __init__(
        self,
        *,
        size: int = 20,
        world_seed: int = 0,
        steps: int = 200,
        rise: float = 0.0,
        world: GridWorld | None = None,
    ) -> None:
        self.world = world or random_world(np.random.default_rng(world_seed), size)
        self._limits = rising_thresholds(self.world.threshold, rise, steps)
        self.thresholds = self.world.cost(self._limits)
        top = (len(self.world.altitude) - 1) * self.world.step
        self.observation_space = gym.spaces.Box(0.0, np.float32(top), (2,), np.float32)
        self.action_space = gym.spaces.Discrete(5)
        self._state = self.world.start
        self._time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Return to the start."""
        super().reset(seed=seed)
        self._state, self._time = self.world.start, 0
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Move, collect the reward of the cell entered, and return the cost of the move in the info."""
        if not self.action_space.contains(action):
            raise ValueError(f"action={action!r} must be 0 (stay), 1 (right), 2 (down), 3 (left) or 4 (up)")
        safety = float(self.world.safety[self._state, action])
        info = {"cost": float(self.world.cost(safety)), "margin": safety - float(self._limits[self._time])}
        self._state = int(self.world.next_state[self._state, action])
        self._time += 1
        truncated = self._time == len(self._limits)
        return self._observe(), float(self.world.reward.flat[self._state]), False, truncated, info

    def _observe(self) -> Observation:
        row, column = divmod(self._state, len(self.world.altitude))
        return np.array([row, column], dtype=np.float32) * np.float32(self.world.step)
