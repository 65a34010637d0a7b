"""Bounded data set of a quantifier: the most informative transitions of a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Transitions

SHARES = 4
"""Number of classes, each with an equal share of the capacity: random, costly, near the limit, and new steps."""


class DataSet:
    """At most `capacity` transitions, however long the run.

    While there is room everything is kept. Then a quarter of the places each goes to

    - a uniform sample of the whole run (every transition draws a number; the largest are kept),
    - costly steps, those of the latest updates first, if the data are costs,
    - the steps with the smallest |margin|, among those with margins,
    - a uniform sample of the latest update.

    Places that a class cannot fill go to the uniform sample. The same updates in the same order keep the same rows.

    Args:
        capacity: number of transitions kept.
        seed: seed of the random sample.
        costly: whether `costs` are costs. Choosing changes by their sign would bias their mean.
    """

    def __init__(self, capacity: int, seed: int, *, costly: bool = True) -> None:
        if capacity < SHARES:
            raise ValueError(f"capacity={capacity} must be at least {SHARES} transitions.")
        self.capacity = capacity
        self.seed = seed
        self.costly = costly
        self.rows: Transitions | None = None
        self._draws: Array = np.zeros(0)
        self._arrivals: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.updates = 0

    def __len__(self) -> int:
        return len(self._draws)

    @property
    def num_states(self) -> int:
        """Number of entries of an input that belong to the state."""
        return 0 if self.rows is None else self.rows.states.shape[1]

    def add(self, data: Transitions) -> None:
        """Add transitions and drop those beyond the capacity; raises `ValueError` on invalid ones."""
        check_transitions(data)
        if self.rows is not None:
            check_alike(self.rows, data)
        draws = np.random.default_rng([self.seed, self.updates]).random(len(data.costs))
        arrivals = np.full(len(draws), self.updates, dtype=np.int64)
        if self.rows is not None:
            data = _joined(self.rows, data)
            draws, arrivals = np.concatenate([self._draws, draws]), np.concatenate([self._arrivals, arrivals])
        kept = self._choose(data, draws, arrivals)
        self.rows = Transitions(*(None if part is None else part[kept] for part in data))  # type: ignore[arg-type]
        self._draws, self._arrivals = draws[kept], arrivals[kept]
        self.updates += 1

    def _choose(self, data: Transitions, draws: Array, arrivals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Indices of the rows to keep, in order."""
        if len(draws) <= self.capacity:
            return np.arange(len(draws))
        share = self.capacity // SHARES
        kept = np.zeros(len(draws), dtype=bool)

        def take(count: int, order: NDArray[np.int64]) -> None:
            kept[order[~kept[order]][:count]] = True

        latest_first = np.lexsort((-draws, -arrivals))
        take(share, np.argsort(-draws))
        if self.costly:
            take(share, latest_first[data.costs[latest_first] > 0])
        if data.margins is not None:
            take(share, np.argsort(np.abs(data.margins), kind="stable")[: int(np.isfinite(data.margins).sum())])
        take(share, latest_first[arrivals[latest_first] == self.updates])
        take(self.capacity - int(kept.sum()), np.argsort(-draws))
        return np.flatnonzero(kept)

    def state(self) -> dict[str, NDArray[np.float64]]:
        """The data set as named arrays."""
        if self.rows is None:
            return {}
        arrays = {f"data.{name}": part for name, part in self.rows._asdict().items() if part is not None}
        counters = {"data.draws": self._draws, "data.arrivals": self._arrivals.astype(np.float64)}
        return {**arrays, **counters, "data.updates": np.array([float(self.updates)])}

    def restore(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Restore what `state` returned."""
        if "data.costs" not in state:
            self.rows, self._draws, self._arrivals, self.updates = None, np.zeros(0), np.zeros(0, dtype=np.int64), 0
            return
        if len(state["data.costs"]) > self.capacity:
            raise ValueError(
                f"{len(state['data.costs'])} saved transitions do not fit: give capacity={len(state['data.costs'])}."
            )
        parts = {name: np.array(state[f"data.{name}"]) for name in Transitions._fields if f"data.{name}" in state}
        self.rows = Transitions(**parts)  # type: ignore[arg-type]
        self._draws = np.array(state["data.draws"])
        self._arrivals = np.array(state["data.arrivals"]).astype(np.int64)
        self.updates = int(state["data.updates"][0])


def check_transitions(data: Transitions) -> None:
    """Raise `ValueError` unless there is one cost for each pair of state and action and all values are finite."""
    n = len(data.costs)
    if data.costs.ndim != 1:
        raise ValueError(
            f"costs have shape {data.costs.shape}, expected (n,): use one quantifier for each of several costs, "
            "PerCost(...)."
        )
    shapes = {name: part.shape for name, part in data._asdict().items() if part is not None}
    flat = data.states.ndim == data.actions.ndim == 2 and (data.margins is None or data.margins.ndim == 1)
    if not flat or any(shape[0] != n for shape in shapes.values()):
        raise ValueError(f"transitions have shapes {shapes}, expected states (n, ds), actions (n, da), the rest (n,).")
    for name, part in data._asdict().items():
        if part is not None and not np.isfinite(part).all():
            row = int(np.flatnonzero(~np.isfinite(part).reshape(n, -1).all(axis=1))[0])
            raise ValueError(f"transition {row} has {name} {part[row]}: all values must be finite.")


def check_alike(known: Transitions, data: Transitions) -> None:
    """Raise `ValueError` if new transitions do not have the shapes of the known ones."""
    for name in ("states", "actions"):
        old, new = getattr(known, name).shape[1], getattr(data, name).shape[1]
        if old != new:
            raise ValueError(f"{name} have {new} entries, but the quantifier has learned from {old}.")


def _joined(old: Transitions, new: Transitions) -> Transitions:
    """Concatenate, with NaN for margins that only one of them has."""
    margins = None
    if old.margins is not None or new.margins is not None:
        margins = np.concatenate(
            [np.full(len(one.costs), np.nan) if one.margins is None else one.margins for one in (old, new)]
        )
    states, actions, costs = (np.concatenate(parts) for parts in zip(old[:3], new[:3], strict=True))
    return Transitions(states, actions, costs, margins)
