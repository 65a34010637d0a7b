"""What is done before the budget runs out: ask a human to reset (the paper), or let another controller drive out.

The guarantee does not rest on what is in here. An episode is stopped, and a human asked, whenever the shield has
nothing safe left; what takes over earlier is to make that rarer. Its actions pass through the shield like any others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safexp.constraints import Constraint
from safexp.core.arrays import Array, Controller, Flags, Observations, batch_size
from safexp.core.costs import Step

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

WayOut = Callable[[Observations], ArrayLike]


class Driven(NamedTuple):
    """A step of n environments as it was executed, for a stop that learns.

    `costs` (n,) or (n, K) are scaled to [0, 1]; `driving` tells where the stop acted, `driving_on` where it will act
    next, `ended` where an episode ended and `stopped` where a human was asked to end it.
    """

    step: Step
    costs: Array
    driving: Flags
    driving_on: Flags
    ended: Flags
    stopped: Flags


class Recovery(ABC):
    """Says where it takes over, and drives there.

    Args:
        braking: what a human's stop itself may cost, in units of the largest cost of a step, while the machine comes to
            rest: the shield is asked as if that much less remained of the budget.
        penalty: taken from the reward of the transition that leads to a takeover.
    """

    horizon: int = 0
    """For how many steps certificates follow it: 0 for one that a certificate does not look ahead to."""
    drills: float = 0.0
    """Share of the steps spent on drills."""

    def __init__(self, braking: float = 0.0, penalty: float = 0.0) -> None:
        for name, value in (("braking", braking), ("penalty", penalty)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{type(self).__name__}({name}={value}) must be finite and at least 0.")
        self.braking = braking
        self.penalty = penalty
        self.learning = True

    def check(self, constraint: Constraint, venv: VecEnv) -> None:
        """Get ready for these environments; raise `ValueError` where there is no budget to brake or to drive out on."""
        least = float(np.min(constraint.largest_threshold))
        if self.braking and least < 1 + self.braking:
            raise ValueError(
                f"braking={self.braking:g} leaves nothing of {type(constraint).__name__}, whose threshold begins at "
                f"{least:g} times the largest cost of a step: it must be {1 + self.braking:g} or more."
            )

    @abstractmethod
    def takes_over(self, observations: Observations, remaining: Array, driving: Flags) -> Flags:
        """Where (n,) it drives from here on, with so much remaining (n,) or (n, K); `driving` tells where it does."""

    @abstractmethod
    def act(self, observations: Observations) -> NDArray[Any]:
        """Its actions (n, ...) in these states."""

    def note(self, step: Driven) -> None:  # noqa: B027 (most learn nothing)
        """See a step of all environments."""

    def end(self, rows: Flags, stopped: bool) -> None:  # noqa: B027
        """The episodes of these environments (n,) were ended between two steps, by a human if `stopped`."""

    def learn(self) -> None:  # noqa: B027
        """An epoch is over."""

    def freeze(self) -> None:
        """Learn nothing from now on, as in an audit and wherever an agent is put to use."""
        self.learning = False

    def metrics(self) -> dict[str, float]:
        """What it tells of itself at the end of an epoch, by name."""
        return {}

    def state(self) -> dict[str, NDArray[Any]]:
        """What it learned, for a file."""
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:  # noqa: B027
        """Take up what `state` gave."""


class Reset(Recovery):
    """A human stops the episode and resets the environment: the paper's emergency stop."""

    def takes_over(self, observations: Observations, remaining: Array, driving: Flags) -> Flags:
        return np.zeros_like(driving)

    def act(self, observations: Observations) -> NDArray[Any]:
        raise RuntimeError("Reset never takes over, so it has no action.")


class Fallback(Recovery):
    """A controller that the user trusts drives out while what remains of the budget covers the way, and hands back.

    It takes over where the way out costs something and `remaining` − 1 < way_out + `reserve`: the 1 is what must be
    left for the shield, which certifies nothing below it without a model. It hands back where the way out costs
    nothing, or where `spare` more than that remains. So the way out is covered when it takes over if one step of the
    learner's lets `remaining` − way_out fall by at most `reserve`. A wrong bound costs a human's stop, no violation.

    Args:
        controller: its actions (n, ...) for observations (n, ...).
        way_out: bounds (n,) or (n, K) what it costs the controller to get out of all cost from here, in units of the
            largest cost of a step; 0 only where one more step of the learner's costs nothing, either.
        reserve: kept beyond the bound, for one more step of the learner's and for the bound's error.
        spare: how much more must remain before it hands back on the way.
        braking: see `Recovery`.
        penalty: see `Recovery`.
    """

    def __init__(
        self,
        controller: Controller,
        way_out: WayOut,
        *,
        reserve: float = 5.0,
        spare: float = 2.0,
        braking: float = 0.0,
        penalty: float = 0.0,
    ) -> None:
        super().__init__(braking, penalty)
        if not (math.isfinite(reserve) and math.isfinite(spare) and reserve >= 0 and spare >= 0):
            raise ValueError(f"Fallback(reserve={reserve}, spare={spare}) must be finite and at least 0.")
        self.controller = controller
        self.way_out = way_out
        self.reserve = reserve
        self.spare = spare

    def check(self, constraint: Constraint, venv: VecEnv) -> None:
        super().check(constraint, venv)
        least = float(np.min(constraint.largest_threshold))
        if least <= 1 + self.braking + self.reserve:
            raise ValueError(
                f"{type(constraint).__name__} leaves no budget for a way out: its threshold begins at {least:g} times "
                f"the largest cost of a step, and {1 + self.braking + self.reserve:g} are kept. Give a larger budget; "
                "where every single cost is limited, give the controller as safe_action=."
            )

    def takes_over(self, observations: Observations, remaining: Array, driving: Flags) -> Flags:
        n = batch_size(observations)
        needed = np.asarray(self.way_out(observations), dtype=np.float64)
        if needed.shape not in ((n,), remaining.shape):
            raise ValueError(
                f"way_out returned shape {needed.shape}, expected {remaining.shape}: one bound for each of the "
                "observations it was given."
            )
        return short_of(needed, remaining, np.where(driving, self.reserve + self.spare, self.reserve))

    def act(self, observations: Observations) -> NDArray[Any]:
        return np.asarray(self.controller(observations))


def short_of(needed: Array, remaining: Array, reserve: Array) -> Flags:
    """Where (n,) some way out (n,) or (n, K) costs something and is not covered with `reserve` (n,) beyond it.

    A bound that is no number covers nothing.
    """
    n = len(reserve)
    needed, remaining = needed.reshape(n, -1), remaining.reshape(n, -1)
    covered = (needed <= 0) | (remaining - 1.0 >= needed + reserve[:, None])
    return np.asarray(~covered.all(axis=1))
