"""Costs of a vector step, read from the infos or from the user's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safexp.core.arrays import Array, Observations, batch_size, readable, take

CostSource = str | Callable[[Observations, NDArray[Any], Observations], ArrayLike]
StatePredicate = Callable[[Observations], ArrayLike]


SINGLE = 2.0**-23
"""Largest relative error of a cost that was rounded to single precision."""


class SignalError(ValueError):
    """Error for a `value` from an environment that no cost or signal can have.

    Give the constraint the right `cost_max`, or fix the sensor or cost function.

    Example:
        >>> def cost(observations, actions, following):
        ...     return -np.ones(len(observations))
        >>> env = safexp.wrap(gym.make("safexp/PlanarRobot-v0"), safexp.Budget(3.0, cost=cost), safexp.Unknown())
        >>> _ = env.reset(seed=0)
        >>> try:
        ...     _ = env.step(np.zeros(2, np.float32))
        ... except safexp.SignalError as error:
        ...     print(str(error).partition(";")[0])
        environment 0 gave -1.0: the cost function must lie in [0, 1]
    """

    def __init__(self, value: float, message: str) -> None:
        super().__init__(message)
        self.value = value


class Step(NamedTuple):
    """One vector step, from which a constraint reads its signal.

    `info(key)` is that entry of the environments' infos as an array (n,).
    """

    observations: Observations
    actions: NDArray[Any]
    next_observations: Observations
    info: Callable[[str], NDArray[Any]]


def row_of(step: Step, index: int) -> Step:
    """One environment's part of a vector step, as a vector step of one."""
    rows = slice(index, index + 1)
    before, after = take(step.observations, rows), take(step.next_observations, rows)
    return Step(before, step.actions[rows], after, lambda key: step.info(key)[rows])


def read_cost(source: CostSource, cost_max: float, step: Step) -> Array:
    """The costs (n,) of a step from its infos or from the user's function, in the user's units."""
    if callable(source):
        costs = np.asarray(source(step.observations, step.actions, step.next_observations), dtype=np.float64)
        expected = (batch_size(step.observations),)
        if costs.shape != expected:
            raise ValueError(
                f"the cost function returned shape {costs.shape}, expected {expected}: it is called with the "
                "observations, actions and next observations of all environments and returns one cost for each."
            )
        name = "the cost function"
    else:
        costs = np.asarray(step.info(source), dtype=np.float64)
        name = f"info[{source!r}]"
        if costs.shape != (batch_size(step.observations),):
            raise ValueError(f"{name} has the shape {costs.shape[1:]} at a step, expected a single number.")
    refuse(~np.isfinite(costs), costs, f"{name} must be a finite number: fix the environment or its sensors")
    refuse(
        ~((costs >= 0) & (costs <= cost_max * (1 + SINGLE))),
        costs,
        f"{name} must lie in [0, {cost_max:g}]; give the constraint cost_max=<largest cost> if costs have other units",
    )
    return np.minimum(costs, cost_max)


def indicator(unsafe: StatePredicate, observations: Observations) -> Array:
    """1 where the user's predicate is true or the observation is not finite, else 0, (n,)."""
    flags = np.asarray(unsafe(observations))
    if flags.shape != (batch_size(observations),) or flags.dtype != np.bool_:
        raise ValueError(
            f"unsafe(observations) returned {flags.dtype} of shape {flags.shape}, expected bool of shape "
            f"({batch_size(observations)},): it is called with the observations of all environments at once."
        )
    return np.where(readable(observations), flags, True).astype(np.float64)


def refuse(bad: NDArray[np.bool_], values: Array, rule: str) -> None:
    """Raise `SignalError` for the first bad value, naming its environment."""
    if np.any(bad):
        index = int(np.flatnonzero(bad)[0])
        value = float(values[index])
        raise SignalError(value, f"environment {index} gave {value}: {rule}.")
