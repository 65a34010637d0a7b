"""Obstacles in the plane: what a mobile robot measures of them, and its distance to them along a path."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from safexp.core.arrays import Array

POSE = 3
"""Entries of a pose: x, y and the heading in radians."""


@dataclass(frozen=True)
class Obstacles:
    """Round obstacles that a robot in the plane must stay out of, as its environment reports them.

    A step costs something while the robot's centre is within `radius` of an obstacle. The pose and the places are in
    one fixed frame, such as that of a map; both are measured at every step and at the reset.

    Args:
        count: number of obstacles.
        radius: distance from an obstacle's centre within which a step has a cost.
        places: key of the info with the obstacles' places (count, 2).
        pose: key of the info with the robot's pose (3,): x, y, and its heading in radians.
        speed: largest distance that an obstacle can move in a step; 0 for stationary ones.

    Example:
        >>> safexp.Obstacles(1, 0.2).sources
        ('pose[0]', 'pose[1]', 'pose[2]', 'hazards[0]', 'hazards[1]')
    """

    count: int
    radius: float
    _: KW_ONLY
    places: str = "hazards"
    pose: str = "pose"
    speed: float = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.count, int) and self.count >= 1):
            raise ValueError(f"Obstacles(count={self.count}) must be a whole number of at least 1.")
        for name, least in (("radius", 0.0), ("speed", -1.0)):
            if not least < (value := getattr(self, name)) < math.inf or value < 0:
                raise ValueError(f"Obstacles({name}={value}) must be a finite length, {name} in metres.")

    @classmethod
    def of(cls, given: Obstacles | Mapping[str, Any] | None) -> Obstacles | None:
        """Obstacles from their settings in a file, or as they are."""
        return cls(**given) if isinstance(given, Mapping) else given

    @property
    def sources(self) -> tuple[str, ...]:
        """Signals to measure: the pose, then the places one after another."""
        return (
            *(f"{self.pose}[{k}]" for k in range(POSE)),
            *(f"{self.places}[{k}]" for k in range(2 * self.count)),
        )


def in_robot_frame(measured: Array) -> Array:
    """Places (n, m, 2) of obstacles as seen by robots, from measured poses and places (n, 3 + 2m)."""
    pose, places = measured[:, None, :POSE], measured[:, POSE:].reshape(len(measured), -1, 2)
    return rotated(places - pose[..., :2], -pose[..., 2])


def rotated(vectors: Array, angles: Array) -> Array:
    """Vectors (..., 2) rotated anticlockwise by angles (...) in radians."""
    cosine, sine = np.cos(angles), np.sin(angles)
    x, y = vectors[..., 0], vectors[..., 1]
    return np.stack([cosine * x - sine * y, sine * x + cosine * y], axis=-1)


def distances_to(path: Array, places: Array) -> Array:
    """Distance (n, T) of each section of paths from the nearest of some places (n, m, 2).

    A path (n, T, 2) begins at the origin; section k leads from point k − 1 to point k in a straight line.
    """
    begin = np.concatenate([np.zeros_like(path[:, :1]), path[:, :-1]], axis=1)
    along = path - begin
    length = np.maximum((along**2).sum(axis=-1), np.finfo(np.float64).tiny)
    seen = places[:, None] - begin[:, :, None]  # (n, T, m, 2)
    share = np.clip((seen * along[:, :, None]).sum(axis=-1) / length[..., None], 0.0, 1.0)
    nearest = seen - share[..., None] * along[:, :, None]
    return np.sqrt((nearest**2).sum(axis=-1).min(axis=-1))
