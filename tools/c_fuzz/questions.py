"""Random questions to a shield, also at boundaries, and with numbers that are not finite."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from c_fuzz.shields import Case
from safexp.core.encoding import decode_actions

ODD = np.array([np.nan, np.inf, -np.inf, 5e-324, -5e-324, 1e-310, 0.0, -0.0, 1e300, -1e300, 1e18, 3.5e38])
"""Numbers that arithmetic treats specially."""


class Questions(NamedTuple):
    """Observations (n, d) as flat numbers, signals (n, S), proposals (n, a), thresholds (n, K), last actions (n, a)."""

    observations: NDArray[np.float64]
    measured: NDArray[np.float64] | None
    proposals: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    last_safe: NDArray[np.float64]

    def rows(self, index: Any) -> Questions:
        """Some of the questions."""
        return Questions(*(None if part is None else part[index] for part in self))


def ask(case: Case, count: int, rng: np.random.Generator, odd: float = 0.02) -> Questions:
    """Questions near the data, at it, at its boundaries and beyond it; a share `odd` of all rows has an odd number."""
    shield = case.shield
    observations = _near(case.observations, count, rng)
    whole = case.observations == np.round(case.observations)
    columns = whole.all(axis=0)
    observations[:, columns] = np.round(observations[:, columns])
    actions = case.actions.reshape(len(case.actions), -1)
    if not isinstance(shield.action_space, spaces.Box):
        chosen = shield.candidates[rng.integers(len(shield.candidates), size=count)]
        proposals = decode_actions(shield.action_space, chosen).reshape(count, -1).astype(np.float64)
        last = proposals.copy()
    else:
        proposals, last = _near(actions, count, rng), _near(actions, count, rng)
        last[rng.random(count) < 0.5] = np.nan
        _spoil(proposals, odd, rng)
        _spoil(last, odd, rng)
    _spoil(observations, odd, rng)
    signals = shield.quantifier.num_signals
    measured = None
    if signals:
        measured = rng.uniform(-1.3, 1.3, (count, signals))
        _spoil(measured, odd / 2, rng)
    thresholds = _thresholds(count, shield.quantifier.num_costs, rng)
    return Questions(observations, measured, proposals, thresholds, last)


def at_bounds(questions: Questions, bounds: NDArray[np.float64], rng: np.random.Generator) -> Questions:
    """The same questions, with a tenth of the thresholds at exactly the bounds (n, K), or next to them."""
    thresholds = questions.thresholds.copy()
    rows = np.flatnonzero((rng.random(len(thresholds)) < 0.1) & np.isfinite(bounds).all(axis=1))
    moved = bounds[rows] + rng.choice([0.0, 1e-12, -1e-12, 1e-8, -1e-8], (len(rows), 1))
    thresholds[rows] = moved
    return questions._replace(thresholds=thresholds)


def _near(data: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Rows of the data, combinations of its entries, its range, its edges, and beyond."""
    data = data.astype(np.float64)
    rows, entries = rng.integers(len(data), size=(count, data.shape[1])), np.arange(data.shape[1])
    found = data[rows, entries]
    kind = rng.integers(5, size=count)
    found[kind == 0] = data[rows[kind == 0, 0]]
    low, high = data.min(axis=0), data.max(axis=0)
    between = rng.uniform(low, high, (count, len(low)))
    found[kind == 1] = between[kind == 1]
    edge = np.where(rng.random((count, len(low))) < 0.5, low, high)
    one = rng.random((count, len(low))) < 1 / len(low)
    found = np.where((kind == 2)[:, None] & one, edge, found)
    beyond = between + rng.normal(scale=0.3 * (high - low), size=between.shape)
    return np.where((kind == 3)[:, None], beyond, found)


def _thresholds(count: int, costs: int, rng: np.random.Generator) -> NDArray[np.float64]:
    found = rng.uniform(0, 1.05, (count, costs))
    found[rng.random(count) < 0.4] = 0.5 + 1e-9  # the threshold of limits on signals
    special = rng.random((count, costs)) < 0.02
    return np.where(special, rng.choice([0.0, 1.0, np.inf, -np.inf, 5e-324, 2.0], (count, costs)), found)


def _spoil(values: NDArray[np.float64], share: float, rng: np.random.Generator) -> None:
    """Put an odd number into a share of the rows."""
    rows = np.flatnonzero(rng.random(len(values)) < share)
    values[rows, rng.integers(values.shape[1], size=len(rows))] = rng.choice(ODD, len(rows))
