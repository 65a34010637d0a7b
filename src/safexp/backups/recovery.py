"""Recovery before the budget runs out: a human's reset (the paper), or another controller that leads back to safety.

The guarantee does not depend on recovery. Whenever the shield finds nothing safe, the episode is stopped and a human
asked to reset; an earlier takeover only makes that rarer. Its actions pass through the shield like any others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safexp.backups.options import Option
from safexp.constraints import Constraint
from safexp.core.arrays import Array, Controller, Flags, Observations, batch_size
from safexp.core.costs import Step

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

WayOut = Callable[[Observations], ArrayLike]


class Driven(NamedTuple):
    """Executed step of n environments, for a recovery that learns.

    `costs` (n,) or (n, K) are scaled to [0, 1]; `driving` marks where the recovery acted, `driving_on` where it acts
    next, `ended` where an episode ended and `stopped` where a human was asked to end it.
    """

    step: Step
    costs: Array
    driving: Flags
    driving_on: Flags
    ended: Flags
    stopped: Flags


class Recovery(ABC):
    """Controller that decides where to take over, and drives there.

    `Reset`, `Backup`, `Fallback` and `LearnedReset` are its kinds. Where a controller can come to rest, `Backup` is the
    best: no episode has to be stopped.

    Args:
        braking: cost of a human's stop itself while the machine comes to rest, in units of the largest cost of a step:
            the shield is queried as if that much less of the budget remained.
        penalty: subtracted from the reward of the transition that leads to a takeover.

    Example:
        >>> class Brake(safexp.Recovery):
        ...     def takes_over(self, observations, remaining, driving):
        ...         return remaining < 2.0
        ...     def act(self, observations):
        ...         return -observations[:, 2:]
        >>> Brake(braking=0.5).takes_over(np.zeros((2, 4)), np.array([1.5, 3.0]), np.zeros(2, dtype=bool))
        array([ True, False])
    """

    horizon: int = 0
    """Number of steps that certificates look ahead to it; 0 if they do not."""
    options: Sequence[Option] = ()
    """Ways to safety that certificates look ahead to."""
    keep: int = 0
    """Number of steps for which the replacement of a refused proposal is kept."""
    drills: float = 0.0
    """Share of the steps spent on drills."""
    after: Controller | None = None
    """Controller that drives on after a stop; None if a stop is taken to be free."""
    steps: int = 0
    """Largest number of steps that it drives on."""

    def __init__(self, braking: float = 0.0, penalty: float = 0.0) -> None:
        for name, value in (("braking", braking), ("penalty", penalty)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{type(self).__name__}({name}={value}) must be finite and at least 0.")
        self.braking = braking
        self.penalty = penalty
        self.learning = True

    def check(self, constraint: Constraint, venv: VecEnv) -> None:
        """Prepare for these environments; raises `ValueError` if the budget does not cover braking or the way out."""
        least = float(np.min(constraint.largest_threshold))
        if self.braking and least < 1 + self.braking:
            raise ValueError(
                f"braking={self.braking:g} leaves nothing of {type(constraint).__name__}, whose threshold begins at "
                f"{least:g} times the largest cost of a step: it must be {1 + self.braking:g} or more."
            )

    @abstractmethod
    def takes_over(self, observations: Observations, remaining: Array, driving: Flags) -> Flags:
        """Whether it drives from here on (n,), with `remaining` budget (n,) or (n, K); `driving` is where it does."""

    @abstractmethod
    def act(self, observations: Observations) -> NDArray[Any]:
        """Actions (n, ...) in these states."""

    def rescue_from(self, observations: Observations) -> NDArray[Any]:
        """Actions (n, ...) where a certificate proved wrong and the last step had a cost; by default those of `act`."""
        return self.act(observations)

    def note(self, step: Driven) -> None:  # noqa: B027 (most learn nothing)
        """Observe a step of all environments."""

    def end(self, rows: Flags, stopped: bool) -> None:  # noqa: B027
        """Handle episodes (n,) that were ended between two steps, by a human if `stopped`."""

    def learn(self) -> None:  # noqa: B027
        """Learn at the end of an epoch."""

    def freeze(self) -> None:
        """Stop learning, as in an audit and in deployment."""
        self.learning = False

    def metrics(self) -> dict[str, float]:
        """Metrics at the end of an epoch, by name."""
        return {}

    def state(self) -> dict[str, NDArray[Any]]:
        """Learned state, to be saved."""
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:  # noqa: B027
        """Restore the output of `state`."""


class Reset(Recovery):
    """Reset by a human, who stops the episode: the paper's emergency stop.

    The paper takes it to be free and instantaneous. A machine with momentum moves on: with `after`, that controller
    drives on before the reset, unseen by the learner, and the constraint is judged on the episode and these steps
    together (`after_stop_violated` in `episodes.csv`). A step that cannot be read counts as the largest cost.

    If stopped episodes violate afterwards, the machine has momentum: use a `Backup`.

    Args:
        braking: see `Recovery`.
        penalty: see `Recovery`.
        after: function from observations (n, ...) to actions (n, ...) that brings the machine to rest; None takes the
            stop to be free.
        steps: number of steps that it drives, fewer if the environment ends first.

    Example:
        >>> safexp.Reset(after=lambda observations: -observations[:, 1:], steps=30).steps
        30
    """

    def __init__(
        self,
        braking: float = 0.0,
        penalty: float = 0.0,
        *,
        after: Controller | None = None,
        steps: int = 0,
    ) -> None:
        super().__init__(braking, penalty)
        if not (after is None or callable(after)):
            raise TypeError(f"Reset(after={after!r}) must be a function of observations (n, ...) that returns actions.")
        if after is not None and not (isinstance(steps, int | np.integer) and steps >= 1):
            raise ValueError(f"Reset(steps={steps}) must be a whole number, at least 1: how long `after` drives on.")
        if after is None and steps != 0:
            raise ValueError(f"Reset(steps={steps}) needs after=<the controller that drives them>.")
        self.after = after
        self.steps = int(steps)

    def takes_over(self, observations: Observations, remaining: Array, driving: Flags) -> Flags:
        return np.zeros_like(driving)

    def act(self, observations: Observations) -> NDArray[Any]:
        raise RuntimeError("Reset never takes over, so it has no action.")


class Fallback(Recovery):
    """Trusted controller that takes over while the remaining budget covers its way out of all cost, then hands back.

    It takes over where the way out costs something and `remaining` − 1 < way_out + `reserve`: the 1 must be left for
    the shield, which certifies nothing below it without a model. It hands back where the way out costs nothing, or
    where `spare` more than that remains. So the way out is covered at a takeover if one step of the learner reduces
    `remaining` − way_out by at most `reserve`. A wrong bound leads to a stop by a human, not to a violation.

    If takeovers end in stops, raise `reserve`. Where a controller can come to rest anywhere, `Backup` is better: it
    needs no formula for the way out.

    Args:
        controller: function from observations (n, ...) to actions (n, ...).
        way_out: function that bounds (n,) or (n, K) the controller's cost of getting out of all cost from here, in
            units of the largest cost of a step; 0 only where one more step of the learner costs nothing either.
        reserve: margin beyond the bound, for one more step of the learner and for the error of the bound.
        spare: additional remaining budget required before it hands back on the way.
        braking: see `Recovery`.
        penalty: see `Recovery`.

    Example:
        >>> def brake(observations):
        ...     return -observations[:, 2:]
        >>> leave = safexp.Fallback(brake, lambda observations: np.abs(observations[:, 2:]).sum(axis=1))
        >>> leave.takes_over(np.array([[0.0, 0.0, 1.0, 1.0]]), np.array([7.0]), np.array([False]))
        array([ True])
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
    """Whether some way out (n,) or (n, K) costs something and is not covered with a margin of `reserve` (n,).

    A bound of NaN covers nothing.
    """
    n = len(reserve)
    needed, remaining = needed.reshape(n, -1), remaining.reshape(n, -1)
    covered = (needed <= 0) | (remaining - 1.0 >= needed + reserve[:, None])
    return np.asarray(~covered.all(axis=1))
