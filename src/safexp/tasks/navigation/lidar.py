"""Pseudo-lidar: closeness of the nearest object in each of a ring of directions around the robot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array

RANGE = 3.0
"""Range in metres in most tasks."""


def lidar(
    things: Array, channels: NDArray[np.intp], position: Array, rotation: Array, *, bins: int, reach: float = RANGE
) -> Array:
    """Readings (n, channels · bins) of objects at `things` (n, k, 2), each on its channel in `channels` (k,).

    An object at distance d and angle θ in the robot's frame has closeness c = max(0, reach − d) / reach. With
    θ·bins/2π = b + f it reads c in bin b, f·c in bin b + 1 and (1 − f)·c in bin b − 1; a bin keeps its largest
    reading. Objects lie on the floor, so a tilted robot (`position` (n, 3), `rotation` (n, 3, 3)) sees them tilted.
    """
    east = things[..., 0] - position[:, None, 0]
    north = things[..., 1] - position[:, None, 1]
    down = -position[:, None, 2]
    axes = rotation[:, None]
    ahead = east * axes[..., 0, 0] + north * axes[..., 1, 0] + down * axes[..., 2, 0]
    left = east * axes[..., 0, 1] + north * axes[..., 1, 1] + down * axes[..., 2, 1]

    closeness = np.maximum(0.0, reach - np.hypot(ahead, left)) / reach
    turn = np.arctan2(left, ahead) % (2 * np.pi) * (bins / (2 * np.pi))
    whole = np.floor(turn)
    fraction = turn - whole
    middle = whole.astype(np.intp)

    count = int(channels.max()) + 1
    readings = np.zeros(len(things) * count * bins)
    ring = (np.arange(len(things))[:, None] * count + channels) * bins
    for offset, share in ((0, closeness), (1, fraction * closeness), (-1, (1.0 - fraction) * closeness)):
        np.maximum.at(readings, ring + (middle + offset) % bins, share)
    return readings.reshape(len(things), count * bins)
