"""Base class of constraints, and checks of their settings."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array, Observations, batch_size
from safexp.core.costs import CostSource, SignalError, Step, read_cost, row_of
from safexp.core.obstacles import Obstacles
from safexp.core.signals import SignalSource, signal_after, signal_in

TOLERANCE = 1e-9
"""Tolerance of the shield for a scaled cost or discounted sum above its limit: room for rounding only."""

JUDGED = 1e-7
"""Tolerance of the judge, relative to a limit above 1. It must be wider: a shield may use its own tolerance in full,
and the two round differently over a long episode."""


class Constraint(ABC):
    """A safety constraint as a sequence of thresholds.

    `memory` is the width w of the state array. `in_observation`: the threshold holds information that the observation
    does not (the remaining budget), so the learner should see it. `on_realised_cost`: the costs that occur are limited,
    not their probabilities. `on_every_step`: each cost is limited, not a sum. A *signal* is the value that the
    environment returns at a step, in the user's units (by default a cost from `cost`, at most `cost_max`); a *cost* is
    the signal scaled to [0, 1]. With K limits (`AllOf`, `Within`) both, and the thresholds, have a last axis K.

    A subclass defines `threshold`, `update` and `violated`; docs/how-to/extending.md has an example.

    Example:
        >>> limit = safexp.Instantaneous(0.3)
        >>> isinstance(limit, safexp.Constraint), limit.memory, limit.on_every_step
        (True, 0, True)
    """

    memory: ClassVar[int] = 0
    in_observation: ClassVar[bool] = False
    on_realised_cost: ClassVar[bool] = True
    on_every_step: ClassVar[bool] = False
    cost: CostSource = "cost"
    cost_max: float = 1.0

    @property
    def sources(self) -> tuple[SignalSource, ...]:
        """Sources of the S measured signals: those that it limits, or those that tell where a cost occurs."""
        among: Obstacles | None = getattr(self, "among", None)
        return () if among is None else among.sources

    def measured(self, step: Step) -> Array:
        """The measured signals (n, S) after a step, in the user's units."""
        columns = [signal_after(source, step) for source in self.sources]
        return np.stack(columns, axis=-1) if columns else np.zeros((batch_size(step.observations), 0))

    def now(self, observations: Observations) -> Array:
        """The measured signals (n, S) in these observations, NaN where they are only in the info of a step."""
        columns = [signal_in(source, observations) for source in self.sources]
        return np.stack(columns, axis=-1) if columns else np.zeros((batch_size(observations), 0))

    @property
    def num_costs(self) -> int:
        """K, the number of limited costs."""
        return int(np.size(self.largest_threshold))

    def read(self, step: Step) -> Array:
        """The signal of a step, (n,), in the user's units; raises `ValueError` on an impossible value."""
        return read_cost(self.cost, self.cost_max, step)

    def salvage(self, step: Step) -> Array:
        """The signals (n,) of a step that `read` rejected, read row by row; NaN where one cannot be read."""
        return np.stack([self._salvage_row(row_of(step, row)) for row in range(len(step.actions))])

    def _salvage_row(self, row: Step) -> Array:
        unread = np.full(np.shape(self.worst_signal), math.nan)
        try:
            return np.asarray(self.read(row)[0], dtype=np.float64)
        except SignalError as error:  # a cost above the largest allowed is still that cost
            above = not unread.ndim and self.cost_max < error.value < math.inf
            return np.asarray(error.value) if above else unread
        except Exception:  # from the user's function
            return unread

    @property
    def worst_signal(self) -> float | Array:
        """Signal assumed for a step that cannot be read: that of the largest cost, () or (K,)."""
        return self.cost_max

    def first_signal(self, observations: Observations) -> Array:
        """The signal of the first state of an episode, before any action, (n,)."""
        return np.zeros(batch_size(observations))

    def normalise(self, signal: Array) -> Array:
        """The signal as a cost in [0, 1]."""
        return signal / self.cost_max

    def true_cost(self, signal: Array) -> Array:
        """Costs for reports, in the user's units, of the signals (T,) or (T, K) of successive steps."""
        return signal

    @property
    def largest_threshold(self) -> float | Array:
        """The threshold that is scaled to 1 in the learner's observation."""
        return 1.0

    @property
    def grows(self) -> bool:
        """Whether a threshold can later exceed `largest_threshold`, as that of a discounted budget does."""
        return False

    def limits_at(self, steps: NDArray[np.int64]) -> Array:
        """Limits (n,) of steps (n,) since the reset that are known only when the steps come; NaN if there are none."""
        return np.full(len(steps), np.nan)

    def settled(self, limits: Array) -> Constraint:
        """This constraint with the limits (T,) that `limits_at` returned during an episode."""
        return self

    def margins(self, costs: Array, thresholds: Array, measured: Array) -> Array:
        """How far steps stayed below their limits, (n,), in the user's units; of several limits the smallest share.

        Costs and thresholds are (n,) or (n, K), scaled, and `measured` the signals (n, S) after the steps.
        """
        return (thresholds - costs).reshape(len(costs), -1).min(axis=1) * self.cost_max

    def clearance(self, signals: Array) -> float | None:
        """Smallest distance to a limit in an episode with these signals (T,), negative beyond it; None for costs."""
        return None

    def in_units(self, distance: float) -> tuple[float, ...]:
        """A distance between scaled costs in the user's units, one for each limited cost."""
        return (distance * self.cost_max,)

    def start(self, observations: Observations) -> Array:
        """State (n, w) at the first observation of an episode."""
        return np.zeros((batch_size(observations), self.memory))

    @abstractmethod
    def threshold(self, state: Array) -> Array:
        """b_h (n,) for the cost of the next action."""

    def update(self, state: Array, cost: Array, upper_bound: Array) -> Array:
        """State after a step of this `cost` (n,), which was certified to be at most `upper_bound`."""
        return state

    @abstractmethod
    def violated(self, first: Array, signals: Array) -> bool:
        """Whether an episode with these signals (T,), after `first` (), violated the paper's form of the constraint."""


def exceeds(value: float, limit: float) -> bool:
    """Whether a scaled cost or sum exceeds its limit by more than rounding explains."""
    return not value <= limit + JUDGED * max(limit, 1.0)  # NaN exceeds every limit


def check_number(owner: Constraint, name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{type(owner).__name__}({name}={value!r}) must be a number.")


def check_cost(owner: Constraint, cost: CostSource) -> None:
    if not (isinstance(cost, str) or callable(cost)):
        raise TypeError(
            f"{type(owner).__name__}(cost={cost!r}) must be a key of the environment's info or a function of the "
            "observations, actions and next observations."
        )


def check_limit(owner: Constraint, name: str, value: float) -> None:
    check_number(owner, name, value)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(
            f"{type(owner).__name__}({name}={value}) must be finite and at least 0 (0 allows costs of zero only)."
        )


def check_positive(owner: Constraint, name: str, value: float) -> None:
    check_number(owner, name, value)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{type(owner).__name__}({name}={value}) must be finite and above 0.")


def check_discount(owner: Constraint, value: float) -> None:
    check_number(owner, "discount", value)
    if not 0 < value <= 1:
        raise ValueError(f"{type(owner).__name__}(discount={value}) must lie in (0, 1]; 1 is no discount.")


def check_callable(owner: Constraint, name: str, value: object) -> None:
    if not callable(value):
        raise ValueError(
            f"{type(owner).__name__}({name}={value!r}) must be a function of the observations (n, ...) that returns "
            "a bool for each."
        )
