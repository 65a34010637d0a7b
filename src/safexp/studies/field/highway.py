"""highway-env's highway-fast-v0: drive as fast as the traffic allows, and keep a gap of 5 m to the car in front."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from safexp.constraints import Within
from safexp.core.arrays import Array, Observations
from safexp.core.extras import needed_for
from safexp.studies.field.system import System

SLOWER, IDLE, FASTER = 0, 1, 2
FAR = 100.0
GAP = 5.0


class Highway(gym.Wrapper[Array, int, Any, Any]):
    """One lane of the highway, for a car that can brake to a stop."""

    def __init__(self) -> None:
        with needed_for("the highway of the field trials"):
            import highway_env  # noqa: F401 (registers the task)
        brakes = {"type": "DiscreteMetaAction", "lateral": False, "target_speeds": [0, 5, 10, 15, 20, 25, 30]}
        road = {"lanes_count": 1, "vehicles_density": 0.5, "action": brakes}
        super().__init__(gym.make("highway-fast-v0", config=road))
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        self.env.reset(seed=seed, options=options)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        _, reward, crashed, ended, _ = self.env.step(int(action))
        return self._seen(), float(reward), crashed, ended, {}

    def _seen(self) -> Array:  # gap (50 m); own speed, that of the car in front, and the own set point (25 m/s)
        road: Any = self.env.unwrapped
        own = road.vehicle
        front, _ = road.road.neighbour_vehicles(own, own.lane_index)
        gap, speed = (FAR, 25.0) if front is None else (front.position[0] - own.position[0] - 5.0, front.speed)
        return np.array([min(gap, FAR) / 50.0, own.speed / 25.0, speed / 25.0, own.target_speed / 25.0])


def gap_of(env: Any) -> float:
    """Distance between the bumpers, from the positions of all cars on the road."""
    own = env.unwrapped.vehicle
    ahead = [car.position[0] for car in env.unwrapped.road.vehicles if car.position[0] > own.position[0]]
    return float(min(ahead, default=np.inf) - own.position[0] - own.LENGTH)


def cautious(seen: Observations) -> Array:
    """Drive for 20 m/s, or less where the gap is below two seconds."""
    slow = (seen[:, 3] > 0.85) | (seen[:, 0] < seen[:, 1])
    return np.where(slow, SLOWER, np.where(seen[:, 3] < 0.75, FASTER, IDLE))


HIGHWAY = System(
    make=Highway,
    limits=Within(0, low=GAP / 50.0),
    reading=lambda env: [(GAP, gap_of(env), np.inf)],
    cautious=cautious,
    backup=lambda seen: np.full(len(seen), SLOWER),
    horizon=8,
    noise=0.2,
    steps=4_000,
)
