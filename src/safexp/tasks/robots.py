"""The robots: their MuJoCo models and how the observation reads their sensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

VASE_SIZE = 0.1
"""Half the edge of the vase, a box light enough (8 mg) to be pushed by a touch."""
VASE_HEIGHT = VASE_SIZE - 4e-5
"""Where the vase's centre rests: its weight presses it this far into MuJoCo's soft floor."""


@dataclass(frozen=True, slots=True)
class Robot:
    """A robot as a file of `mjcf/` and the facts about it that the model does not say.

    `free` tells a body with a free joint (its pose is in `qpos`) from one on slides and a hinge (its start pose is
    the frame of its body). `coordinates` is its share of `qpos`, `front` the way it drives, in its own frame.
    """

    name: str
    free: bool
    coordinates: int
    sensors: int
    front: tuple[float, float]

    def model(self, vase: bool) -> mujoco.MjModel:
        """The robot on a floor, with or without a vase; the robot's coordinates come first."""
        spec = mujoco.MjSpec.from_file(str(Path(__file__).parent / "mjcf" / f"{self.name.lower()}.xml"))
        if vase:
            body = spec.worldbody.add_body(name="vase", pos=[0, 0, VASE_HEIGHT])
            body.add_freejoint()
            body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[VASE_SIZE] * 3, density=1e-3, condim=6)
        return spec.compile()

    def read(self, sensordata: Array) -> Array:
        """The sensors (n, `sensors`) as the observation has them.

        Accelerometer, velocimeter, gyro, magnetometer, and for the Car its castor's angular velocity and attitude,
        the quaternion turned into a rotation matrix, which has no seam.
        """
        if sensordata.shape[1] == self.sensors:
            return sensordata
        return np.concatenate([sensordata[:, :-4], rotation_matrices(sensordata[:, -4:])], axis=1)


POINT = Robot("Point", free=False, coordinates=3, sensors=12, front=(1.0, 0.0))
CAR = Robot("Car", free=True, coordinates=13, sensors=24, front=(0.0, -1.0))


def robot_named(name: str) -> Robot:
    """The robot of that name."""
    robots = {robot.name: robot for robot in (POINT, CAR)}
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
    """Turns about the vertical (n,), in radians, as unit quaternions (n, 4), scalar first."""
    zero = np.zeros_like(headings)
    return np.stack([np.cos(headings / 2), zero, zero, np.sin(headings / 2)], axis=1)
