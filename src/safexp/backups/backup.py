"""A backup controller: it drives where nothing is certified, and certificates look ahead to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.backups.recovery import Recovery
from safexp.core.arrays import Array, Controller, Flags, Observations


class Backup(Recovery):
    """Drives from a state in which nothing is certified until a proposal is certified again; nobody stops the episode.

    A certificate that looks ahead (`Rollout`) answers for an action *and then this controller*. So whoever runs
    certified actions alone can hand over at any time, and the constraint still holds: that is what the last certificate
    said. In a first state with nothing certified it drives as well, and is trusted there without a certificate.

    Args:
        controller: its actions (n, ...) for observations (n, ...): brake, hover, let go, an LQR, an older policy.
        horizon: for how many steps a certificate follows it: until it has come to rest, or to where it can stay.
        drills: share of the steps spent on drills, in which it drives from a certified state for its horizon to see
            whether the certificate was right.
        penalty: taken from the reward of every step that it drives, drills excepted.

    Example:
        >>> Backup(lambda observations: -observations[:, 1:], horizon=30).horizon
        30
    """

    def __init__(self, controller: Controller, horizon: int, *, drills: float = 0.01, penalty: float = 0.0) -> None:
        super().__init__(penalty=penalty)
        if not callable(controller):
            raise TypeError(f"Backup(controller={controller!r}) must be a function of observations (n, ...).")
        if not (isinstance(horizon, int | np.integer) and horizon >= 1):
            raise ValueError(f"Backup(horizon={horizon}) must be a whole number of steps, at least 1.")
        if not 0 <= drills < 1:
            raise ValueError(f"Backup(drills={drills}) must be a share of the steps, in [0, 1).")
        self.controller = controller
        self.horizon = int(horizon)
        self.drills = drills

    def takes_over(self, observations: Observations, remaining: Array, driving: Flags) -> Flags:
        return driving

    def act(self, observations: Observations) -> NDArray[Any]:
        return np.asarray(self.controller(observations))
