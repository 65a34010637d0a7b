"""A cart that is seen by a camera alone, with its own ledger of the steps beyond its limits."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from safexp import Log

LIMIT = 0.8
PIXELS = 36


class FilmedCart(gym.Env):
    """Moves on a track, with a stop at the end of an episode; the reward is its place, so that it is drawn to the edge.

    Observations are pictures in which a bright column shows the place; with `measured` a Dict with the place beside it.
    """

    def __init__(self, measured=False, length=20):
        picture = spaces.Box(0, 255, (PIXELS, PIXELS, 1), np.uint8)
        place = spaces.Box(-2.0, 2.0, (1,), np.float64)
        self.observation_space = spaces.Dict({"camera": picture, "place": place}) if measured else picture
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.measured, self.length = measured, length
        self.ledger: list[int] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.steps = float(self.np_random.uniform(-0.3, 0.3)), 0
        self.ledger.append(0)
        return self._observation(), {"x": self.x, "cost": 0.0}

    def step(self, action):
        self.x += 0.1 * float(np.clip(action[0], -1.0, 1.0))
        self.steps += 1
        beyond = abs(self.x) > LIMIT
        self.ledger[-1] += int(beyond)
        return self._observation(), self.x, False, self.steps >= self.length, {"x": self.x, "cost": float(beyond)}

    def _observation(self):
        picture = np.zeros((PIXELS, PIXELS, 1), np.uint8)
        picture[:, int(np.clip((self.x + 1.2) / 2.4, 0.0, 0.999) * PIXELS)] = 255
        return {"camera": picture, "place": np.array([self.x])} if self.measured else picture


def place_in(pictures):
    """Feature of pictures (n, …): the place of the bright column."""
    columns = np.asarray(pictures)[..., 0].mean(axis=1)
    return (columns.argmax(axis=1) + 0.5) / PIXELS * 2.4 - 1.2


def cautious_log(measured=False, episodes=40, seed=0):
    """Log of a driver that stays in the middle."""
    rng, env, rows = np.random.default_rng(seed), FilmedCart(measured), []
    for episode in range(episodes):
        seen, _ = env.reset(seed=seed + episode)
        for _ in range(env.length):
            action = np.clip(rng.normal(-env.x, 0.7, 1), -1.0, 1.0).astype(np.float32)
            before = env.x
            following, _, _, _, info = env.step(action)
            rows.append((seen, action, following, before, info["x"], info["cost"], episode))
            seen = following
    seen, actions, following, before, after, costs, numbers = zip(*rows, strict=True)

    def stacked(observations):
        return (
            {key: np.stack([one[key] for one in observations]) for key in observations[0]}
            if measured
            else np.stack(observations)
        )

    return Log(
        stacked(seen),
        np.stack(actions),
        np.array(costs),
        episodes=np.array(numbers),
        signals={"x": np.array(after)},
        next_observations=stacked(following),
    )
