"""Several constraints at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from safexp.constraints.base import (
    Constraint,
)
from safexp.core.arrays import Array, Observations
from safexp.core.costs import Step


@dataclass(frozen=True, init=False)
class AllOf(Constraint):
    """Several constraints at once: signals, costs and thresholds get a last axis K, one entry for each."""

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
        return np.array([part.largest_threshold for part in self.parts])

    @property
    def grows(self) -> bool:
        return any(part.grows for part in self.parts)

    def signal(self, step: Step) -> Array:
        return np.stack([part.signal(step) for part in self.parts], axis=-1)

    def salvage(self, step: Step) -> Array:
        return np.stack([part.salvage(step) for part in self.parts], axis=-1)

    @property
    def worst_signal(self) -> Array:
        return np.array([part.worst_signal for part in self.parts])

    def first_signal(self, observations: Observations) -> Array:
        return np.stack([part.first_signal(observations) for part in self.parts], axis=-1)

    def logged(self, costs: Array, margins: Array | None) -> Array:
        if costs.ndim != 2 or costs.shape[1] != len(self.parts):
            raise ValueError(f"logged costs have shape {costs.shape}, expected (n, {len(self.parts)}) for AllOf.")
        return np.stack([part.logged(costs[:, k], margins) for k, part in enumerate(self.parts)], axis=-1)

    def normalise(self, signal: Array) -> Array:
        return np.stack([part.normalise(signal[..., k]) for k, part in enumerate(self.parts)], axis=-1)

    def true_cost(self, signal: Array) -> Array:
        return np.stack([part.true_cost(signal[..., k]) for k, part in enumerate(self.parts)], axis=-1)

    def limits_at(self, steps: NDArray[np.int64]) -> Array:
        return np.stack([part.limits_at(steps) for part in self.parts], axis=-1)

    def settled(self, limits: Array) -> AllOf:
        return AllOf(*(part.settled(limits[:, k]) for k, part in enumerate(self.parts)))

    def start(self, observations: Observations) -> Array:
        return np.concatenate([part.start(observations) for part in self.parts], axis=-1)

    def threshold(self, state: Array) -> Array:
        return np.stack([part.threshold(own) for part, own in self._split(state)], axis=-1)

    def update(self, state: Array, cost: Array, upper_bound: Array) -> Array:
        own_states = enumerate(self._split(state))
        return np.concatenate(
            [part.update(own, cost[:, k], upper_bound[:, k]) for k, (part, own) in own_states], axis=-1
        )

    def violated(self, first: Array, signals: Array) -> bool:
        return any(part.violated(first[k], signals[:, k]) for k, part in enumerate(self.parts))

    def _split(self, state: Array) -> list[tuple[Constraint, Array]]:
        ends = np.cumsum([part.memory for part in self.parts])
        return list(zip(self.parts, np.split(state, ends[:-1], axis=1), strict=True))
