"""Backup controller: it takes over where nothing is certified, and certificates look ahead to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.backups.recovery import Recovery
from safexp.core.arrays import Array, Controller, Flags, Observations


class Backup(Recovery):
    """Controller that takes over where nothing is certified, until a proposal is certified again, without a stop.

    A certificate that looks ahead (`Rollout`) covers an action *followed by this controller*. A learner that runs only
    certified actions can therefore hand over at any time, and the last certificate still holds. The backup also drives
    in a first state where nothing is certified, where it is trusted without a certificate.

    Args:
        controller: function from observations (n, ...) to actions (n, ...): brake, hover, let go, an LQR, an older
            policy.
        horizon: number of steps that a certificate covers: until it has come to rest, or to where it can stay.
        drills: share of the steps spent on drills, in which it drives from a certified state for its horizon to check
            the certificate.
        penalty: subtracted from the reward of every step that it drives, except for drills.
        rescue: controller that drives instead while costs occur that no certificate allowed, such as one that leaves
            the costly region in which the backup would rest.

    Example:
        >>> Backup(lambda observations: -observations[:, 1:], horizon=30).horizon
        30
    """

    def __init__(
        self,
        controller: Controller,
        horizon: int,
        *,
        drills: float = 0.01,
        penalty: float = 0.0,
        rescue: Controller | None = None,
    ) -> None:
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
        self.rescue = rescue

    def takes_over(self, observations: Observations, remaining: Array, driving: Flags) -> Flags:
        return driving

    def act(self, observations: Observations) -> NDArray[Any]:
        return np.asarray(self.controller(observations))

    def rescue_from(self, observations: Observations) -> NDArray[Any]:
        return np.asarray((self.rescue or self.controller)(observations))
