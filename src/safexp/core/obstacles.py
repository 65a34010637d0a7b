"""Obstacles and walls in the plane: what a mobile robot measures of them, and its distance to them along a path."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from safexp.core.arrays import Array

POSE = 3
"""Entries of a pose: x, y and the heading in radians."""


@dataclass(frozen=True)
class Obstacles:
    """Round obstacles and walls that a robot in the plane must stay out of, as its environment reports them.

    A step costs something while the robot's centre is within `radius` of an obstacle or beyond a wall. The pose and the
    places are in one fixed frame, such as that of a map; both are measured at every step and at the reset.

    Args:
        count: number of obstacles; 0 if there are walls alone.
        radius: distance from an obstacle's centre within which a step has a cost, one for all or one for each.
        places: key of the info with the obstacles' places (count, 2).
        pose: key of the info with the robot's pose (3,): x, y, and its heading in radians.
        speed: largest distance that an obstacle can move in a step; 0 for stationary ones.
        solid: how many of the obstacles, the last ones, are bodies that stop the robot or are pushed by it: a budget
            cannot be spent on crossing them. Their radius includes the robot's own.
        walls: largest allowed |x| and |y|, infinite where there is no wall.

    Example:
        >>> safexp.Obstacles(1, 0.2).sources
        ('pose[0]', 'pose[1]', 'pose[2]', 'hazards[0]', 'hazards[1]')
    """

    count: int
    radius: float | Sequence[float] = 0.0
    _: KW_ONLY
    places: str = "hazards"
    pose: str = "pose"
    speed: float = 0.0
    solid: int = 0
    walls: Sequence[float] | None = None

    def __post_init__(self) -> None:
        least = 1 if self.walls is None else 0
        if not (isinstance(self.count, int) and self.count >= least):
            raise ValueError(
                f"Obstacles(count={self.count}) must be a whole number of at least 1, or 0 with walls=(|x|, |y|)."
            )
        if isinstance(self.radius, Sequence):
            object.__setattr__(self, "radius", tuple(map(float, self.radius)))
        if len(self.radii) != self.count:
            raise ValueError(f"Obstacles(radius={self.radius}): give one radius, or one for each of {self.count}.")
        if not all(0.0 < radius < math.inf for radius in self.radii.tolist()):
            raise ValueError(f"Obstacles(radius={self.radius}) must be a finite length, radius in metres.")
        if not 0.0 <= self.speed < math.inf:
            raise ValueError(f"Obstacles(speed={self.speed}) must be a finite length, speed in metres.")
        if not 0 <= self.solid <= self.count:
            raise ValueError(f"Obstacles(solid={self.solid}) must be a number of obstacles, 0 to {self.count}.")
        if self.walls is not None:
            object.__setattr__(self, "walls", tuple(map(float, self.walls)))
            if len(self.walls) != 2 or not all(wall > 0.0 for wall in self.walls):
                raise ValueError(f"Obstacles(walls={self.walls}) must be two lengths: the largest |x| and |y|.")

    @classmethod
    def of(cls, given: Obstacles | Mapping[str, Any] | None) -> Obstacles | None:
        """Obstacles from their settings in a file, or as they are."""
        return cls(**given) if isinstance(given, Mapping) else given

    @property
    def radii(self) -> Array:
        """Radius (count,) of each obstacle."""
        given = self.radius
        return np.array(given) if isinstance(given, tuple) else np.full(self.count, float(given))  # type: ignore[arg-type]

    @property
    def sources(self) -> tuple[str, ...]:
        """Signals to measure: the pose, then the places one after another."""
        return (
            *(f"{self.pose}[{k}]" for k in range(POSE)),
            *(f"{self.places}[{k}]" for k in range(2 * self.count)),
        )


def in_robot_frame(measured: Array) -> Array:
    """Places (n, m, 2) of obstacles as seen by robots, from measured poses and places (n, 3 + 2m)."""
    pose, places = measured[:, None, :POSE], measured[:, POSE:].reshape(len(measured), measured.shape[1] // 2 - 1, 2)
    return rotated(places - pose[..., :2], -pose[..., 2])


def rotated(vectors: Array, angles: Array) -> Array:
    """Vectors (..., 2) rotated anticlockwise by angles (...) in radians."""
    cosine, sine = np.cos(angles), np.sin(angles)
    x, y = vectors[..., 0], vectors[..., 1]
    return np.stack([cosine * x - sine * y, sine * x + cosine * y], axis=-1)


def distances_to(path: Array, places: Array, radii: Array | float = 0.0) -> Array:
    """Distance (n, T) of each section of paths from the nearest of discs at places (n, m, 2) with radii (n, m).

    A path (n, T, 2) begins at the origin; section k leads from point k − 1 to point k in a straight line.
    """
    begin = np.concatenate([np.zeros_like(path[:, :1]), path[:, :-1]], axis=1)
    along = path - begin
    length = np.maximum((along**2).sum(axis=-1), np.finfo(np.float64).tiny)
    seen = places[:, None] - begin[:, :, None]  # (n, T, m, 2)
    share = np.clip((seen * along[:, :, None]).sum(axis=-1) / length[..., None], 0.0, 1.0)
    nearest = seen - share[..., None] * along[:, :, None]
    away = np.sqrt((nearest**2).sum(axis=-1))
    return (away - np.asarray(radii)[..., None, :] if np.ndim(radii) else away - radii).min(axis=-1)


def distances_to_walls(path: Array, pose: Array, walls: Sequence[float]) -> Array:
    """Distance (n, T) of each section of paths (n, T, 2), seen from poses (n, 3), to the nearest wall, |x| or |y|."""
    places = np.concatenate([np.zeros_like(path[:, :1]), path], axis=1)
    places = rotated(places, pose[:, None, 2]) + pose[:, None, :2]
    room = (np.asarray(walls) - np.abs(places)).min(axis=-1)
    return np.minimum(room[:, :-1], room[:, 1:])
