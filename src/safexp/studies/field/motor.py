"""gym-electric-motor's DC motor: follow the speed's set point with at most 100 A."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from safexp.constraints import Within
from safexp.core.arrays import Array, Observations
from safexp.core.extras import needed_for
from safexp.studies.field.system import System

SPEED, CURRENT, SUPPLY, STEPS = 400.0, 210.0, 60.0, 200


class Motor(gym.Env[Array, Array]):
    """The motor with two set points of the speed in an episode; the reward is 1 less the error."""

    def __init__(self) -> None:
        with needed_for("the motor of the field trials"):
            import gym_electric_motor

        self.motor = gym_electric_motor.make("Cont-SC-PermExDc-v0", constraints=())
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = self.motor.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        (self.state, _), _ = self.motor.reset(seed=seed)
        self.targets, self.count = self.np_random.uniform(-1.0, 1.0, 2), 0
        return self._seen(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        target = self._seen()[2]
        (self.state, _), *_ = self.motor.step(np.asarray(action, np.float64))
        self.count += 1
        seen = self._seen()
        return seen, 1.0 - abs(seen[0] - target), False, self.count == STEPS, {}

    def _seen(self) -> Array:  # speed and its set point in units of 12 rad/s, current in units of 100 A
        target = self.targets[self.count // 100 % 2]
        return np.array([SPEED * self.state[0] / 12.0, CURRENT * self.state[2] / 100.0, target])


def towards(wanted: Array, seen: Observations) -> Array:
    """Voltage that brings the current, in A, halfway to a wanted one in a step."""
    speed, current = 12.0 * seen[:, :1], 100.0 * seen[:, 1:2]
    return np.clip((0.016 * current + 0.165 * speed + 0.095 * (wanted - current)) / SUPPLY, -1.0, 1.0)


MOTOR = System(
    make=Motor,
    limits=Within(1, -1.0, 1.0),
    reading=lambda env: [(-100.0, CURRENT * env.unwrapped.state[2], 100.0)],
    cautious=lambda seen: towards(np.clip(120.0 * (seen[:, 2:] - seen[:, :1]), -50.0, 50.0), seen),
    backup=lambda seen: towards(np.zeros((len(seen), 1)), seen),
    horizon=15,
    noise=0.025,
    steps=40_000,
)
