"""Backup controllers: they take over where nothing is certified, and certificates look ahead to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.backups.options import Option
from safexp.backups.recovery import Recovery
from safexp.core.arrays import Array, Controller, Flags, Observations


class Backup(Recovery):
    """Controller that takes over where nothing is certified, until a proposal is certified again, without a stop.

    A certificate that looks ahead (`Rollout`, `PlanarPath`) covers an action *followed by this controller*. A learner
    that runs only certified actions can therefore hand over at any time, and the last certificate still holds. The
    backup also drives in a first state where nothing is certified, where it is trusted without a certificate.

    With several options an action is certified if *one* of them is safe after it, and the one on which the last
    certificate rests drives. `hold` gives several to one controller: brake at once, or only after the action was held
    for a while, such as one that leads out of a narrow place. `others` adds further controllers.

    If the backup drives most of the time, its horizon is too short for it to come to rest, or the log does not show it
    driving. If drills are missed, the certificate is wrong: calibrate it, or log bolder stretches.

    Args:
        controller: function from observations (n, ...) to actions (n, ...): brake, hover, let go, an LQR, an older
            policy.
        horizon: number of steps that a certificate covers: until it has come to rest, or to where it can stay.
        hold: numbers of steps for which a certified action is held before the controller drives; one option for each.
        others: further controllers with their horizons.
        keep: number of steps for which the replacement of a refused proposal is kept while it is certified; such a
            replacement also ends a takeover. A shield without memory can hold a robot in front of an obstacle for ever:
            it turns aside, and the policy turns back; or the backup brakes, and the policy still wants to go on.
        drills: share of the steps spent on drills, in which it drives from a certified state for its horizon to check
            the certificate.
        penalty: subtracted from the reward of every step that it drives, except for drills.
        rescue: controller that drives instead while costs occur that no certificate allowed, such as one that leaves
            the costly region in which the backup would rest.

    Example:
        >>> brake = safexp.Backup(lambda observations: -observations[:, 1:], horizon=30, hold=(0, 10))
        >>> [option.steps for option in brake.options]
        [30, 40]
    """

    def __init__(
        self,
        controller: Controller,
        horizon: int,
        *,
        hold: Sequence[int] = (0,),
        others: Sequence[tuple[Controller, int]] = (),
        keep: int = 0,
        drills: float = 0.01,
        penalty: float = 0.0,
        rescue: Controller | None = None,
    ) -> None:
        super().__init__(penalty=penalty)
        for one, steps in ((controller, horizon), *others):
            if not callable(one):
                raise TypeError(f"Backup(controller={one!r}) must be a function of observations (n, ...).")
            if not (isinstance(steps, int | np.integer) and steps >= 1):
                raise ValueError(f"Backup(horizon={steps}) must be a whole number of steps, at least 1.")
        if not (len(hold) and all(isinstance(one, int | np.integer) and one >= 0 for one in hold)):
            raise ValueError(f"Backup(hold={hold!r}) must be one or more whole numbers of steps, such as (0, 20).")
        if not (isinstance(keep, int | np.integer) and keep >= 0):
            raise ValueError(f"Backup(keep={keep}) must be a whole number of steps.")
        if not 0 <= drills < 1:
            raise ValueError(f"Backup(drills={drills}) must be a share of the steps, in [0, 1).")
        self.controller = controller
        self.horizon = int(horizon)
        self.options = (
            *(Option(controller, int(horizon), int(steps)) for steps in hold),
            *(Option(one, int(steps)) for one, steps in others),
        )
        self.keep = int(keep)
        self.drills = drills
        self.rescue = rescue

    def takes_over(self, observations: Observations, remaining: Array, driving: Flags) -> Flags:
        return driving

    def act(self, observations: Observations) -> NDArray[Any]:
        return np.asarray(self.controller(observations))

    def rescue_from(self, observations: Observations) -> NDArray[Any]:
        return np.asarray((self.rescue or self.controller)(observations))
