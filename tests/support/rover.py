"""A rover in the plane among round obstacles, with its own ledger of the steps it spent inside one."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from safexp import Log

PLACES = np.array([[2.0, 0.0], [0.0, 2.5]])
RADIUS = 0.5
HORIZON = 30


class Rover(gym.Env):
    """Accelerates along its heading and turns; observes its speed between two numbers that mean nothing."""

    def __init__(self, places=PLACES, length=100, start=(0.0, 0.0, 0.0)):
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.places, self.length, self.start = np.array(places), length, start
        self.inside: list[int] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.y, self.heading, self.speed, self.steps = *self.start, 0.0, 0
        self.inside.append(0)
        return self._observation(), self._info(0.0)

    def step(self, action):
        self.speed = 0.9 * self.speed + 0.03 * float(action[0])
        self.heading += 0.2 * float(action[1])
        self.x += self.speed * np.cos(self.heading)
        self.y += self.speed * np.sin(self.heading)
        self.steps += 1
        cost = float(np.hypot(*(self.places - (self.x, self.y)).T).min() < RADIUS)
        self.inside[-1] += int(cost)
        return self._observation(), self.speed, False, self.steps >= self.length, self._info(cost)

    def _observation(self):
        return np.array([np.sin(7.0 * self.steps_taken), self.speed, np.cos(5.0 * self.steps_taken)])

    @property
    def steps_taken(self):
        return self.steps + 13 * len(self.inside)

    def _info(self, cost):
        return {"cost": cost, "pose": np.array([self.x, self.y, self.heading]), "hazards": self.places}


def brake(observations):
    """Accelerations against the speed."""
    push = np.clip(-3.0 * observations[:, 1], -1.0, 1.0)
    return np.stack([push, np.zeros_like(push)], axis=1)


def drill_log(drills=400, seed=0, hold=0):
    """Random driving, the last action held, and then the brake, far from all obstacles, an episode each."""
    rng, rows = np.random.default_rng(seed), []
    env = Rover(places=PLACES + 1000.0, length=10_000)
    before, _ = env.reset()
    for episode in range(drills):
        course, drive = rng.uniform(-1.2, 1.2, 2), int(rng.integers(1, 25))
        for k in range(drive + hold + HORIZON + 2):
            if k < drive:
                action = np.clip(course + 0.3 * rng.normal(size=2), -1.0, 1.0).astype(np.float32)
            elif k >= drive + hold:
                action = brake(before[None])[0].astype(np.float32)
            after, _, _, _, info = env.step(action)
            rows.append((before, action, after, info["cost"], info["pose"], info["hazards"], episode))
            before = after
    seen, actions, following, costs, pose, hazards, episodes = map(np.array, zip(*rows, strict=True))
    signals = {"pose": pose, "hazards": hazards}
    return Log(seen, actions, costs, episodes=episodes, signals=signals, next_observations=following)
