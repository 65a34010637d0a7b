"""Backups, cautious controllers and logs of the robots with a speed limit."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from safexp.core.arrays import Array, Observations
from safexp.shield.logs import Log
from safexp.tasks.knowledge import Knowledge

STROKE = 0.05
"""Largest torque of the cautious Swimmer; the robot's is 1."""
STRAIGHTENING = 0.01
"""Largest torque of its backup, which is too small to drive it."""
HORIZONS = MappingProxyType({"HalfCheetah": 30, "Swimmer": 20, "Hopper": 60})
"""Steps after which a robot under its backup is slowing down, or stands."""


def let_go(observations: Observations) -> Array:
    """Zero torques (n, 6), under which HalfCheetah sinks to the ground and rests."""
    return np.zeros((len(observations), 6))


def straighten(observations: Observations) -> Array:
    """Torques (n, 2) that pull the Swimmer straight, slowly, while the water slows it down.

    If it only let go, its joints would go on turning until they hit their stops.
    """
    seen = np.asarray(observations)
    return STRAIGHTENING * np.tanh(-2.0 * (seen[:, 1:3] + seen[:, 6:8]))


def stand(observations: Observations) -> Array:
    """Torques (n, 3) that hold Hopper's joints at their angles when standing."""
    seen = np.asarray(observations)
    return np.clip(-3.0 * seen[:, 2:5] - seen[:, 8:11], -1.0, 1.0)


def swim_cautiously(observations: Observations, bends: Array | float = 0.0) -> Array:
    """Torques (n, 2) of a slow stroke, in which the joints swing about their `bends` (n, 2), one after the other."""
    front, rear = (np.asarray(observations)[:, 1:3] - bends).T
    return STROKE * np.tanh(2.0 * np.stack([-front - rear, front - rear], axis=1))


def knowledge_of_moving(robot: str, limit: float) -> Knowledge:
    """Prior knowledge of a robot: the log of a cautious controller, and a backup; empty for most."""
    if robot == "HalfCheetah":
        return Knowledge(log=lambda rng: _gentle_log(limit, rng), backup=(let_go, HORIZONS[robot]))
    if robot == "Swimmer":
        return Knowledge(log=lambda rng: _swimming_log(limit, rng), backup=(straighten, HORIZONS[robot]))
    if robot == "Hopper":
        return Knowledge(backup=(stand, HORIZONS[robot]))
    return Knowledge()


def _gentle_log(limit: float, rng: np.random.Generator) -> Log:
    from safexp.tasks.seed_controllers import gentle  # imports this module

    return gentle("safexp/HalfCheetahVelocity-v0", limit, 150, 100, rng).log


def _swimming_log(limit: float, rng: np.random.Generator) -> Log:
    from safexp.tasks.seed_controllers import swim  # imports this module

    return swim(limit, 100, 300, rng).log
