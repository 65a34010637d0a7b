"""Adapter for environments whose `step` returns the cost as a sixth value."""

from __future__ import annotations

from typing import Any, SupportsFloat, cast

import gymnasium as gym


def adapt(env: Any, cost_max: float = 1.0) -> SixTuple:
    """Wrap an environment whose step returns Safety-Gymnasium's six values as a Gymnasium environment.

    The cost goes to `info["cost"]`, divided by `cost_max`, the largest cost of one step, so that it lies in [0, 1].
    `env` needs `reset`, `step` and its two spaces; it need not be a Gymnasium class.

    Args:
        env: has `reset`, `step` and its two spaces; it need not be a Gymnasium class.
        cost_max: largest cost of one step, in the environment's units.

    Example:
        >>> class Six:
        ...     observation_space = action_space = gym.spaces.Box(-1.0, 1.0, (1,))
        ...     def reset(self, *, seed=None, options=None):
        ...         return np.zeros(1, np.float32), {}
        ...     def step(self, action):
        ...         return np.zeros(1, np.float32), 1.0, 5.0, False, False, {}
        >>> env = safexp.adapt(Six(), cost_max=10.0)
        >>> _ = env.reset()
        >>> env.step(np.zeros(1, np.float32))[-1]["cost"]
        0.5
    """
    return SixTuple(env, cost_max)


class SixTuple(gym.Env[Any, Any]):
    """Gymnasium environment around one whose `step` returns six values.

    Without a `cost_max` results are passed on as they are: six values with an unscaled cost, or five.
    """

    def __init__(self, env: Any, cost_max: float | None) -> None:
        for part in ("reset", "step", "observation_space", "action_space"):
            if not hasattr(env, part):
                raise ValueError(
                    f"adapt() was given {type(env).__name__}, which has no `{part}`; expected an environment whose "
                    "step(action) returns (observation, reward, cost, terminated, truncated, info)."
                )
        if cost_max is not None and not cost_max > 0:
            raise ValueError(f"cost_max={cost_max!r}: expected the largest cost of a step, a positive number.")
        self.env = env
        self.cost_max = cost_max
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self.metadata = dict(getattr(env, "metadata", {}))
        self.render_mode = getattr(env, "render_mode", None)
        self.spec = getattr(env, "spec", None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode, at no cost."""
        super().reset(seed=seed)
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "cost": 0.0}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """One step; raises `ValueError` if it does not return six values, or if the cost is outside [0, cost_max]."""
        result = self.env.step(action)
        if self.cost_max is None and len(result) == 5:
            return cast("tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]", result)
        if len(result) != 6:
            raise ValueError(
                f"step() returned {len(result)} values; adapt() expects six, with the cost in third place. An "
                "environment that puts the cost into info['cost'] needs no adapter."
            )
        observation, reward, cost, terminated, truncated, info = result
        if self.cost_max is None:
            return observation, reward, terminated, truncated, {**info, "cost": cost}
        if not 0.0 <= cost <= self.cost_max:
            raise ValueError(
                f"step() returned cost {cost!r}, outside [0, {self.cost_max}]; "
                "call adapt(env, cost_max=...) with the largest cost of a step."
            )
        cost = float(cost) / self.cost_max
        return observation, float(reward), bool(terminated), bool(truncated), {**info, "cost": cost}

    def render(self) -> Any:
        """Rendering of the inner environment."""
        return self.env.render()

    def close(self) -> None:
        """Close the inner environment."""
        self.env.close()

    def __getattr__(self, name: str) -> Any:
        """Other attributes of the inner environment."""
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)
