"""Reservoir sample and range of a quantifier's training inputs, for detecting input shift later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array

SAMPLE = 256
"""Number of inputs kept: enough to detect a shift of a distribution by a tenth, in 50 kB of a robot's file."""

NAME = "inputs."
"""Prefix of the array names in a file."""


class Shift(NamedTuple):
    """Shift of one input (s0, s1, … of an observation, a signal by its name, a0, a1, … of an action) from training.

    `distance` is the largest difference of the two distribution functions, from 0 (equal) to 1 (disjoint); `outside` is
    the share of inputs outside the range of training.
    """

    name: str
    distance: float
    outside: float


class InputSample:
    """Reservoir sample of all (state, action) pairs of a training, with their range and number."""

    def __init__(self, seed: int = 0) -> None:
        self.count = 0
        self.num_states = 0
        self._rng = np.random.default_rng(seed)
        self._sample: NDArray[np.float32] = np.zeros((0, 0), dtype=np.float32)
        self._draws: Array = np.zeros(0)
        self._range: Array = np.zeros((2, 0))

    def add(self, states: Array, actions: Array) -> None:
        """Add states (n, ds) and actions (n, da)."""
        if not len(states):
            return
        pairs = np.concatenate([states, actions], axis=1)
        ends = np.stack([pairs.min(axis=0), pairs.max(axis=0)])
        # Every pair draws a random number; the pairs with the largest are kept.
        draws = self._rng.random(len(pairs))
        latest = pairs.astype(np.float32)
        if self.count:
            ends = np.stack([np.minimum(self._range[0], ends[0]), np.maximum(self._range[1], ends[1])])
            latest, draws = np.concatenate([self._sample, latest]), np.concatenate([self._draws, draws])
        kept = np.argsort(-draws)[:SAMPLE]
        self._sample, self._draws, self._range = latest[kept], draws[kept], ends
        self.count += len(pairs)
        self.num_states = states.shape[1]

    def compare(self, states: Array, actions: Array, signals: Sequence[str] = ()) -> tuple[list[Shift], float]:
        """Shift of other inputs, the most shifted first, and the share of them with any entry out of range.

        `signals` are the names of the last entries of a state, which follow the encoded observation.
        """
        pairs = np.concatenate([states, actions], axis=1)
        if pairs.shape[1:] != self._sample.shape[1:]:
            raise ValueError(f"inputs have {pairs.shape[1]} entries, but training saw {self._sample.shape[1]}.")
        outside = (pairs < self._range[0]) | (pairs > self._range[1])
        observed = [f"s{k}" for k in range(self.num_states - len(signals))]
        names = [*observed, *signals, *(f"a{k}" for k in range(actions.shape[1]))]
        found = [
            Shift(name, _distance(self._sample[:, k], pairs[:, k].astype(np.float32)), float(outside[:, k].mean()))
            for k, name in enumerate(names)
        ]
        return sorted(found, key=lambda one: -one.distance), float(outside.any(axis=1).mean())

    def state(self) -> dict[str, NDArray[Any]]:
        """The sample as named arrays."""
        if not self.count:
            return {}
        counts = np.array([self.count, self.num_states])
        parts: dict[str, NDArray[Any]] = {
            "sample": self._sample,
            "draws": self._draws,
            "range": self._range,
            "counts": counts,
        }
        return {f"{NAME}{name}": part for name, part in parts.items()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restore what `state` returned from the arrays of a file; older files have none."""
        if f"{NAME}counts" in arrays:
            self._sample = np.array(arrays[f"{NAME}sample"], dtype=np.float32)
            self._draws, self._range = (
                np.array(arrays[f"{NAME}{name}"], dtype=np.float64) for name in ("draws", "range")
            )
            self.count, self.num_states = (int(number) for number in np.array(arrays[f"{NAME}counts"], dtype=np.int64))


def _distance(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """The Kolmogorov-Smirnov distance of two samples."""
    both = np.concatenate([one, other])
    shares = (np.searchsorted(np.sort(part), both, side="right") / len(part) for part in (one, other))
    return float(np.abs(next(shares) - next(shares)).max())
