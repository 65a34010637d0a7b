"""Selection of the few inputs that a change depends on."""

from __future__ import annotations

import numpy as np

from safexp.core.arrays import Array, Flags
from safexp.quantifiers.regression import standards

LEAST_GAIN = 0.05
"""Share of the held-out error that a further input must explain."""

MOST_INPUTS = 6
MOST_ROWS = 2000


def relevant_inputs(observed: Array, actions: Array, values: Array, train: Flags, weights: Array) -> tuple[int, ...]:
    """Indices of the observed entries (n, d) that predict the values (n, v), beside the actions (n, da).

    Greedy forward selection: in every round the entry is added that, with its square and its products with all inputs
    chosen so far, explains most of what a quadratic model of those leaves of the held-out rows (those not in `train`).
    Residuals count in proportion to their weights (n,), and every value as much as any other.
    """
    keep = np.linspace(0, len(values) - 1, min(len(values), MOST_ROWS)).astype(np.int64)
    observed, actions, train, weights = observed[keep], actions[keep], train[keep], weights[keep, None]
    values = weights * values[keep]
    values = values / np.maximum(np.sqrt((values**2).mean(axis=0)), np.finfo(np.float64).tiny)
    shift, scale = standards(observed)
    varied = np.flatnonzero(np.ptp(observed, axis=0) > 0)
    standard = (observed - shift) / scale
    shift, scale = standards(actions)
    inputs = [(actions - shift) / scale]
    chosen: list[int] = []
    features = weights * _quadratic(inputs[0])
    while len(chosen) < MOST_INPUTS:
        left = values - _fitted(features, values, train)
        before = _error(left, train)
        gains = {}
        for entry in varied:
            if entry not in chosen:
                more = weights * _products(standard[:, [entry]], np.concatenate(inputs, axis=1))
                gains[entry] = 1 - _error(left - _fitted(more, left, train), train) / max(before, np.finfo(float).tiny)
        best = max(gains, key=gains.__getitem__, default=None)
        if best is None or not gains[best] > LEAST_GAIN:
            break
        chosen.append(int(best))
        inputs.append(standard[:, [best]])
        features = weights * _quadratic(np.concatenate(inputs, axis=1))
    return tuple(sorted(chosen))


def _quadratic(inputs: Array) -> Array:
    """All monomials (n, p) up to degree 2 of inputs (n, d)."""
    first, second = np.triu_indices(inputs.shape[1])
    return np.concatenate([np.ones((len(inputs), 1)), inputs, inputs[:, first] * inputs[:, second]], axis=1)


def _products(entry: Array, others: Array) -> Array:
    """An entry (n, 1), its square, and its products with other inputs (n, d)."""
    return np.concatenate([np.ones_like(entry), entry, entry**2, entry * others], axis=1)


def _fitted(features: Array, values: Array, train: Flags) -> Array:
    """Least-squares prediction (n, v), learned from the rows in `train`."""
    gram = features[train].T @ features[train]
    ridge = 1e-8 * np.trace(gram) / len(gram)
    return features @ np.linalg.solve(gram + ridge * np.eye(len(gram)), features[train].T @ values[train])


def _error(left: Array, train: Flags) -> float:
    return float((left[~train] ** 2).mean())
