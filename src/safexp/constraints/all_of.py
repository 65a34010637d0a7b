"""Several constraints at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safexp.constraints.base import Constraint
from safexp.core.arrays import Array, Observations
from safexp.core.costs import Step
from safexp.core.signals import SignalSource


@dataclass(frozen=True, init=False)
class AllOf(Constraint):
    """Several constraints at once; signals, costs and thresholds get a last axis K, one entry for each limit.

    A state in which nothing satisfies all limits stops the episode, so check each limit alone if there are many stops.
    Limits on several signals are better given as one `Within`.

    Args:
        parts: the constraints, of which each may have its own cost.

    Example:
        >>> both = safexp.AllOf(safexp.Budget(3.0), safexp.Instantaneous(0.5, cost="heat"))
        >>> both.threshold(both.start(np.zeros((1, 4))))
        array([[3. , 0.5]])
    """

    parts: tuple[Constraint, ...]

    def __init__(self, *parts: Constraint) -> None:
        if not parts or any(not isinstance(part, Constraint) or isinstance(part, AllOf) for part in parts):
            raise ValueError(f"AllOf(...) takes one or more simple constraints, got {parts!r}.")
        object.__setattr__(self, "parts", parts)

    @property
    def memory(self) -> int:  # type: ignore[override]
        return sum(part.memory for part in self.parts)

    @property
    def in_observation(self) -> bool:  # type: ignore[override]
        return any(part.in_observation for part in self.parts)

    @property
    def on_realised_cost(self) -> bool:  # type: ignore[override]
        return any(part.on_realised_cost for part in self.parts)

    @property
    def on_every_step(self) -> bool:  # type: ignore[override]
        return all(part.on_every_step for part in self.parts)

    @property
    def largest_threshold(self) -> Array:
        return np.concatenate([np.atleast_1d(part.largest_threshold) for part in self.parts])

    @property
    def sources(self) -> tuple[SignalSource, ...]:
        return tuple(source for part in self.parts for source in part.sources)

    def measured(self, step: Step) -> Array:
        return np.concatenate([part.measured(step) for part in self.parts], axis=1)

    def now(self, observations: Observations) -> Array:
        return np.concatenate([part.now(observations) for part in self.parts], axis=1)

    @property
    def grows(self) -> bool:
        return any(part.grows for part in self.parts)

    @property
    def columns(self) -> list[slice | int]:
        """Columns of each part's costs among the K."""
        ends = np.cumsum([part.num_costs for part in self.parts]).tolist()
        return [
            end - 1 if part.num_costs == 1 else slice(end - part.num_costs, end)
            for part, end in zip(self.parts, ends, strict=True)
        ]

    def read(self, step: Step) -> Array:
        return _side_by_side([part.read(step) for part in self.parts])

    def salvage(self, step: Step) -> Array:
        return _side_by_side([part.salvage(step) for part in self.parts])

    @property
    def worst_signal(self) -> Array:
        return np.concatenate([np.atleast_1d(part.worst_signal) for part in self.parts])

    def first_signal(self, observations: Observations) -> Array:
        return _side_by_side([part.first_signal(observations) for part in self.parts])

    def normalise(self, signal: Array) -> Array:
        return self._each(lambda part, own: part.normalise(own), signal)

    def true_cost(self, signal: Array) -> Array:
        return self._each(lambda part, own: part.true_cost(own), signal)

    def in_units(self, distance: float) -> tuple[float, ...]:
        return tuple(own for part in self.parts for own in part.in_units(distance))

    def limits_at(self, steps: NDArray[np.int64]) -> Array:
        return _side_by_side([part.limits_at(steps) for part in self.parts])

    def settled(self, limits: Array) -> AllOf:
        return AllOf(*(part.settled(limits[:, own]) for part, own in zip(self.parts, self.columns, strict=True)))

    def start(self, observations: Observations) -> Array:
        return np.concatenate([part.start(observations) for part in self.parts], axis=-1)

    def threshold(self, state: Array) -> Array:
        return _side_by_side([part.threshold(own) for part, own in self._split(state)])

    def update(self, state: Array, cost: Array, upper_bound: Array) -> Array:
        states = zip(self._split(state), self.columns, strict=True)
        return np.concatenate([part.update(own, cost[:, k], upper_bound[:, k]) for (part, own), k in states], axis=-1)

    def violated(self, first: Array, signals: Array) -> bool:
        return any(
            part.violated(first[own], signals[:, own]) for part, own in zip(self.parts, self.columns, strict=True)
        )

    def _each(self, function: Callable[[Constraint, Array], Array], values: Array) -> Array:
        own = zip(self.parts, self.columns, strict=True)
        return _side_by_side([function(part, values[..., columns]) for part, columns in own], values.ndim)

    def _split(self, state: Array) -> list[tuple[Constraint, Array]]:
        ends = np.cumsum([part.memory for part in self.parts])
        return list(zip(self.parts, np.split(state, ends[:-1], axis=1), strict=True))


def _side_by_side(values: Sequence[Array], ndim: int = 2) -> Array:
    """The parts' values (n,) or (n, k) as columns (n, K); with ndim 1, () or (k,) as (K,)."""
    return np.concatenate([part[..., None] if np.ndim(part) < ndim else part for part in values], axis=-1)
