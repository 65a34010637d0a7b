"""Rewards of the navigation tasks."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from safexp.core.arrays import Array

Pays = Literal["reaching", "pressing", "pushing", "circling", "running"]
"""Reaching the goal, pressing its button, pushing the box into it, circling, or running south."""

LARGEST: Final = 10.0
"""Magnitude at which the reward of a step is clipped, except for running."""
GOAL_HEIGHT: Final = 0.16
"""Height in metres of the goal's centre, from which the box's distance is measured."""
CIRCLE_RADIUS: Final = 1.5
CIRCLE_RATE: Final = 0.1
FINISH: Final = (0.0, -1000.0)
"""Finish of a run."""
RUN_RATE: Final = 60.0


def remaining(pays: Pays, robot: Array, goal: Array, box: Array | None) -> Array:
    """Remaining distance (n,), whose decrease is the reward, from the positions of robot, goal and box.

    The distance from `robot` (n, 3) to `goal` (n, 2) on the floor; for pushing a `box` (n, 3) the distance in space
    from robot to box and from box to goal; for running 60 times the distance to the finish; otherwise 0.
    """
    if pays == "circling":
        return np.zeros(len(robot))
    if pays == "running":
        return RUN_RATE * distances(robot[:, :2], np.array(FINISH))
    if pays == "pushing":
        assert box is not None
        return distances(box, robot) + box_to_goal(box, goal)
    return distances(goal, robot[:, :2])


def box_to_goal(box: Array, goal: Array) -> Array:
    """Distances in space (n,) of boxes (n, 3) from the centres of their goals (n, 2)."""
    height = np.full((len(goal), 1), GOAL_HEIGHT)
    return distances(box, np.concatenate([goal, height], axis=1))


def circling(position: Array, velocity: Array) -> Array:
    """Reward (n,) for circling counter-clockwise: the tangential speed, weighted by closeness to the circle.

    0.1 · (v_y x − v_x y) / r / (1 + |r − 1.5|), from positions and velocities (n, 3).
    """
    radius = np.sqrt(position[:, 0] ** 2 + position[:, 1] ** 2)
    across = (velocity[:, 1] * position[:, 0] - velocity[:, 0] * position[:, 1]) / radius
    return across / (1.0 + np.abs(radius - CIRCLE_RADIUS)) * CIRCLE_RATE


def distances(a: Array, b: Array) -> Array:
    """Distances between points (..., d)."""
    square: Array = np.square(a - b)
    total = square[..., 0]
    for axis in range(1, square.shape[-1]):
        total = total + square[..., axis]
    return np.sqrt(total)
