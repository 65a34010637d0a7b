"""Gymnasium's InvertedPendulum on a cart that must follow a jumping set point, within limits on position and angle."""

from __future__ import annotations

from functools import cache
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from safexp.core.arrays import Array, Observations
from safexp.core.extras import needed_for
from safexp.shield.logs import Log
from safexp.tasks.knowledge import Knowledge

POSITION, ANGLE = 0.3, 0.12
"""Limits in metres and radians; the environment itself ends at an angle of 0.2."""
SET_POINT, PERIOD = 0.22, 50
"""The set point jumps between ±0.22 m every 50 steps of 40 ms."""
HORIZON = 60
"""Steps after which the regulator has brought the cart back to the middle."""
CAUTION = 0.3
"""Share of the set point that the cautious controller follows."""
NOISE = 0.2
"""Standard deviation of the noise on its control, whose range is ±3."""
EPISODES = 100


class PendulumReach(gym.Env[Array, Array]):
    """InvertedPendulum-v5 with a set point as fifth observation; reward 1 − |x − set point| / 0.5 while upright.

    `info` has the signals `x` and `angle`, also after `reset`. The original pays 1 for every step, so that a linear
    regulator already gets the maximum; this reward favours speed.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 25}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        with needed_for("Gymnasium's InvertedPendulum"):
            import mujoco  # noqa: F401 (Gymnasium raises another error where it is missing)
            from gymnasium.envs.mujoco.inverted_pendulum_v5 import InvertedPendulumEnv
        self.inner: Any = InvertedPendulumEnv(render_mode=render_mode)
        self.render_mode = render_mode
        self.action_space = self.inner.action_space
        self.observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float64)
        self.knowledge = Knowledge(log=cautious_log, backup=(regulate, HORIZON))
        self._sign, self._steps = 1.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start in the middle, nearly at rest; the first set point is randomly left or right."""
        super().reset(seed=seed)
        observation, _ = self.inner.reset(seed=seed)
        self._sign, self._steps = float(self.np_random.choice([-1.0, 1.0])), 0
        return self._shown(observation), _signals(observation)

    def step(self, action: Any) -> tuple[Array, SupportsFloat, bool, bool, dict[str, Any]]:
        """One step of 40 ms."""
        aimed_at = self._set_point
        observation, reward, terminated, truncated, _ = self.inner.step(action)
        self._steps += 1
        paid = float(reward) - abs(float(observation[0]) - aimed_at) / 0.5
        return self._shown(observation), paid, terminated, truncated, _signals(observation)

    def render(self) -> Any:
        """Image rendered by MuJoCo."""
        return self.inner.render()

    def close(self) -> None:
        """Close MuJoCo's window, if there is one."""
        self.inner.close()

    @property
    def _set_point(self) -> float:
        return self._sign * SET_POINT * (1.0 if (self._steps // PERIOD) % 2 == 0 else -1.0)

    def _shown(self, observation: Array) -> Array:
        return np.append(observation, self._set_point)


def regulate(observations: Observations) -> Array:
    """Controls (n, 1) of a linear-quadratic regulator to the middle: the backup."""
    return np.minimum(np.maximum(-np.asarray(observations)[:, :4] @ gains()[:, None], -3.0), 3.0)


def follow_cautiously(observations: Observations) -> Array:
    """Controls (n, 1) of the same regulator, following three tenths of the set point."""
    errors = np.array(observations, dtype=np.float64)
    errors[:, 0] -= CAUTION * errors[:, 4]
    return regulate(errors)


def cautious_log(rng: np.random.Generator) -> Log:
    """Log of the cautious controller with noise on its control."""
    env, rows = PendulumReach(), []
    for episode in range(EPISODES):
        before, _ = env.reset(seed=int(rng.integers(2**31)))
        for _ in range(300):
            control = follow_cautiously(before[None])[0] + NOISE * rng.normal(size=1).clip(-2.0, 2.0)
            action = np.clip(control, -3.0, 3.0).astype(np.float32)
            after, _, _, _, info = env.step(action)
            rows.append((before, action, after, info["x"], info["angle"], episode))
            before = after
    env.close()
    before, action, after, x, angle, episodes = (np.array(column) for column in zip(*rows, strict=True))
    return Log(before, action, episodes=episodes, signals={"x": x, "angle": angle}, next_observations=after)


@cache
def gains() -> Array:
    """Gains (4,) of the regulator, from finite differences of MuJoCo about the upright position at rest."""
    from scipy.linalg import solve_discrete_are

    inner, small = PendulumReach().inner, 1e-4
    inner.reset(seed=0)

    def after(state: Array, control: float) -> Array:
        inner.set_state(state[:2], state[2:])
        inner.do_simulation(np.array([control]), inner.frame_skip)
        return np.concatenate([inner.data.qpos, inner.data.qvel])

    moves = small * np.eye(4)
    a = np.stack([(after(move, 0.0) - after(-move, 0.0)) / (2 * small) for move in moves], axis=1)
    b = ((after(np.zeros(4), small) - after(np.zeros(4), -small)) / (2 * small))[:, None]
    inner.close()
    weights, effort = np.diag([5.0, 10.0, 0.1, 0.1]), np.eye(1)
    riccati = solve_discrete_are(a, b, weights, effort)
    return np.linalg.solve(effort + b.T @ riccati @ b, b.T @ riccati @ a)[0]


def _signals(observation: Array) -> dict[str, Any]:
    return {"x": float(observation[0]), "angle": float(observation[1])}
