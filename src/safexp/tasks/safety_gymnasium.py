"""Drop-in for `safety_gymnasium.make`: the navigation tasks under its ids, with a step of six values.

Example:
    >>> from safexp import safety_gymnasium
    >>> env = safety_gymnasium.make("SafetyPointButton1-v0")
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, cost, terminated, truncated, info = env.step(env.action_space.sample())
    >>> cost
    0.0
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from numpy.typing import NDArray

from safexp.tasks import register
from safexp.tasks.navigation.robots import ROBOTS
from safexp.tasks.navigation.suite import SUITE

PREFIX = "Safety"
IDS = tuple(f"{PREFIX}{robot.name}{layout.name}-v0" for robot in ROBOTS for layout in SUITE)


def make(id: str, **options: Any) -> SixValueEnv:
    """Make the task with Safety-Gymnasium's `id`, one of `IDS`; `options` are those of `gymnasium.make`."""
    if id not in IDS:
        raise ValueError(f"{id!r} is not known; expected one of {', '.join(IDS)}.")
    register()
    return SixValueEnv(gym.make(f"safexp/{id.removeprefix(PREFIX)}", **options))


class SixValueEnv(gym.Wrapper[Any, Any, Any, Any]):
    """A task whose `step` returns six values, the third being the cost, with Safety-Gymnasium's `info`.

    `info` has the parts of the cost, each 0 or 1, `cost_sum`, also 0 or 1, and `goal_met` when the goal is met.
    `cost_buttons` is 0 for the ten steps after a press; the original omits it then.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], Any]:
        """Start an episode; `info` is empty."""
        observation, _ = self.env.reset(seed=seed, options=options)
        return observation, {}

    def step(self, action: Any) -> Any:
        """Observation, reward, cost, terminated, truncated, info."""
        observation, reward, terminated, truncated, told = self.env.step(action)
        info = {key: value for key, value in told.items() if key.startswith("cost_")}
        info["cost_sum"] = told["cost"]
        if told["goal_met"]:
            info["goal_met"] = True
        return observation, reward, told["cost"], terminated, truncated, info
