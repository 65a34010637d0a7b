"""Stretches in the order of their boldness, and splits that hold out the boldest."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions

HELD_OUT = 0.2
"""Share of stretches that every rung holds out."""


def stretch_maxima(scores: Array, stretches: NDArray[np.int64]) -> Array:
    """The largest score of each stretch, in the order of the stretches; NaN where none of its steps has one."""
    numbers, index = np.unique(stretches, return_inverse=True)
    largest = np.full(len(numbers), np.nan)
    np.fmax.at(largest, index, scores)
    return largest


def by_boldness(quantifier: Quantifier, data: Transitions, stretches: NDArray[np.int64]) -> NDArray[np.int64]:
    """The stretches sorted by how near they came to their limit, ties by how unusual their inputs are; boldest last."""
    inputs = np.concatenate([data.states, data.actions], axis=1)
    unusual = (np.abs(inputs - inputs.mean(axis=0)) / np.maximum(inputs.std(axis=0), np.finfo(np.float64).tiny)).max(
        axis=1
    )
    return np.lexsort([stretch_maxima(values, stretches) for values in (unusual, quantifier.nearness(data))])


def ladder(order: NDArray[np.int64], rungs: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Pairs of (learned, held out) stretches, from stretches in the order of boldness; the boldest are held out last.

    Every rung holds out the boldest fifth of the remaining stretches. In the end every second one of those that remain
    is held out from all others.
    """
    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    left = len(order)
    while len(found) < rungs and (below := left - math.ceil(left * HELD_OUT)) > 0:
        found.append((order[:below], order[below:left]))
        left = below
    for start in (0, 1) if found else ():
        held_out = order[start:left:2]
        if len(held_out):
            found.append((np.setdiff1d(order, held_out), held_out))
    return found[::-1]
