"""Moving hazards, and thresholds that open and close."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array


@dataclass(frozen=True, slots=True)
class Orbit:
    """Circular orbits of `radius` metres with a `period` in steps, random phase and random sense.

    `preview` is the number of steps by which the second hazard lidar looks ahead: present and future positions of the
    hazards determine their velocity, without which the state would not be Markov.
    """

    radius: float
    period: int
    preview: int

    @property
    def speed(self) -> float:
        """Distance in metres that a hazard moves in a step."""
        return float(2 * np.pi * self.radius / self.period)

    def offsets(self, steps: NDArray[np.int64], phases: Array, senses: Array) -> Array:
        """Offsets (n, k, 2) of hazards from their centres at `steps` (n,) since the reset."""
        angles = phases + senses * (2 * np.pi / self.period * steps)[:, None]
        return self.radius * np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def gate(
    steps: int, period: int = 100, open_for: int = 50, *, closed: float = 0.0, opened: float = 1.0
) -> NDArray[np.float64]:
    """Make periodic thresholds (steps,), one for every step of an episode, for `safexp.Schedule`.

    b_h = `opened` in the first `open_for` steps of every `period`, `closed` in the others. With the indicator cost,
    opened = 1 permits and closed = 0 forbids entering a hazard; with `cost="margin"`, ½ is the hazard's edge, and a
    threshold below ½ keeps a distance.

    Args:
        steps: length of the episode.
        period: steps from one opening to the next.
        open_for: steps for which it is open.
        closed: threshold while closed.
        opened: threshold while open.

    Example:
        >>> safexp.gate(6, period=3, open_for=1)
        array([1., 0., 0., 1., 0., 0.])
    """
    if not 0 <= open_for <= period or period < 1:
        raise ValueError(f"gate(open_for={open_for}, period={period}): expected 0 ≤ open_for ≤ period ≥ 1.")
    return np.where(np.arange(steps) % period < open_for, opened, closed)
