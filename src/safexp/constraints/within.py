"""Limits on measured signals, one-sided or two-sided, in the user's units."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safexp.constraints.base import TOLERANCE, Constraint, check_positive, exceeds
from safexp.core.arrays import Array, Observations, batch_size
from safexp.core.costs import Step, refuse
from safexp.core.signals import Sides, SignalSource, check_source, name_of_signal

Limit = float | Sequence[float] | Mapping[int, float] | Callable[[NDArray[np.int64]], ArrayLike]
"""A number; one for each of several signals; a schedule {first step: limit}; or a function of the steps (n,)."""


@dataclass(frozen=True)
class Within(Constraint):
    """Limits on measured signals, which stay between `low` and `high` at every step.

    Every limit is one cost: ½ + (excess over the limit) / (2·scale), clipped to [0, 1], with the threshold ½. Two
    limits on one signal are two costs, never one folded margin: a model of |x| that was learned on one side of 0
    extrapolates through the kink to "safer" on the other. `ChangeModel` bounds these costs from the present signals.

    If the environment does not report a signal, the error names the keys that it has. Limit the signed signal from both
    sides, not its absolute value.

    Args:
        signal: the index of an entry of the observation, a key of a Dict observation or of the info of a step, or a
            function of the observations (n, ...); several as a tuple.
        low: the smallest allowed value: a number, one for each of several signals, a schedule {first step: limit}, or a
            function of the steps (n,) since the reset, which is called for a step only when that step comes.
        high: the largest allowed value, likewise.
        scale: distance beyond a limit at which the cost saturates, in the signal's units. By default half the distance
            between the limits, or the absolute value of a single limit; required if a limit is a function.

    Example:
        >>> limits = safexp.Within(("current", "speed"), low=[-100.0, 0.0], high=[100.0, 12.0])
        >>> limits.names, limits.num_costs
        (('current', 'speed'), 4)
    """

    signal: SignalSource | tuple[SignalSource, ...]
    low: Limit | None = None
    high: Limit | None = None
    scale: float | None = None
    on_every_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.signal, int | str) and isinstance(self.signal, Sequence):  # a list, from a file
            object.__setattr__(self, "signal", tuple(self.signal))
        for name in ("low", "high"):
            if isinstance(limit := getattr(self, name), Mapping):
                object.__setattr__(self, name, _schedule(name, limit))
        if not self.sources:
            raise ValueError("Within(signal=()) has no signal: give at least one.")
        for source in self.sources:
            check_source(source)
        if self.low is None and self.high is None:
            raise ValueError(f"Within({self.signal!r}) limits nothing: give low, high, or both.")
        if self.scale is not None:
            check_positive(self, "scale", self.scale)
        first = np.zeros(1, dtype=np.int64)
        low, high = (self._per_signal(name, first)[0] for name in ("low", "high"))
        if (crossed := np.flatnonzero(low >= high)).size:
            k = int(crossed[0])
            raise ValueError(
                f"Within(low={low[k]:g}, high={high[k]:g}) allows no value of {self.names[k]}: low must be below high."
            )
        _ = self.sides  # raises if the limits do not determine a scale

    # The limited signals

    @property
    def sources(self) -> tuple[SignalSource, ...]:
        """Source of each of the S signals."""
        return self.signal if isinstance(self.signal, tuple) else (self.signal,)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the signals."""
        return tuple(name_of_signal(source) for source in self.sources)

    @property
    def varies(self) -> bool:
        """Whether a limit changes during an episode."""
        return any(callable(limit) or isinstance(limit, Mapping) for limit in (self.low, self.high))

    @cached_property
    def sides(self) -> Sides:
        """The K one-sided limits: all upper ones, then all lower ones."""
        count = len(self.sources)
        pairs = [
            (k, sign) for sign, limit in ((1.0, self.high), (-1.0, self.low)) if limit is not None for k in range(count)
        ]
        index, sign = np.array([k for k, _ in pairs]), np.array([sign for _, sign in pairs])
        reference = self._at(np.zeros(1, dtype=np.int64))[0]
        return Sides(index, sign, reference, self._scales(index, reference))

    @property
    def num_costs(self) -> int:
        return len(self.sides.which)

    def measured(self, step: Step) -> Array:
        """The signals (n, S) after a step, in the user's units; raises `SignalError` if one is not finite."""
        values = super().measured(step)
        for name, column in zip(self.names, values.T, strict=True):
            refuse(~np.isfinite(column), column, f"the signal {name} must be a finite number")
        return values

    # The constraint

    @property
    def memory(self) -> int:  # type: ignore[override]
        return 1 + self.num_costs if self.varies else 0  # the step, and its limits

    @property
    def in_observation(self) -> bool:  # type: ignore[override]
        return self.varies

    @property
    def largest_threshold(self) -> float | Array:
        return 1.0 if self.num_costs == 1 else np.ones(self.num_costs)

    def by_side(self, signals: Array) -> Array:
        """Signals (..., S) with one entry for each limit, (...) or (..., K)."""
        return self._shaped(signals[..., self.sides.which])

    def read(self, step: Step) -> Array:
        return self.by_side(self.measured(step))

    @property
    def worst_signal(self) -> float | Array:
        sides = self.sides
        worst = self._shaped(sides.reference + sides.sign * sides.scale)
        return float(worst) if self.num_costs == 1 else worst

    def first_signal(self, observations: Observations) -> Array:
        """The limits themselves: no action led to the first state, so it exceeds nothing."""
        return self._shaped(np.tile(self.sides.reference, (batch_size(observations), 1)))

    def normalise(self, signal: Array) -> Array:
        return np.clip(self._shaped(self.sides.costs(self._columns(signal))), 0.0, 1.0)

    def true_cost(self, signal: Array) -> Array:
        return np.maximum(self._excess(signal), 0.0)

    def limits_at(self, steps: NDArray[np.int64]) -> Array:
        return self._shaped(self._at(steps))

    def margins(self, costs: Array, thresholds: Array, measured: Array) -> Array:
        """The distances (n,) to the nearest limit; of several signals as shares of `scale`."""
        sides = self.sides
        moved = 2 * (self._columns(thresholds) - 0.5)  # by how much a limit differs from the reference, in scales
        distances = sides.sign * (sides.reference - measured[:, sides.which]) / sides.scale + moved
        return np.asarray((distances * sides.scale if len(self.sources) == 1 else distances).min(axis=1))

    def clearance(self, signals: Array) -> float | None:
        """In the signal's units; of several signals as a share of `scale`."""
        excess = self._columns(self._excess(signals))
        if not len(excess):
            return None
        return -float((excess if len(self.sources) == 1 else excess / self.sides.scale).max())

    def in_units(self, distance: float) -> tuple[float, ...]:
        return tuple((2 * distance * self.sides.scale).tolist())

    def settled(self, limits: Array) -> Within:
        if not self.varies or not len(limits):
            return self
        columns = self._columns(limits)
        upper = int((self.sides.sign > 0).sum())
        high, low = columns[:, :upper], columns[:, upper:]
        return replace(
            self,
            high=high.__getitem__ if self.high is not None else None,
            low=low.__getitem__ if self.low is not None else None,
            scale=float(self.sides.scale.max()),
        )

    def start(self, observations: Observations) -> Array:
        return self._memory(np.zeros(batch_size(observations), dtype=np.int64))

    def threshold(self, state: Array) -> Array:
        sides = self.sides
        if not self.varies:
            return self._shaped(np.full((len(state), self.num_costs), 0.5 + TOLERANCE))
        thresholds = sides.costs(state[:, 1:])
        if (beyond := ~((thresholds > 0) & (thresholds < 1))).any():
            row, k = np.argwhere(beyond)[0]
            raise ValueError(
                f"the limit of {self.names[sides.which[k]]} is {state[row, k + 1]:g} at step {int(state[row, 0])}, "
                f"further from its initial value, {sides.reference[k]:g}, than scale={sides.scale[k]:g}: give a larger "
                "scale."
            )
        return self._shaped(thresholds + TOLERANCE)

    def update(self, state: Array, cost: Array, upper_bound: Array) -> Array:
        return self._memory(state[:, 0].astype(np.int64) + 1) if self.varies else state

    def violated(self, first: Array, signals: Array) -> bool:
        excess = self._columns(self._excess(signals)) / (2 * self.sides.scale)
        return exceeds(float(excess.max(initial=-math.inf)), 0.0)

    # Internals

    def _excess(self, signals: Array) -> Array:
        """Excess over the limits of the signals (T,) or (T, K) of successive steps since the reset."""
        limits = self._at(np.arange(len(signals))) if self.varies else self.sides.reference
        return self._shaped(self.sides.sign * (self._columns(signals) - limits))

    def _memory(self, steps: NDArray[np.int64]) -> Array:
        if not self.varies:
            return np.zeros((len(steps), 0))
        return np.concatenate([steps[:, None].astype(np.float64), self._at(steps)], axis=1)

    def _shaped(self, values: Array) -> Array:
        """Values (..., K), without the last axis if there is only one limit."""
        return values[..., 0] if self.num_costs == 1 else values

    def _columns(self, values: Array) -> Array:
        values = np.asarray(values, dtype=np.float64)
        return values[..., None] if self.num_costs == 1 else values

    def _at(self, steps: NDArray[np.int64]) -> Array:
        """The limits (n, K) of these steps (n,)."""
        given = [self._per_signal(name, steps) for name in ("high", "low") if getattr(self, name) is not None]
        return np.concatenate(given, axis=1)

    def _per_signal(self, name: str, steps: NDArray[np.int64]) -> Array:
        """The limit `low` or `high` at these steps (n,), (n, S); infinite if there is none."""
        limit, shape = getattr(self, name), (len(steps), len(self.sources))
        if limit is None:
            return np.full(shape, -math.inf if name == "low" else math.inf)
        if isinstance(limit, Mapping):
            limit = _phases(limit)
        values = np.asarray(limit(steps) if callable(limit) else limit, dtype=np.float64)
        if callable(limit) and values.shape == (len(steps),):
            values = values[:, None]
        try:
            values = np.broadcast_to(values, shape)
        except ValueError:
            raise ValueError(
                f"Within({name}={getattr(self, name)!r}) has shape {values.shape}, expected one limit, or one for each "
                f"of the {shape[1]} signals; a function returns it for each of {shape[0]} steps."
            ) from None
        if not np.isfinite(values).all():
            raise ValueError(f"Within({name}={getattr(self, name)!r}) must be finite: leave the limit out for none.")
        return values

    def _scales(self, index: NDArray[np.int64], reference: Array) -> Array:
        """The scale of each limit (K,)."""
        if self.scale is not None:
            return np.full(len(index), float(self.scale))
        if any(callable(limit) for limit in (self.low, self.high)):
            raise ValueError(f"Within({self.signal!r}) has a function for a limit: give scale=<how far it may move>.")
        limits = reference[None]
        if self.varies:
            changes = [step for limit in (self.low, self.high) if isinstance(limit, Mapping) for step in limit]
            limits = self._at(np.array(sorted({0, *changes}), dtype=np.int64))
        scales = np.empty(len(index))
        for k, signal in enumerate(index):
            own = limits[:, index == signal]
            span = np.ptp(own) / 2 if (index == signal).sum() > 1 else np.abs(own).max()
            scales[k] = max(span, 2 * np.ptp(limits[:, k])) or 1.0
        return scales


def Margin(scale: float = 1.0, key: SignalSource = "margin") -> Within:  # noqa: N802 (a constraint like the others)
    """Limit that keeps a signed distance at or above zero: `Within(key, low=0, scale=scale)`.

    The distance is `info[key]`, an entry of the observation, or a function of the observations (n, ...).

    A distance to the nearest of several things is folded: limit the distance to each.

    Args:
        scale: distance below zero at which the cost saturates, in the distance's units.
        key: `info[key]`, an entry of the observation, or a function of the observations (n, ...).

    Example:
        >>> safexp.Margin(scale=0.5)
        Within(signal='margin', low=0.0, high=None, scale=0.5)
    """
    return Within(key, low=0.0, scale=scale)


def _schedule(name: str, limits: Mapping[Any, Any]) -> dict[int, float]:
    """A schedule {first step: limit} in the order of its steps; in JSON the steps are strings."""
    try:
        found = {int(step): float(limit) for step, limit in sorted(limits.items(), key=lambda item: int(item[0]))}
    except (TypeError, ValueError):
        found = {}
    if next(iter(found), None) != 0:
        raise ValueError(
            f"Within({name}={dict(limits)!r}) must map the first step of each phase to its limit, starting at step 0: "
            "{0: 100.0, 50: 80.0}."
        )
    return found


def _phases(schedule: Mapping[int, float]) -> Callable[[NDArray[np.int64]], Array]:
    """A schedule as a function of the steps."""
    steps, limits = np.array(list(schedule)), np.array(list(schedule.values()))
    return lambda asked: limits[np.searchsorted(steps, asked, side="right") - 1]
