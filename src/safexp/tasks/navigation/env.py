"""A single navigation task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from safexp.core.arrays import Array
from safexp.envs.infos import Info
from safexp.tasks.navigation.batches import checked_actions, first_of
from safexp.tasks.navigation.layouts import Layout
from safexp.tasks.navigation.vector_env import FRAMES_PER_SECOND, UNLIMITED, CostKind, NavigationVectorEnv
from safexp.tasks.scene import Place, Scene


class NavigationEnv(gym.Env[Array, Array]):
    """A single navigation task: a `NavigationVectorEnv` of one, with its options. A wrapper applies the time limit."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": FRAMES_PER_SECOND}  # noqa: RUF012

    def __init__(
        self,
        robot: str = "Point",
        layout: str | Layout = "Static",
        *,
        cost: CostKind = "indicator",
        hazards: int | Sequence[Place] | None = None,
        hazard_radius: float | None = None,
        extent: float | None = None,
        lidar_bins: int = 16,
        render_mode: str | None = None,
    ) -> None:
        self.batch = NavigationVectorEnv(
            1,
            robot,
            layout,
            cost=cost,
            hazards=hazards,
            hazard_radius=hazard_radius,
            extent=extent,
            lidar_bins=lidar_bins,
            max_episode_steps=UNLIMITED,
            autoreset_mode=AutoresetMode.DISABLED,
            render_mode=render_mode,
        )
        self.render_mode = render_mode
        self.observation_space = self.batch.single_observation_space
        self.action_space = self.batch.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        """Start an episode; returns the observation (d,) and its info."""
        super().reset(seed=seed)
        observations, info = self.batch.reset(seed=seed)
        return observations[0], first_of(info)

    def step(self, action: ArrayLike) -> tuple[Array, float, bool, bool, Info]:
        """Apply `action` (2,)."""
        observations, rewards, terminated, _, info = self.batch.step(checked_actions(action, (2,))[None])
        return observations[0], float(rewards[0]), bool(terminated[0]), False, first_of(info)

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (height, width, 3), or `None` without a render mode."""
        frames = self.batch.render()
        return frames[0] if frames else None

    def scene(self) -> Scene:
        """The present scene from above."""
        return self.batch.scene(0)
