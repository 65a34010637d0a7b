"""Escape controller: drives the Point or the Car straight out of a hazard, with a bound on how long that takes."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from safexp.core.arrays import Array
from safexp.tasks.navigation.lidar import RANGE
from safexp.tasks.navigation.robots import Robot

EAGERNESS = 4.0
"""Turning action per radian of heading error."""
CLEARANCE = 0.03
"""Metres added to the hazard's radius."""


@dataclass(frozen=True)
class Handling:
    """Manoeuvrability of a robot, in metres, radians and control steps.

    Fitted to 16,000 (Point) and 6,000 (Car) escapes of `Escape.drive` from random approaches, so that `steps` bounds
    998 of 1,000 of those shorter than 20 steps as tightly as possible.

    Args:
        seconds: duration of a control step.
        wheels: whether the two actions are wheels that saturate, or push and turn.
        brake: deceleration of an approach in a step, metres per step.
        pull: acceleration of a retreat in a step.
        coast: steps in which an approach is not yet braked, per radian between heading and radius.
        turn: steps for turning, per radian.
        room: depth in metres at which half of that is lost.
    """

    seconds: float
    wheels: bool
    brake: float
    pull: float
    coast: float
    turn: float
    room: float


HANDLING = MappingProxyType(
    {
        "Point": Handling(0.02, wheels=False, brake=2.05e-3, pull=9e-4, coast=1.4, turn=5.9, room=0.35),
        "Car": Handling(0.04, wheels=True, brake=1.35e-2, pull=1.6e-3, coast=1.2, turn=13.6, room=2.5e-3),
    }
)

WHEEL = 0.02
"""Action at which a Car's wheel saturates."""


class Escape:
    """Drives a robot radially out of a single hazard, forwards or backwards, from its observations.

    The lidar gives the hazard's distance and direction exactly if it is the only object on its channel: a bin reads the
    closeness c, and the next one f·c if the direction is a fraction f into the bin.
    """

    def __init__(self, robot: Robot, hazard_radius: float, bins: int) -> None:
        self.handling = HANDLING[robot.name]
        self.radius = hazard_radius
        self._hazard = slice(robot.sensors + bins, robot.sensors + 2 * bins)
        self._nose = float(np.arctan2(robot.front[1], robot.front[0]))

    def drive(self, observations: Array) -> Array:
        """Actions (n, 2) that drive straight out."""
        _, bearing = self.locate(observations)
        away = _wrapped(bearing + np.pi - self._nose)
        ahead = np.abs(away) <= np.pi / 2
        turn = EAGERNESS * _wrapped(np.where(ahead, away, away + np.pi))
        push = np.where(ahead, 1.0, -1.0)
        if self.handling.wheels:
            push = push * np.cos(turn / EAGERNESS)
            return np.clip(WHEEL * np.stack([push + turn, push - turn], axis=1), -1.0, 1.0)
        return np.clip(np.stack([push, turn], axis=1), -1.0, 1.0)

    def steps(self, observations: Array) -> Array:
        """Bound (n,) on the steps inside the hazard if `drive` takes over now.

        The radial motion is braked at a constant rate until its deepest point and accelerated outwards at another; a
        robot whose heading differs from the radius by φ first coasts and turns for times proportional to φ.
        """
        how = self.handling
        distance, bearing = self.locate(observations)
        off = _wrapped(bearing - self._nose)
        off = np.minimum(np.abs(off), np.pi - np.abs(off))
        velocity = how.seconds * observations[:, 3:5]  # the velocimeter: metres per step, in the robot's frame
        approach = velocity[:, 0] * np.cos(bearing) + velocity[:, 1] * np.sin(bearing)
        inward, outward = np.maximum(approach, 0.0), np.maximum(-approach, 0.0)
        gap = distance - self.radius - CLEARANCE - how.coast * off * inward
        at_edge = np.sqrt(np.maximum(inward**2 - 2 * how.brake * np.maximum(gap, 0.0), 0.0))
        depth = np.maximum(-gap, 0.0) + at_edge**2 / (2 * how.brake)
        out = (np.sqrt(outward**2 + 2 * how.pull * depth) - outward) / how.pull
        turning = how.turn * off * depth / (depth + how.room)
        return np.where(depth > 0, at_edge / how.brake + out + turning, 0.0)

    def locate(self, observations: Array) -> tuple[Array, Array]:
        """Distance (n,) of the hazard's centre and its direction (n,) in the robot's frame."""
        readings = observations[:, self._hazard]
        rows, bins = np.arange(len(readings)), readings.shape[1]
        nearest = readings.argmax(axis=1)
        closeness = readings[rows, nearest]
        fraction = readings[rows, (nearest + 1) % bins] / np.maximum(closeness, np.finfo(np.float64).tiny)
        return RANGE * (1.0 - closeness), (nearest + fraction) * (2 * np.pi / bins)


def _wrapped(angles: Array) -> Array:
    """Angles in [−π, π)."""
    return (angles + np.pi) % (2 * np.pi) - np.pi
