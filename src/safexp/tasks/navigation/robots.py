"""The robots, and their sensor readings in the observation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safexp.core.arrays import Array
from safexp.tasks.navigation.things import LARGE_BOX, SMALL_BOX, Kind


@dataclass(frozen=True, slots=True)
class Robot:
    """A robot: a file of `mjcf/` and facts that the model does not contain.

    `free` distinguishes a body with a free joint (its pose is in `qpos`) from one on slides and a hinge (its initial
    pose is the frame of its body). `coordinates` is its number of entries in `qpos`, `front` its driving direction in
    its own frame, `box` the box that it can push, `size` the largest horizontal distance of a part from its centre,
    `height` the initial height of its centre.
    """

    name: str
    free: bool
    coordinates: int
    sensors: int
    front: tuple[float, float]
    box: Kind
    size: float
    height: float = 0.1

    def read(self, sensordata: Array) -> Array:
        """Sensor readings (n, `sensors`) in the order of the observation.

        Accelerometer, velocimeter, gyro, magnetometer, and for the Car its castor's angular velocity and attitude,
        the quaternion converted to a rotation matrix, which is continuous.
        """
        if sensordata.shape[1] == self.sensors:
            return sensordata
        return np.concatenate([sensordata[:, :-4], rotation_matrices(sensordata[:, -4:])], axis=1)


POINT = Robot("Point", free=False, coordinates=3, sensors=12, front=(1.0, 0.0), box=LARGE_BOX, size=0.16)
CAR = Robot("Car", free=True, coordinates=13, sensors=24, front=(0.0, -1.0), box=SMALL_BOX, size=0.22)
ROBOTS = (POINT, CAR)


def robot_named(name: str) -> Robot:
    """The robot of that name."""
    robots = {robot.name: robot for robot in ROBOTS}
    if name not in robots:
        raise ValueError(f"robot={name!r} is not known; expected one of {', '.join(map(repr, robots))}.")
    return robots[name]


def rotation_matrices(quaternions: Array) -> Array:
    """Unit quaternions (n, 4), scalar first, as row-major rotation matrices (n, 9)."""
    w, x, y, z = quaternions.T
    rows = [
        w * w + x * x - y * y - z * z,
        2 * (x * y - w * z),
        2 * (x * z + w * y),
        2 * (x * y + w * z),
        w * w - x * x + y * y - z * z,
        2 * (y * z - w * x),
        2 * (x * z - w * y),
        2 * (y * z + w * x),
        w * w - x * x - y * y + z * z,
    ]
    return np.stack(rows, axis=1)


def headings_to_quaternions(headings: Array) -> Array:
    """Rotations about the vertical (...), in radians, as unit quaternions (..., 4), scalar first."""
    zero = np.zeros_like(headings)
    return np.stack([np.cos(headings / 2), zero, zero, np.sin(headings / 2)], axis=-1)
