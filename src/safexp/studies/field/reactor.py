"""pcgym's stirred tank with an exothermic reaction: convert as much as possible below 334 K."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from safexp.constraints import Within
from safexp.core.arrays import Array, Observations
from safexp.core.extras import needed_for
from safexp.studies.field.system import System

HOTTEST, STEPS = 334.0, 100


class Reactor(gym.Env[Array, Array]):
    """The reactor; the reward is the conversion above 10 %, times 10."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float64)  # the coolant's temperature, 293 to 305 K

    def __init__(self) -> None:
        with needed_for("the reactor of the field trials"):
            import pcgym
        wide = {"low": np.array([0.0, 250.0, 0.0]), "high": np.array([1.0, 500.0, 1.0])}
        cooling = {"low": np.array([293.0]), "high": np.array([305.0])}
        setting = {"model": "cstr", "N": STEPS + 1, "tsim": 26.26, "SP": {"Ca": [0.0] * (STEPS + 1)}, "o_space": wide}
        self.tank = pcgym.make_env(
            setting | {"a_space": cooling, "x0": np.zeros(3), "normalise_a": True, "normalise_o": False}
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.tank.env_params["x0"] = np.append(self.np_random.uniform([0.82, 318.0], [0.9, 324.0]), 0.0)
        return self._seen(self.tank.reset()[0]), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        state, _, ended, _, _ = self.tank.step(np.asarray(action, np.float64))
        return self._seen(state), 10.0 * (0.9 - state[0]), False, ended, {}

    def _seen(self, state: Array) -> Array:  # concentration and temperature, centred: 0.1 mol/l, 10 K
        return np.array([10.0 * (state[0] - 0.87), (state[1] - 324.0) / 10.0])


def cautious(seen: Observations) -> Array:
    """Coolant for 330 K: slowly up, quickly down."""
    short = 6.0 - 10.0 * seen[:, 1:]
    return np.clip(np.where(short > 0, 0.2, 0.5) * short, -1.0, 1.0)


REACTOR = System(
    make=Reactor,
    limits=Within(1, high=1.0),
    reading=lambda env: [(-np.inf, float(env.unwrapped.tank.state[1]), HOTTEST)],
    cautious=cautious,
    backup=lambda seen: np.full((len(seen), 1), -1.0),
    horizon=20,
    noise=0.3,
    steps=40_000,
)
